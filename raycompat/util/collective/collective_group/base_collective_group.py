"""The interface of a backend's group."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

from raycompat.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

__all__ = ["BaseGroup"]


class BaseGroup(metaclass=ABCMeta):
    """One process's membership in a group; subclass it for your own backend.

    Tensors are passed as a list with one tensor, and lists of tensors as a list with one list.

    Parameters
    ----------
    world_size : int
        Number of processes of the group.
    rank : int
        The number of this process, from 0.
    group_name : str
        The name of the group in operations.

    Examples
    --------
    A backend overrides all methods. This one is for a group of one process, as when a program is tried
    without the others:

    >>> import numpy as np
    >>> from raycompat.util.collective.collective_group import (
    ...     base_collective_group as base,
    ... )
    >>> from raycompat.util.collective.backend_registry import (
    ...     register_collective_backend,
    ... )
    >>> class Alone(base.BaseGroup):
    ...     @classmethod
    ...     def backend(cls):
    ...         return "ALONE"
    ...
    ...     @classmethod
    ...     def check_backend_availability(cls):
    ...         return True
    ...
    ...     def allreduce(self, tensor, allreduce_options=None):
    ...         pass  # the sum of one tensor is the tensor
    ...
    ...     def reduce(self, tensor, reduce_options=None):
    ...         pass
    ...
    ...     def broadcast(self, tensor, broadcast_options=None):
    ...         pass
    ...
    ...     def barrier(self, barrier_options=None):
    ...         pass
    ...
    ...     def allgather(self, tensor_list, tensor, allgather_options=None):
    ...         tensor_list[0][0][:] = tensor[0]
    ...
    ...     def reducescatter(
    ...         self, tensor, tensor_list, reducescatter_options=None
    ...     ):
    ...         tensor[0][:] = tensor_list[0][0]
    ...
    ...     def send(self, tensor, send_options):
    ...         raise RuntimeError("there is no other process")
    ...
    ...     def recv(self, tensor, recv_options):
    ...         raise RuntimeError("there is no other process")
    ...
    ...     def destroy_group(self):
    ...         print(f"{self.group_name} has ended")
    >>> register_collective_backend("alone", Alone)
    >>> group = Alone(world_size=1, rank=0, group_name="trial")
    >>> gathered, values = [[np.zeros(2)]], np.array([1.0, 2.0])
    >>> group.allgather(gathered, [values])
    >>> gathered[0][0].tolist()
    [1.0, 2.0]
    >>> group.rank, group.world_size
    (0, 1)
    >>> group.destroy_group()
    trial has ended

    Notes
    -----
    Ray source: ``ray.util.collective.collective_group.base_collective_group.BaseGroup``, 2.60.0.
    No known difference.
    """

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        self._world_size = world_size
        self._rank = rank
        self._group_name = group_name

    @property
    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of processes of the group."""
        return self._world_size

    @property
    def group_name(self) -> str:
        """The name of the group."""
        return self._group_name

    def destroy_group(self) -> None:  # noqa: B027 - a group may have nothing to release
        """Release the resources of the group."""

    @classmethod
    def backend(cls) -> str:
        """Return the name of the backend."""
        raise NotImplementedError(f"{cls.__name__} does not say which backend it belongs to.")

    @classmethod
    @abstractmethod
    def check_backend_availability(cls) -> bool:
        """Return whether the backend works in this process."""

    @abstractmethod
    def allreduce(
        self, tensor: list[Any], allreduce_options: AllReduceOptions | None = None
    ) -> None:
        """Combine the tensors of all ranks, in place."""

    @abstractmethod
    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        """Wait for all ranks."""

    @abstractmethod
    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions | None = None) -> None:
        """Combine the tensors of all ranks in the root's."""

    @abstractmethod
    def allgather(
        self,
        tensor_list: list[list[Any]],
        tensor: list[Any],
        allgather_options: AllGatherOptions | None = None,
    ) -> None:
        """Store the tensors of all ranks in a list."""

    @abstractmethod
    def broadcast(
        self, tensor: list[Any], broadcast_options: BroadcastOptions | None = None
    ) -> None:
        """Copy the root's tensor to all ranks."""

    @abstractmethod
    def reducescatter(
        self,
        tensor: list[Any],
        tensor_list: list[list[Any]],
        reducescatter_options: ReduceScatterOptions | None = None,
    ) -> None:
        """Combine the lists of all ranks; each rank keeps the tensor with its number."""

    @abstractmethod
    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        """Send a tensor to one rank."""

    @abstractmethod
    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        """Receive a tensor from one rank."""
