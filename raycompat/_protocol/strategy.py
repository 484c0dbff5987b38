"""Scheduling strategies as they travel: where a call may go, beside what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Literal, TypeAlias

#: The label that every node has: its id.
NODE_ID_LABEL = "ray.io/node-id"


@dataclass(frozen=True, slots=True)
class InGroup:
    """In a bundle of a placement group; index -1 is any of them."""

    group: str
    index: int = -1
    #: Whether what the call calls goes to the group too, unless it says otherwise.
    captures: bool = False


@dataclass(frozen=True, slots=True)
class OnNode:
    """On one node; `is_soft` allows others if that one is gone or has too little."""

    node_id: str
    is_soft: bool
    #: Others are allowed too when it is only busy.
    may_spill: bool = False
    #: The call fails when it is only busy.
    fails_when_busy: bool = False

    def __str__(self) -> str:
        return f"on the node {self.node_id}"


@dataclass(frozen=True, slots=True)
class LabelRule:
    """What a label of a node must be."""

    key: str
    operator: Literal["in", "not in", "exists", "does not exist"]
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(
            [f"{self.key!r}", self.operator, ", ".join(map(repr, self.values))]
        ).rstrip()

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is meant. One without the label has none of the values."""
        if self.operator == "in":
            return labels.get(self.key) in self.values
        if self.operator == "not in":
            return labels.get(self.key) not in self.values
        return (self.key in labels) is (self.operator == "exists")


@dataclass(frozen=True, slots=True)
class ByLabels:
    """On a node whose labels obey all `hard` rules, and if possible the `soft` ones."""

    hard: tuple[LabelRule, ...]
    soft: tuple[LabelRule, ...] = ()

    def __str__(self) -> str:
        return f"on a node whose labels obey [{'; '.join(map(str, self.hard))}]"


#: Where leases may be.
LeaseStrategy: TypeAlias = "Literal['DEFAULT'] | InGroup"

Strategy: TypeAlias = "Literal['DEFAULT', 'SPREAD'] | InGroup | OnNode | ByLabels"


class SchedulingStrategy:
    """What a program gives as `scheduling_strategy`, if it is no string."""


class GroupStrategy(SchedulingStrategy):
    """A strategy that names a placement group: it is looked at when a call is made."""

    placement_group: Any
    placement_group_bundle_index: int
    placement_group_capture_child_tasks: bool | None


class NodeStrategy(SchedulingStrategy):
    """A strategy that chooses nodes by what they are."""

    def to_strategy(self) -> OnNode | ByLabels:
        """Return it as it travels."""
        raise NotImplementedError


class GroupHandle:
    """What a program has of a placement group."""


def to_wire(strategy: Strategy) -> Any:
    """Return a strategy as plain tuples, for `from_wire`."""
    if isinstance(strategy, str):
        return strategy
    return (type(strategy).__name__, *astuple(strategy))


def from_wire(wire: Any) -> Strategy:
    """Return the strategy that `to_wire` was given."""
    if isinstance(wire, str):
        return "SPREAD" if wire == "SPREAD" else "DEFAULT"
    kind, *values = wire
    if kind == "InGroup":
        return InGroup(*values)
    if kind == "OnNode":
        return OnNode(*values)
    hard, soft = ((LabelRule(k, o, tuple(v)) for k, o, v in rules) for rules in values)
    return ByLabels(tuple(hard), tuple(soft))
