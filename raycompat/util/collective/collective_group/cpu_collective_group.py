"""The group of the backend ``gloo``: processes that exchange data in CPU memory."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from raycompat.util.collective import _mesh, _tensors
from raycompat.util.collective._peers import Peers
from raycompat.util.collective._ring import Ring
from raycompat.util.collective._shared_memory import SharedMemory
from raycompat.util.collective._tensors import Array
from raycompat.util.collective.collective_group._plain_group import DEFAULT_TIMEOUT_MS, PlainGroup
from raycompat.util.collective.types import Backend, CollectiveError, ReduceOp

#: With ``0`` in the environment of a member, its groups use connections instead of shared memory.
SHARED_MEMORY_VARIABLE = "RAYCOMPAT_COLLECTIVE_SHARED_MEMORY"


class CPUGroup(PlainGroup):
    """A group in CPU memory: shared memory on one host, connections between hosts.

    Parameters
    ----------
    world_size, rank, group_name
        As for `BaseGroup`.
    gloo_timeout : int, default 30000
        Milliseconds for the group to become complete, and for an operation without progress.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError
        In all methods, when a member fails; the group cannot be used afterwards.

    Notes
    -----
    An operation fails at once when a member's process ends, a few seconds after it is stopped, and
    otherwise after the time-out. Other groups of the process are not affected.
    """

    def __init__(
        self,
        world_size: int,
        rank: int,
        group_name: str,
        gloo_timeout: int | None = DEFAULT_TIMEOUT_MS,
    ) -> None:
        super().__init__(world_size, rank, group_name)
        timeout_s = (gloo_timeout or DEFAULT_TIMEOUT_MS) / 1000
        others, places = _mesh.connect(group_name, world_size, rank, timeout_s)
        self._peers = Peers(rank, world_size, others, timeout_s)
        #: Only one operation runs at a time, in any thread.
        self._lock = threading.Lock()
        self._broken: CollectiveError | None = None
        with self._closing_on_error():
            self._algorithm = self._choose(places)

    def _choose(self, places: list[str]) -> SharedMemory | Ring | None:
        if self.world_size == 1:
            return None
        wishes = os.environ.get(SHARED_MEMORY_VARIABLE, "1") != "0"
        self._peers.barrier(f"the start with {'' if wishes else 'no '}shared memory")
        if wishes and len(set(places)) == 1:
            return SharedMemory(self._peers)
        order = sorted(range(self.world_size), key=lambda rank: (places.index(places[rank]), rank))
        return Ring(self._peers, order)

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        """Close the group when the block raises: the other members may wait for its messages."""
        try:
            yield
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            self._broken = (
                error
                if isinstance(error, CollectiveError)
                else CollectiveError(f"An operation of the group was broken off by {reason}")
            )
            self._peers.close(error if isinstance(error, CollectiveError) else self._broken)
            raise

    @contextlib.contextmanager
    def _operation(self) -> Iterator[Any]:
        with self._lock:
            if self._broken is not None:
                raise CollectiveError(
                    f"The group {self.group_name!r} ended before: {self._broken} Call "
                    "destroy_collective_group and form it again.",
                    self._broken.ranks,
                )
            with self._closing_on_error():
                yield self._algorithm

    def destroy_group(self) -> None:
        """Leave the group; later operations of the others fail."""
        with self._lock:
            if self._algorithm is not None:
                self._algorithm.close()
            if self._broken is None:
                self._broken = CollectiveError(
                    f"This process left the group {self.group_name!r}.", (self.rank,)
                )
                self._peers.close()

    @classmethod
    def backend(cls) -> str:
        """Return ``"GLOO"``, the backend of Ray that this replaces."""
        return Backend.GLOO

    @classmethod
    def check_backend_availability(cls) -> bool:
        """Return True: it needs only numpy and Linux."""
        return True

    # --- operations -------------------------------------------------------------------------------

    def _allreduce(self, tensor: Any, op: ReduceOp) -> None:
        function = _function(op, tensor)
        with _tensors.writable(tensor) as values, self._operation() as algorithm:
            if algorithm is not None:
                call = f"allreduce({_tensors.describe(tensor)}, {op.name})"
                algorithm.allreduce(call, values, function)

    def _barrier(self) -> None:
        with self._operation() as algorithm:
            if algorithm is not None:
                algorithm.barrier("barrier()")

    def _reduce(self, tensor: Any, op: ReduceOp, root: int) -> None:
        function = _function(op, tensor)
        call = f"reduce({_tensors.describe(tensor)}, {op.name}, dst_rank={root})"
        with self._result(tensor, self.rank == root) as values, self._operation() as algorithm:
            if algorithm is not None:
                algorithm.reduce(call, values, root, function)

    def _broadcast(self, tensor: Any, root: int) -> None:
        call = f"broadcast({_tensors.describe(tensor)}, src_rank={root})"
        with self._result(tensor, self.rank != root) as values, self._operation() as algorithm:
            if algorithm is not None:
                algorithm.broadcast(call, values, root)

    @contextlib.contextmanager
    def _result(self, tensor: Any, is_changed: bool) -> Iterator[Array]:
        if is_changed:
            with _tensors.writable(tensor) as values:
                yield values
        else:
            yield _tensors.readable(tensor)

    def _allgather(self, outputs: list[Any], tensor: Any) -> None:
        _check_alike(outputs, tensor)
        call = f"allgather({_tensors.describe(tensor)})"
        with contextlib.ExitStack() as stack:
            arrays = [stack.enter_context(_tensors.writable(each)) for each in outputs]
            algorithm = stack.enter_context(self._operation())
            values = _tensors.readable(tensor)
            if algorithm is not None:
                algorithm.allgather(call, arrays, values)
            else:
                arrays[0][:] = values

    def _reducescatter(self, output: Any, tensors: list[Any], op: ReduceOp) -> None:
        _check_alike(tensors, output)
        function = _function(op, output)
        call = f"reducescatter({_tensors.describe(output)}, {op.name})"
        inputs = [_tensors.readable(each) for each in tensors]
        with _tensors.writable(output) as values, self._operation() as algorithm:
            if algorithm is not None:
                algorithm.reducescatter(call, values, inputs, function)
            else:
                values[:] = inputs[0]

    def _send(self, tensor: Any, to: int) -> None:
        call = f"send and recv of {_tensors.describe(tensor)}"
        data = _tensors.as_bytes(_tensors.readable(tensor))
        with self._operation():
            self._peers.exchange(call, to=to, data=data, alone=True)

    def _recv(self, tensor: Any, source: int) -> None:
        call = f"send and recv of {_tensors.describe(tensor)}"
        with _tensors.writable(tensor) as values, self._operation():
            into = _tensors.as_bytes(values)
            self._peers.exchange(call, source=source, into=into, alone=True)


def _function(op: ReduceOp, tensor: Any) -> _tensors.Reduction:
    """Return the function of a reduction; raise for values that it cannot combine."""
    function = _tensors.reduction(op)
    like = _tensors.readable(tensor)[:1]
    if op in (ReduceOp.MIN, ReduceOp.MAX) and np.iscomplexobj(like):
        raise TypeError(f"{op} has no meaning for complex numbers.")
    return function


def _check_alike(tensors: list[Any], tensor: Any) -> None:
    """Check that all tensors of a list have the shape and dtype of a tensor."""
    expected = _tensors.describe(tensor)
    for rank, each in enumerate(tensors):
        if _tensors.describe(each) != expected:
            raise ValueError(
                f"Tensor {rank} of the list is {_tensors.describe(each)}; all must be as the single "
                f"tensor, {expected}."
            )
