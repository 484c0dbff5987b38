"""The functions of `raycompat.util.collective`."""

from __future__ import annotations

import logging
from typing import Any, Never

from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.util.collective import _groups, _meeting, _tensors, types
from raycompat.util.collective.backend_registry import _global_registry
from raycompat.util.collective.collective_group.base_collective_group import BaseGroup

_logger = logging.getLogger(__name__)

#: Milliseconds for a group to become complete, and for an operation without progress.
_TIMEOUT_MS = 30_000


# --- groups -----------------------------------------------------------------------------------------


def nccl_available() -> bool:
    """Return whether PyTorch has NCCL and this process sees a GPU.

    Examples
    --------
    >>> from raycompat.util import collective
    >>> collective.nccl_available() == collective.is_backend_available("nccl")
    True

    Notes
    -----
    Ray source: ``ray.util.collective.nccl_available``, 2.60.0. Differs from Ray: needs PyTorch, not
    CuPy.
    """
    return is_backend_available("NCCL")


def gloo_available() -> bool:
    """Return True: the backend ``gloo`` is part of raycompat and needs no other package.

    Examples
    --------
    >>> from raycompat.util import collective
    >>> collective.gloo_available()
    True

    Notes
    -----
    Ray source: ``ray.util.collective.gloo_available``, 2.60.0. Differs from Ray: needs no torch.
    """
    return is_backend_available("GLOO")


def is_backend_available(backend: str) -> bool:
    """Return whether a backend is registered and works in this process.

    Parameters
    ----------
    backend : str
        In upper or lower case.

    Examples
    --------
    >>> collective.is_backend_available("gloo")
    True
    """
    return _global_registry.check(backend)


def is_group_initialized(group_name: str) -> bool:
    """Return whether this process is a member of the group `group_name`.

    Examples
    --------
    >>> collective.is_group_initialized("pair")
    False
    """
    return _groups.is_member(group_name)


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = types.Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = _TIMEOUT_MS,
) -> None:
    """Join a group; return when all its members have called this.

    Parameters
    ----------
    world_size : int
        Number of members of the group, 1 or more.
    rank : int
        The number of this member: 0 to `world_size` - 1, each once.
    backend : str, default "NCCL"
        ``"nccl"`` for tensors of PyTorch on GPUs, one GPU a member; ``"gloo"`` for all others.
    group_name : str, default "default"
        The name of the group in operations.
    gloo_timeout : int, default 30000
        Milliseconds for the group to become complete, and for an operation without progress. Set it
        longer than the longest time between a fast and a slow member.

    Raises
    ------
    CollectiveTimeoutError
        When members are missing; a TimeoutError.
    CollectiveError
        When the members do not agree on the size, or two have the same rank; a RuntimeError.
    RuntimeError
        In a driver, when this process is already in a group of this name, or when the backend does not
        work in it, as NCCL without a GPU.
    ValueError
        When an argument is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from raycompat.util import collective
    >>> @ray.remote
    ... class Worker:
    ...     def join(self, size, rank):
    ...         collective.init_collective_group(size, rank, "gloo", "workers")
    ...         self.rank = rank
    ...
    ...     def mean(self):
    ...         array = np.array([float(self.rank)])
    ...         collective.allreduce(array, "workers")
    ...         return array.item() / 2
    ...
    ...     def leave(self):
    ...         collective.destroy_collective_group("workers")
    ...         return collective.is_group_initialized("workers")
    >>> workers = [Worker.remote() for _ in range(2)]
    >>> _ = ray.get([w.join.remote(2, rank) for rank, w in enumerate(workers)])
    >>> ray.get([worker.mean.remote() for worker in workers])
    [0.5, 0.5]
    >>> ray.get([worker.leave.remote() for worker in workers])
    [False, False]

    Notes
    -----
    Ray source: ``ray.util.collective.init_collective_group``, 2.60.0. Differs from Ray: no torch is
    needed; `gloo_timeout` applies to operations too; invalid ranks are a ValueError.

    Members of one host share memory. Members on several hosts exchange data over TCP, neither encrypted
    nor signed, even in a cluster with TLS; only members can connect.
    """
    _groups.check_inside()
    _check_group_name(group_name)
    _check_size(world_size)
    if not _is_int(rank) or not 0 <= rank < world_size:
        raise ValueError(f"rank must be 0 to {world_size - 1} (world_size - 1), not {rank!r}.")
    _check_timeout(gloo_timeout)
    _groups.form(world_size, rank, backend, group_name, gloo_timeout)


