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
from raycompat.util.collective.collective_group.base_collective_group import BaseGroup
from raycompat.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    Backend,
    BarrierOptions,
    BroadcastOptions,
    CollectiveError,
    RecvOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

#: With ``0`` in the environment of a member, its groups use connections instead of shared memory.
SHARED_MEMORY_VARIABLE = "RAYCOMPAT_COLLECTIVE_SHARED_MEMORY"

_DEFAULT_TIMEOUT_MS = 30_000


class CPUGroup(BaseGroup):
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
        gloo_timeout: int | None = _DEFAULT_TIMEOUT_MS,
    ) -> None:
        super().__init__(world_size, rank, group_name)
        timeout_s = (gloo_timeout or _DEFAULT_TIMEOUT_MS) / 1000
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

    def allreduce(
        self, tensor: list[Any], allreduce_options: AllReduceOptions | None = None
    ) -> None:
        """Combine the tensors of all ranks, in place."""
        op = (allreduce_options or AllReduceOptions()).reduceOp
        function = _function(op, tensor[0])
        with _tensors.writable(tensor[0]) as values, self._operation() as algorithm:
            if algorithm is not None:
                call = f"allreduce({_tensors.describe(tensor[0])}, {op.name})"
                algorithm.allreduce(call, values, function)

    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        """Wait for all ranks."""
        with self._operation() as algorithm:
            if algorithm is not None:
                algorithm.barrier("barrier()")

    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions | None = None) -> None:
        """Combine the tensors of all ranks in the root's."""
        options = reduce_options or ReduceOptions()
        op, root = options.reduceOp, options.root_rank
        function = _function(op, tensor[0])
        call = f"reduce({_tensors.describe(tensor[0])}, {op.name}, dst_rank={root})"
        with self._result(tensor[0], self.rank == root) as values, self._operation() as algorithm:
            if algorithm is not None:
                algorithm.reduce(call, values, root, function)

    def broadcast(
        self, tensor: list[Any], broadcast_options: BroadcastOptions | None = None
    ) -> None:
        """Copy the root's tensor to all ranks."""
        root = (broadcast_options or BroadcastOptions()).root_rank
        call = f"broadcast({_tensors.describe(tensor[0])}, src_rank={root})"
        with self._result(tensor[0], self.rank != root) as values, self._operation() as algorithm:
            if algorithm is not None:
                algorithm.broadcast(call, values, root)

    @contextlib.contextmanager
    def _result(self, tensor: Any, is_changed: bool) -> Iterator[Array]:
        if is_changed:
            with _tensors.writable(tensor) as values:
                yield values
        else:
            yield _tensors.readable(tensor)

    def allgather(
        self,
        tensor_list: list[list[Any]],
        tensor: list[Any],
        allgather_options: AllGatherOptions | None = None,
    ) -> None:
        """Store the tensors of all ranks in a list."""
        _check_alike(tensor_list[0], tensor[0])
        call = f"allgather({_tensors.describe(tensor[0])})"
        with contextlib.ExitStack() as stack:
            outputs = [stack.enter_context(_tensors.writable(each)) for each in tensor_list[0]]
            algorithm = stack.enter_context(self._operation())
            values = _tensors.readable(tensor[0])
            if algorithm is not None:
                algorithm.allgather(call, outputs, values)
            else:
                outputs[0][:] = values

    def reducescatter(
        self,
        tensor: list[Any],
        tensor_list: list[list[Any]],
        reducescatter_options: ReduceScatterOptions | None = None,
    ) -> None:
        """Combine the lists of all ranks; each rank keeps the tensor with its number."""
        _check_alike(tensor_list[0], tensor[0])
        op = (reducescatter_options or ReduceScatterOptions()).reduceOp
        function = _function(op, tensor[0])
        call = f"reducescatter({_tensors.describe(tensor[0])}, {op.name})"
        inputs = [_tensors.readable(each) for each in tensor_list[0]]
        with _tensors.writable(tensor[0]) as output, self._operation() as algorithm:
            if algorithm is not None:
                algorithm.reducescatter(call, output, inputs, function)
            else:
                output[:] = inputs[0]

    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        """Send a tensor to one rank."""
        call = f"send and recv of {_tensors.describe(tensor[0])}"
        data = _tensors.as_bytes(_tensors.readable(tensor[0]))
        with self._operation():
            self._peers.exchange(call, to=send_options.dst_rank, data=data, alone=True)

    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        """Receive a tensor from one rank."""
        call = f"send and recv of {_tensors.describe(tensor[0])}"
        with _tensors.writable(tensor[0]) as values, self._operation():
            into = _tensors.as_bytes(values)
            self._peers.exchange(call, source=recv_options.src_rank, into=into, alone=True)


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
