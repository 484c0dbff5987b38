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
    A backend overrides all methods; here is the beginning of one::

        class Network(BaseGroup):
            @classmethod
            def backend(cls):
                return "NETWORK"

            def broadcast(self, tensors, broadcast_options):
                ...

        register_collective_backend("network", Network)

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