def create_collective_group(
    actors: list[Any],
    world_size: int,
    ranks: list[int],
    backend: str = types.Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = _TIMEOUT_MS,
) -> None:
    """Declare a group of actors; each joins at its first operation.

    Parameters
    ----------
    actors : list of ActorHandle
    world_size : int
        The number of actors.
    ranks : list of int
        The rank of each actor: 0 to `world_size` - 1, each once.
    backend, group_name, gloo_timeout
        As for `init_collective_group`.

    Examples
    --------
    >>> import numpy as np
    >>> from raycompat.util import collective
    >>> @ray.remote
    ... class Member:
    ...     def run(self, name, *args):
    ...         return getattr(collective, name)(*args, group_name="pair")
    ...
    ...     def sum(self, value):
    ...         array = np.full(2, value)
    ...         collective.allreduce(array, group_name="pair")
    ...         return array.tolist()
    >>> members = [Member.remote() for _ in range(2)]
    >>> collective.create_collective_group(
    ...     members, 2, [0, 1], backend="gloo", group_name="pair"
    ... )
    >>> ray.get(
    ...     [member.sum.remote(value) for value, member in enumerate(members, 1)]
    ... )
    [[3, 3], [3, 3]]

    Raises
    ------
    RuntimeError
        When a group of this name exists, or the numbers are not consistent.

    Notes
    -----
    Ray source: ``ray.util.collective.create_collective_group``, 2.60.0. Differs from Ray: the
    declaration ends with the process that made it, so nothing of it remains in the cluster.
    """
    _check_group_name(group_name)
    _check_timeout(gloo_timeout)
    backend = _groups.check_backend(backend, is_used_here=False)
    actors, ranks = list(actors), list(ranks)
    if len(ranks) != len(actors):
        raise RuntimeError(
            f"Each actor has one rank: got {len(ranks)} ranks, {len(actors)} actors."
        )
    if not _is_int(world_size) or world_size != len(actors) or world_size < 1:
        raise RuntimeError(
            f"World size must be the number of actors, 1 or more: got {world_size!r} and "
            f"{len(actors)} actors."
        )
    if sorted(ranks) != list(range(world_size)):
        raise RuntimeError(f"Ranks must be 0 to {world_size - 1}, each once: got {ranks}.")
    by_actor = {each._actor_id.hex(): rank for each, rank in zip(actors, ranks, strict=True)}
    if len(by_actor) != world_size:
        raise RuntimeError("An actor is listed twice: each member is a different actor.")
    _groups.declare(group_name, _meeting.Declared(world_size, by_actor, backend, gloo_timeout))


def destroy_collective_group(group_name: str = "default") -> None:
    """Leave the group `group_name`; operations that the other members call afterwards fail.

    Examples
    --------
    >>> from raycompat.util import collective
    >>> @ray.remote
    ... class Lonely:
    ...     def run(self):
    ...         collective.init_collective_group(1, 0, "gloo", "one")
    ...         collective.destroy_collective_group("one")
    ...         return collective.is_group_initialized("one")
    >>> ray.get(Lonely.remote().run.remote())
    False

    Notes
    -----
    Ray source: ``ray.util.collective.destroy_collective_group``, 2.60.0. As in Ray, a group to which
    this process does not belong causes only a warning in the log.
    """
    _groups.check_inside()
    if not _groups.destroy(group_name):
        _logger.warning("This process is not in the collective group %r.", group_name)


