"""What each process of a compiled graph calls, and where each value goes: the records of a plan.

The driver has rank 0, the actors have the ranks from 1. Each node whose value is needed has a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from raycompat.dag.gpu_options import TensorTransport

#: The rank of the driver.
DRIVER = 0


@dataclass(frozen=True)
class Slot:
    """Stands in the arguments of a call for the value of a node."""

    number: int


@dataclass(frozen=True)
class Output:
    """A result of a call: the slot, the ranks that read it, and its index if there are several."""

    slot: int
    readers: tuple[int, ...]
    index: int | None = None
    tensors: TensorTransport | None = None


@dataclass(frozen=True)
class Step:
    """One call in the schedule of an actor."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Output, ...]
    num_returns: int


@dataclass(frozen=True)
class Input:
    """A part of the arguments of `execute`: all, one by position, or one by name."""

    key: int | str | None
    slot: int
    readers: tuple[int, ...]
    tensors: TensorTransport | None = None


@dataclass
class Plan:
    """The work of all processes in one execution.

    Attributes
    ----------
    actors : list of ActorHandle
        The actor of rank n is at n - 1.
    steps : dict of int to list of Step
        The schedule of each actor, by rank.
    inputs : list of Input
    results : list of int
        The slots of the results.
    returns_list : bool
        Whether the graph ends in a `MultiOutputNode`.
    """

    actors: list[Any]
    steps: dict[int, list[Step]]
    inputs: list[Input]
    results: list[int]
    returns_list: bool
    num_args: int = 0
    names: tuple[str, ...] = ()
    #: The pairs of ranks with a connection, the lower first.
    pairs: set[tuple[int, int]] = field(default_factory=set)
    #: The ranks that must have GPUs, with the node that says so, for the error.
    with_gpus: dict[int, object] = field(default_factory=dict)
    #: Whether tensors of some node may go through the memory of a GPU.
    has_transports: bool = False

    def neighbours(self, rank: int) -> list[int]:
        """Return the ranks to which one is connected."""
        return sorted({a if b == rank else b for a, b in self.pairs if rank in (a, b)})
