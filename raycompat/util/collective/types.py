"""Names of backends and reductions, options of operations, and the errors of groups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from raycompat._surface.modules import names_of

__all__ = ["Backend", "CollectiveError", "CollectiveTimeoutError", "ReduceOp"]


class CollectiveError(RuntimeError):
    """A group cannot finish an operation: a member ended, left, or called another one.

    The group cannot be used afterwards: every later operation of this process raises the same error.
    Call `destroy_collective_group`, then form the group again.

    Parameters
    ----------
    text : str
        What happened.
        The ranks that failed, if this process knows them.
        The ranks that failed, where this process knows them.

    Examples
    --------
    >>> from raycompat.util import collective
    >>> from raycompat.util.collective.types import CollectiveError
    >>> @ray.remote
    ... def join(size):
    ...     collective.init_collective_group(size, 0, "gloo", "sizes")
    >>> try:
    ...     ray.get([join.remote(size) for size in (2, 3)])
    ... except CollectiveError:
    ...     print("the members do not agree")
    the members do not agree
    """

    def __init__(self, text: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text, ranks)
        self.ranks = ranks

    def __str__(self) -> str:
        return str(self.args[0])


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """A member of a group did not join, or did not answer, within the group's time-out.

    Examples
    --------
    >>> from raycompat.util.collective.types import CollectiveTimeoutError
    >>> @ray.remote
    ... def join_alone():
    ...     collective.init_collective_group(2, 0, "gloo", "a", gloo_timeout=200)
    >>> try:
    ...     ray.get(join_alone.remote())
    ... except CollectiveTimeoutError:
    ...     print("the other member did not come")
    the other member did not come
    """


class Backend:
    """The names of backends: ``Backend("gloo")`` is ``"GLOO"``.

    Parameters
    ----------
    name : str
        ``"gloo"``, ``"torch_gloo"``, ``"nccl"`` or a name given to `register_collective_backend`, in
        upper or lower case.

    Raises
    ------
    ValueError
        When no backend has this name.

    Examples
    --------
    >>> from raycompat.util.collective.types import Backend
    >>> Backend("gloo") == Backend.GLOO
    True

    Notes
    -----
    Ray source: ``ray.util.collective.types.Backend``, 2.60.0. Differs from Ray: GLOO names raycompat's
    own implementation for CPUs, which does not need the gloo library; NCCL is PyTorch's.
    """

    NCCL = "NCCL"
    GLOO = "GLOO"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: str) -> str:  # type: ignore[misc]  # Ray's class makes strings
        """Return the backend's name in upper case."""
        upper = name.upper()
        if upper == "TORCH_GLOO":
            return cls.GLOO
        found: str = getattr(cls, upper, cls.UNRECOGNIZED)
        if found == cls.UNRECOGNIZED:
            known = sorted(each for each in vars(cls) if each.isupper() and each != "UNRECOGNIZED")
            raise ValueError(f"Unrecognized backend {name!r}. The backends are {', '.join(known)}.")
        return found


class ReduceOp(Enum):
    """How `allreduce`, `reduce` and `reducescatter` combine the values of the ranks.

    Examples
    --------
    >>> from raycompat.util.collective.types import ReduceOp
    >>> [op.name for op in ReduceOp]
    ['SUM', 'PRODUCT', 'MIN', 'MAX']

    Notes
    -----
    Ray source: ``ray.util.collective.types.ReduceOp``, 2.60.0. No known difference.
    """

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


#: The time-out of options without one: the group's time-out applies.
unset_timeout_ms = timedelta(milliseconds=-1)


@dataclass
class AllReduceOptions:
    """Options that a group's `allreduce` takes."""

    reduceOp: ReduceOp = ReduceOp.SUM
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BarrierOptions:
    """Options that a group's `barrier` takes."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceOptions:
    """Options that a group's `reduce` takes."""

    reduceOp: ReduceOp = ReduceOp.SUM
    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class AllGatherOptions:
    """Options that a group's `allgather` takes."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BroadcastOptions:
    """Options that a group's `broadcast` takes."""

    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceScatterOptions:
    """Options that a group's `reducescatter` takes."""

    reduceOp: ReduceOp = ReduceOp.SUM
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class SendOptions:
    """Options that a group's `send` takes."""

    dst_rank: int = 0
    dst_gpu_index: int = 0
    n_elements: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class RecvOptions:
    """Options that a group's `recv` takes."""

    src_rank: int = 0
    src_gpu_index: int = 0
    n_elements: int = 0
    unset_timeout_ms: ClassVar[timedelta] = unset_timeout_ms


#: Names of older Rays.
__getattr__ = names_of(__name__)