def get_rank(group_name: str = "default") -> int:
    """Return this process's rank in the group `group_name`; -1 if it is not (yet) a member.

    Examples
    --------
    >>> ray.get([member.run.remote("get_rank") for member in members])
    [0, 1]
    """
    _groups.check_inside()
    return _groups.rank_of(group_name)[0]


def get_collective_group_size(group_name: str = "default") -> int:
    """Return the number of members of the group `group_name`; -1 if this process is not (yet) one.

    Examples
    --------
    >>> ray.get(members[0].run.remote("get_collective_group_size"))
    2
    """
    _groups.check_inside()
    return _groups.rank_of(group_name)[1]


def get_group_handle(group_name: str = "default") -> BaseGroup:
    """Return this process's membership in `group_name`; join it first if it was declared.

    Raises
    ------
    RuntimeError
        When the group does not exist, or this process cannot be in it.

    Examples
    --------
    >>> @ray.remote
    ... class Worker:
    ...     def join(self, size, rank):
    ...         collective.init_collective_group(size, rank, "gloo", "trio")
    ...         group = collective.get_group_handle("trio")
    ...         return group.rank, group.world_size
    >>> workers = [Worker.remote() for _ in range(2)]
    >>> ray.get([w.join.remote(2, rank) for rank, w in enumerate(workers)])
    [(0, 2), (1, 2)]
    """
    return _groups.find(group_name)


# --- operations ---------------------------------------------------------------------------------------


def allreduce(
    tensor: Any, group_name: str = "default", op: types.ReduceOp = types.ReduceOp.SUM
) -> None:
    """Combine the tensors of all members element by element; each gets the result in place.

    Parameters
    ----------
    tensor : numpy.ndarray or torch.Tensor
        Any shape and any numeric dtype, equal on all members. With the backend gloo, a tensor on a GPU
        is copied to pinned memory and back.
    group_name : str, default "default"
    op : ReduceOp, default ReduceOp.SUM

    Raises
    ------
    CollectiveError
        When a member has ended, left or stopped, or calls another operation, shape or dtype.
    CollectiveTimeoutError
        When nothing was sent or received for the group's time-out.
    RuntimeError
        When this process is not in the group, or the type of the tensor is not supported.
    ValueError
        When the array is read-only.

    Examples
    --------
    >>> @ray.remote
    ... class Both:
    ...     def join(self, rank):
    ...         collective.init_collective_group(2, rank, "gloo", "both")
    ...         self.rank = rank
    ...         self.array = np.arange(2) + 10 * rank
    ...
    ...     def do(self, function):
    ...         array = self.array.copy()
    ...         found = function(array, self.rank)
    ...         return (array if found is None else found).tolist()
    >>> both = [Both.remote() for _ in range(2)]
    >>> _ = ray.get([member.join.remote(rank) for rank, member in enumerate(both)])
    >>> def do(function):
    ...     return ray.get([member.do.remote(function) for member in both])
    >>> do(lambda array, rank: None)
    [[0, 1], [10, 11]]
    >>> do(lambda array, rank: collective.allreduce(array, "both"))
    [[10, 12], [10, 12]]
    >>> from raycompat.util.collective.types import ReduceOp
    >>> do(lambda array, rank: collective.allreduce(array, "both", ReduceOp.MAX))
    [[10, 11], [10, 11]]

    Notes
    -----
    Ray source: ``ray.util.collective.allreduce``, 2.60.0. Differs from Ray: an array need not be
    contiguous; calls that do not match fail at once; all members get bitwise equal results.

    On one host, each rank combines 1/n of the elements in shared memory. The tensor passes through it
    in chunks of 4 MiB, so larger tensors need no more memory.
    """
    _tensors.check_tensor(tensor)
    group = get_group_handle(group_name)
    group.allreduce([tensor], types.AllReduceOptions(reduceOp=op))


