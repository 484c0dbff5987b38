"""Tensors that stay in the actor that made them (`tensor_transport`), and how readers get them.

1. A method with a tensor transport returns a value with tensors. The value is pickled without their
   bytes: each becomes its number in a `Parcel`. The tensors stay here, in `kept_tensors`.
2. The parcel refers to a *token*, an object without content that exists for its lifetime only. So the
   cluster keeps the token as long as any process may still read the value.
3. A reader unpickles the value. If it is the same process, it gets the tensors themselves. If it can
   use the same GPU, it opens their memory (CUDA IPC); the opened memory keeps the token. Otherwise it
   calls the actor, which sends copies through the object store.
4. When the last reference to the token is gone, the scheduler notifies the actor's process, which drops
   the tensors.

A reader's call does not wait behind the actor's methods: it runs in a thread beside them. The parcel
refers to the actor, so the actor lives as long as its tensors are needed.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from raycompat import exceptions
from raycompat._caller import kept_tensors, resolve, send, this_process
from raycompat._caller.arguments import Arguments
from raycompat._caller.calls import Call
from raycompat._caller.kept_tensors import Kept
from raycompat._caller.object_ref import ObjectRef
from raycompat._host import processes
from raycompat._messages.objects import WatchObject
from raycompat._pickling import tensor_bytes
from raycompat._pickling.serialization import serialize
from raycompat._pickling.tensor_bytes import Tensor
from raycompat._protocol import failures, gpu_memory, ids
from raycompat._protocol.actor_about import SYSTEM_GROUP
from raycompat._protocol.gpu_memory import GpuMemory
from raycompat._protocol.values import InlineValue, to_wire

if TYPE_CHECKING:
    from raycompat._caller.session import Session


# --- in the actor that makes the tensors ------------------------------------------------------------


class Keeper(tensor_bytes.Reducer):
    """Reduces the tensors of one value to their numbers in a parcel, and keeps them."""

    def __init__(self, session: Session, key: str, about: bytes) -> None:
        """`key` and `about` are those of this process's actor."""
        self._session = session
        self._actor = (key, about)
        self._parcel: Parcel | None = None
        self._holding = Kept()

    def reduce(self, tensor: Tensor, library: str) -> object:
        """Keep a tensor; pickle its number instead.

        An array of another library is copied into a tensor on its device, because other processes can
        open only memory of PyTorch.
        """
        if library != "torch":
            import torch

            return _as_array, (library, torch.from_dlpack(tensor).clone())
        if not tensor_bytes.is_plain(tensor):
            return NotImplemented
        if self._parcel is None:
            self._parcel = self._new_parcel()
        number = len(self._holding.tensors)
        memory = self._share(tensor) if tensor.is_cuda else None
        self._holding.tensors.append(tensor)
        return _take, (self._parcel, number, memory)

    def _new_parcel(self) -> Parcel:
        key, about = self._actor
        (ref,) = self._session.sharing.hold([key])
        token = _new_token(self._session)
        pid = os.getpid()
        where = (self._session.setup.host, pid, processes.start_of(pid))
        return Parcel(token, ref, where, in_order=pickle.loads(about).in_order)

    def _share(self, tensor: object) -> GpuMemory | None:
        """Let readers open the memory of a CUDA tensor. They have the token as long as they need it."""
        shared = gpu_memory.share(tensor)
        if shared is None:
            return None
        memory, release = shared
        self._holding.releases.append(release)
        return memory

    def commit(self) -> None:
        """Keep the tensors until the token is gone: the value has been pickled."""
        if self._parcel is not None:
            key = self._parcel.token._key
            kept_tensors.keep(key, self._holding)
            self._session.send(WatchObject(key))


def _new_token(session: Session) -> ObjectRef[object]:
    """Return a reference to a new object without content, which a node stores at once.

    A small value of this process would travel inside its references, and the cluster would not know
    how long these are needed.
    """
    entry = session.table.add(ids.call_key("tensors", ids.new_task_id()))
    token = ObjectRef._from_key(entry.key, session)
    wire = to_wire(InlineValue(serialize(None)[0].to_bytes()))
    session.sharing.adopt(entry, wire, session.home.address)
    session.table.settle(entry)
    return token


