"""What the groups of the backends share: the options and the lists of the interface, taken apart."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from raycompat.util.collective.collective_group.base_collective_group import BaseGroup
from raycompat.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

#: Milliseconds for a group to become complete, and for an operation, unless the program says others.
DEFAULT_TIMEOUT_MS = 30_000


class PlainGroup(BaseGroup):
    """A group whose operations get the tensors and the values of the options themselves."""

    def allreduce(
        self, tensor: list[Any], allreduce_options: AllReduceOptions | None = None
    ) -> None:
        """Combine the tensors of all ranks, in place."""
        self._allreduce(tensor[0], (allreduce_options or AllReduceOptions()).reduceOp)

    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        """Wait for all ranks."""
        self._barrier()

    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions | None = None) -> None:
        """Combine the tensors of all ranks in the root's; the others keep theirs."""
        options = reduce_options or ReduceOptions()
        self._reduce(tensor[0], options.reduceOp, options.root_rank)

    def broadcast(
        self, tensor: list[Any], broadcast_options: BroadcastOptions | None = None
    ) -> None:
        """Copy the root's tensor to all ranks."""
        self._broadcast(tensor[0], (broadcast_options or BroadcastOptions()).root_rank)

    def allgather(
        self,
        tensor_list: list[list[Any]],
        tensor: list[Any],
        allgather_options: AllGatherOptions | None = None,
    ) -> None:
        """Store the tensors of all ranks in a list."""
        self._allgather(tensor_list[0], tensor[0])

    def reducescatter(
        self,
        tensor: list[Any],
        tensor_list: list[list[Any]],
        reducescatter_options: ReduceScatterOptions | None = None,
    ) -> None:
        """Combine the lists of all ranks; each rank keeps the tensor with its number."""
        op = (reducescatter_options or ReduceScatterOptions()).reduceOp
        self._reducescatter(tensor[0], tensor_list[0], op)

    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        """Send a tensor to one rank."""
        self._send(tensor[0], send_options.dst_rank)

    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        """Receive a tensor from one rank."""
        self._recv(tensor[0], recv_options.src_rank)

    @abstractmethod
    def _allreduce(self, tensor: Any, op: ReduceOp) -> None: ...

    @abstractmethod
    def _barrier(self) -> None: ...

    @abstractmethod
    def _reduce(self, tensor: Any, op: ReduceOp, root: int) -> None: ...

    @abstractmethod
    def _broadcast(self, tensor: Any, root: int) -> None: ...

    @abstractmethod
    def _allgather(self, outputs: list[Any], tensor: Any) -> None: ...

    @abstractmethod
    def _reducescatter(self, output: Any, tensors: list[Any], op: ReduceOp) -> None: ...

    @abstractmethod
    def _send(self, tensor: Any, to: int) -> None: ...

    @abstractmethod
    def _recv(self, tensor: Any, source: int) -> None: ...