def barrier(group_name: str = "default") -> None:
    """Wait until all members of the group `group_name` have called this.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError
        As for `allreduce`.

    Examples
    --------
    With the members of `allreduce`:

    >>> do(lambda array, rank: collective.barrier("both"))
    [[0, 1], [10, 11]]
    """
    get_group_handle(group_name).barrier()


def reduce(
    tensor: Any,
    dst_rank: int = 0,
    group_name: str = "default",
    op: types.ReduceOp = types.ReduceOp.SUM,
) -> None:
    """Combine the tensors of all members; one of them gets the result in place.

    Parameters
    ----------
    tensor, group_name, op
        As for `allreduce`. The tensors of the other members are not changed.
    dst_rank : int, default 0
        The member that gets the result.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError, RuntimeError
        As for `allreduce`.
    ValueError
        When the group has no such rank, or the destination's array is read-only.

    Examples
    --------
    With the members of `allreduce`:

    >>> do(lambda array, rank: collective.reduce(array, 0, "both"))
    [[10, 12], [10, 11]]

    Notes
    -----
    Ray source: ``ray.util.collective.reduce``, 2.60.0. Differs from Ray as `allreduce` does.
    """
    _tensors.check_tensor(tensor)
    group = get_group_handle(group_name)
    _check_rank(group, dst_rank)
    group.reduce([tensor], types.ReduceOptions(reduceOp=op, root_rank=dst_rank))


def broadcast(tensor: Any, src_rank: int = 0, group_name: str = "default") -> None:
    """Copy one member's tensor into those of all others.

    Parameters
    ----------
    tensor, group_name
        As for `allreduce`.
    src_rank : int, default 0
        The member whose tensor is copied.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError, RuntimeError
        As for `allreduce`.
    ValueError
        When the group has no such rank, or another member's array is read-only.

    Examples
    --------
    With the members of `allreduce`:

    >>> do(lambda array, rank: collective.broadcast(array, 0, "both"))
    [[0, 1], [0, 1]]

    Notes
    -----
    Ray source: ``ray.util.collective.broadcast``, 2.60.0. Differs from Ray as `allreduce` does.
    """
    _tensors.check_tensor(tensor)
    group = get_group_handle(group_name)
    _check_rank(group, src_rank)
    group.broadcast([tensor], types.BroadcastOptions(root_rank=src_rank))


def allgather(tensor_list: list[Any], tensor: Any, group_name: str = "default") -> None:
    """Store the tensors of all members in a list, by rank.

    Parameters
    ----------
    tensor_list : list of numpy.ndarray or torch.Tensor
        One for each rank, of the shape and dtype of `tensor`; overwritten.
    tensor, group_name
        As for `allreduce`; `tensor` is not changed.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError
        As for `allreduce`.
    RuntimeError
        As for `allreduce`, and when the list and the group have different lengths.
    ValueError
        When the list's tensors have another shape or dtype than `tensor`, or are read-only.

    Examples
    --------
    With the members of `allreduce`:

    >>> def gathered(array, rank):
    ...     parts = [np.empty_like(array) for _ in range(2)]
    ...     collective.allgather(parts, array, "both")
    ...     return np.concatenate(parts)
    >>> do(gathered)
    [[0, 1, 10, 11], [0, 1, 10, 11]]

    Notes
    -----
    Ray source: ``ray.util.collective.allgather``, 2.60.0. Differs from Ray as `allreduce` does.
    """
    _tensors.check_tensor(tensor)
    _check_list(tensor_list)
    group = get_group_handle(group_name)
    _check_length(group, tensor_list)
    group.allgather([tensor_list], [tensor], types.AllGatherOptions())