def keeper(session: Session) -> Keeper | None:
    """Return what keeps the tensors of a value in this actor; None outside of actors."""
    executor = this_process.executor()
    if executor is None or executor.actor is None:
        return None
    return Keeper(session, executor.actor.key, executor.actor.spec["about"])


class _Copies:
    """Copies of tensors, whose bytes travel outside of the pickle, also those of CPU tensors."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors

    def __reduce__(self) -> Any:
        on_cpu = tensor_bytes.Reducer()
        parts = [each if each.is_cuda else on_cpu.to_bytes(each) for each in self._tensors]
        return _unpacked, (parts,)


def _unpacked(parts: list[Tensor]) -> list[Tensor]:
    return [each if tensor_bytes.is_tensor(each) else each[0](*each[1]) for each in parts]


def _send_copies(_: object, key: str) -> _Copies:
    """Return copies of the tensors of a token. Runs in the actor that keeps them."""
    holding = kept_tensors.get(key)
    if holding is None:  # the actor was restarted
        raise exceptions.loads_error(failures.object_lost(key))
    return _Copies(holding.tensors)


# --- in readers -------------------------------------------------------------------------------------


class Parcel:
    """The tensors of one value: where they are, and what keeps them there."""

    def __init__(
        self,
        token: ObjectRef[object],
        actor: ObjectRef[object],
        where: tuple[str, int, int | None],
        in_order: bool,
    ) -> None:
        self.token = token
        #: The actor lives as long as this reference exists.
        self._actor = actor
        self._in_order = in_order
        #: The host, the pid and the start of the process that keeps them.
        self._where = where
        self._copies: Tensor = None

    def __reduce__(self) -> Any:
        return Parcel, (self.token, self._actor, self._where, self._in_order)

    def tensor(self, number: int, memory: GpuMemory | None) -> Tensor:
        """Return one of the tensors: itself, its memory opened, or a copy."""
        holding = kept_tensors.get(self.token._key)
        if holding is not None:
            return holding.tensors[number]
        if memory is not None and (device := self._device(memory)) is not None:
            return gpu_memory.opened(memory, device, self.token)
        if self._copies is None:
            self._copies = self._fetch()
        return self._copies[number]

    def _fetch(self) -> Any:
        """Return copies of all tensors of the value, from the actor."""
        session = cast("Session", self.token._session)
        call = Call(ids.call_key("tensors", ids.new_task_id()), "__ray_call__", "tensors")
        call.group = SYSTEM_GROUP
        call.take_arguments(Arguments(session, [_send_copies, self.token._key], {}, call.name))
        channel = session.channel(self._actor._key, in_order=self._in_order)
        try:
            ref = send.call(session, call, channel)
            return resolve.get(session, [ref], None)[0]
        finally:
            session.table.dropped.append(channel)
            session.wake()

    def _device(self, memory: GpuMemory) -> int | None:
        """Return the number of the tensor's GPU here; None if this process cannot open its memory."""
        host, pid, start = self._where
        if host != self.token._session.setup.host:
            return None
        if processes.start_of(pid) != start:  # CUDA would map memory that is gone
            return None
        return gpu_memory.device_of(memory.gpu)


def _take(parcel: Parcel, number: int, memory: GpuMemory | None) -> Tensor:
    return parcel.tensor(number, memory)


def _as_array(library: str, tensor: Tensor) -> object:
    """Return an array of CuPy or JAX with the memory of a tensor; NumPy's where CuPy has no GPU."""
    if library == "jax":
        import jax.numpy

        return jax.numpy.from_dlpack(tensor)
    if not tensor.is_cuda:
        return tensor.numpy()
    import cupy

    return cupy.from_dlpack(tensor)