def reducescatter(
    tensor: Any,
    tensor_list: list[Any],
    group_name: str = "default",
    op: types.ReduceOp = types.ReduceOp.SUM,
) -> None:
    """Combine the lists of all members element by element; the member of rank r gets tensor r.

    Parameters
    ----------
    tensor : numpy.ndarray or torch.Tensor
        Gets the result.
    tensor_list : list of numpy.ndarray or torch.Tensor
        One for each rank, of the shape and dtype of `tensor`.
    group_name, op
        As for `allreduce`.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError, RuntimeError, ValueError
        As for `allgather`.

    Examples
    --------
    With the members of `allreduce`:

    >>> def scattered(array, rank):
    ...     part = np.empty(1, array.dtype)
    ...     collective.reducescatter(part, [array[:1], array[1:]], "both")
    ...     return part
    >>> do(scattered)
    [[10], [12]]

    Notes
    -----
    Ray source: ``ray.util.collective.reducescatter``, 2.60.0. Differs from Ray: the list is not
    changed; Ray's gloo overwrites it with combined values.
    """
    _tensors.check_tensor(tensor)
    _check_list(tensor_list)
    group = get_group_handle(group_name)
    _check_length(group, tensor_list)
    group.reducescatter([tensor], [tensor_list], types.ReduceScatterOptions(reduceOp=op))


def send(tensor: Any, dst_rank: int, group_name: str = "default") -> None:
    """Send a tensor to another member, which calls `recv`.

    Parameters
    ----------
    tensor, group_name
        As for `allreduce`; `tensor` is not changed.
    dst_rank : int
        The member that receives it.

    Raises
    ------
    CollectiveError, CollectiveTimeoutError
        As for `allreduce`.
    RuntimeError
        As for `allreduce`, and when the destination is this process.
    ValueError
        When the group has no such rank.

    Examples
    --------
    With the members of `allreduce`; one sends, and the other receives:

    >>> def moved(array, rank):
    ...     if rank == 0:
    ...         collective.send(array, 1, "both")
    ...     else:
    ...         collective.recv(array, 0, "both")
    >>> do(moved)
    [[0, 1], [0, 1]]

    Notes
    -----
    Ray source: ``ray.util.collective.send``, 2.60.0. Differs from Ray: it returns when the tensor was
    sent; a receiver with another shape or dtype gets an error. Tensors of a pair arrive in order.
    """
    _tensors.check_tensor(tensor)
    group = get_group_handle(group_name)
    _check_other_rank(group, dst_rank, "destination")
    group.send([tensor], types.SendOptions(dst_rank=dst_rank))


def recv(tensor: Any, src_rank: int, group_name: str = "default") -> None:
    """Receive a tensor from another member, which calls `send`.

    Parameters
    ----------
    tensor : numpy.ndarray or torch.Tensor
        With the shape and dtype of the sent tensor; overwritten.
    src_rank : int
        The member that sends it.
    group_name : str, default "default"

    Raises
    ------
    CollectiveError, CollectiveTimeoutError, RuntimeError, ValueError
        As for `send`.

    Examples
    --------
    >>> def swapped(array, rank):
    ...     other = np.empty_like(array)
    ...     if rank == 0:
    ...         collective.send(array, 1, "both")
    ...         collective.recv(other, 1, "both")
    ...     else:
    ...         collective.recv(other, 0, "both")
    ...         collective.send(array, 0, "both")
    ...     return other
    >>> do(swapped)
    [[10, 11], [0, 1]]

    Notes
    -----
    Ray source: ``ray.util.collective.recv``, 2.60.0. Differs from Ray as `send` does.
    """
    _tensors.check_tensor(tensor)
    group = get_group_handle(group_name)
    _check_other_rank(group, src_rank, "source")
    group.recv([tensor], types.RecvOptions(src_rank=src_rank))


# --- several GPUs a process: refused ----------------------------------------------------------------


def _refuse(name: str) -> Never:
    raise UnsupportedRayFeatureError(
        f"{name}()",
        "A member of a group has one GPU and one tensor",
        f"Make each GPU a member, and call {name.removesuffix('_multigpu')}()",
    )


def allreduce_multigpu(
    tensor_list: list[Any], group_name: str = "default", op: types.ReduceOp = types.ReduceOp.SUM
) -> None:
    """Raise UnsupportedRayFeatureError: use `allreduce`."""
    _refuse("allreduce_multigpu")


def reduce_multigpu(
    tensor_list: list[Any],
    dst_rank: int = 0,
    dst_tensor: int = 0,
    group_name: str = "default",
    op: types.ReduceOp = types.ReduceOp.SUM,
) -> None:
    """Raise UnsupportedRayFeatureError: use `reduce`."""
    _refuse("reduce_multigpu")


def broadcast_multigpu(
    tensor_list: list[Any], src_rank: int = 0, src_tensor: int = 0, group_name: str = "default"
) -> None:
    """Raise UnsupportedRayFeatureError: use `broadcast`."""
    _refuse("broadcast_multigpu")


def allgather_multigpu(
    output_tensor_lists: list[Any], input_tensor_list: list[Any], group_name: str = "default"
) -> None:
    """Raise UnsupportedRayFeatureError: use `allgather`."""
    _refuse("allgather_multigpu")


def reducescatter_multigpu(
    output_tensor_list: list[Any],
    input_tensor_lists: list[Any],
    group_name: str = "default",
    op: types.ReduceOp = types.ReduceOp.SUM,
) -> None:
    """Raise UnsupportedRayFeatureError: use `reducescatter`."""
    _refuse("reducescatter_multigpu")


def send_multigpu(
    tensor: Any,
    dst_rank: int,
    dst_gpu_index: int,
    group_name: str = "default",
    n_elements: int = 0,
) -> None:
    """Raise UnsupportedRayFeatureError: use `send`."""
    _refuse("send_multigpu")


def recv_multigpu(
    tensor: Any,
    src_rank: int,
    src_gpu_index: int,
    group_name: str = "default",
    n_elements: int = 0,
) -> None:
    """Raise UnsupportedRayFeatureError: use `recv`."""
    _refuse("recv_multigpu")


# --- arguments ----------------------------------------------------------------------------------------


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_group_name(group_name: str) -> None:
    if not isinstance(group_name, str) or not group_name:
        raise ValueError(f"group_name must be a non-empty string, not {group_name!r}.")


def _check_size(world_size: int) -> None:
    if not _is_int(world_size) or world_size < 1:
        raise ValueError(f"world_size must be an int, 1 or more, not {world_size!r}.")


def _check_timeout(gloo_timeout: int) -> None:
    if not isinstance(gloo_timeout, int | float) or not gloo_timeout > 0:
        raise ValueError(f"gloo_timeout must be milliseconds, more than 0, not {gloo_timeout!r}.")


def _check_rank(group: BaseGroup, rank: int) -> None:
    if not _is_int(rank) or not 0 <= rank < group.world_size:
        raise ValueError(
            f"rank must be 0 to {group.world_size - 1} in the group {group.group_name!r}, "
            f"not {rank!r}."
        )


def _check_other_rank(group: BaseGroup, rank: int, what: str) -> None:
    _check_rank(group, rank)
    if rank == group.rank:
        raise RuntimeError(f"The {what} rank {rank} is this process: give another member's.")


def _check_list(tensors: list[Any]) -> None:
    if not isinstance(tensors, list) or not tensors:
        raise RuntimeError(f"Expected a list of tensors, one for each rank, got {tensors!r}.")
    for each in tensors:
        _tensors.check_tensor(each)


def _check_length(group: BaseGroup, tensors: list[Any]) -> None:
    if len(tensors) != group.world_size:
        raise RuntimeError(
            f"The list must have as many tensors as the group {group.group_name!r} has members, "
            f"{group.world_size}: got {len(tensors)}."
        )


#: Names of older Rays.
__getattr__ = names_of(__name__)
