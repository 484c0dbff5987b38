"""Scheduling strategies in messages: the nodes that a call may use, besides its resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Literal, TypeAlias

#: The label that every node has: its id.
NODE_ID_LABEL = "ray.io/node-id"
#: The label of nodes with GPUs: their type.
TYPE_LABEL = "ray.io/accelerator-type"


@dataclass(frozen=True, slots=True)
class InGroup:
    """In a bundle of a placement group; index -1 is any bundle."""

    group: str
    index: int = -1
    #: Whether child tasks use the group too, unless they choose otherwise.
    captures: bool = False


@dataclass(frozen=True, slots=True)
class OnNode:
    """On one node; `is_soft` allows others if that node is dead or too small."""

    node_id: str
    is_soft: bool
    #: Other nodes are allowed too while this one is busy.
    may_spill: bool = False
    #: The call fails while this node is busy.
    fails_when_busy: bool = False

    def __str__(self) -> str:
        return f"on the node {self.node_id}"


@dataclass(frozen=True, slots=True)
class LabelRule:
    """A condition on one label of a node."""

    key: str
    operator: Literal["in", "not in", "exists", "does not exist"]
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(
            [f"{self.key!r}", self.operator, ", ".join(map(repr, self.values))]
        ).rstrip()

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil the rule. A missing label has none of the rule's values."""
        if self.operator == "in":
            return labels.get(self.key) in self.values
        if self.operator == "not in":
            return labels.get(self.key) not in self.values
        return (self.key in labels) is (self.operator == "exists")


@dataclass(frozen=True, slots=True)
class ByLabels:
    """On a node whose labels fulfil all `hard` rules and, if possible, the `soft` ones."""

    hard: tuple[LabelRule, ...]
    soft: tuple[LabelRule, ...] = ()

    def __str__(self) -> str:
        return f"on a node whose labels obey [{'; '.join(map(str, self.hard))}]"


@dataclass(frozen=True, slots=True)
class Selecting:
    """A strategy among the nodes that obey all rules of one selector.

    The first selector with free nodes is used.
    """

    selectors: tuple[tuple[LabelRule, ...], ...]
    base: Literal["DEFAULT", "SPREAD"] | OnNode | ByLabels = "DEFAULT"

    def __str__(self) -> str:
        either = " or ".join(f"[{'; '.join(map(str, rules))}]" for rules in self.selectors)
        also = "" if isinstance(self.base, str) else f", {self.base}"
        return f"on a node whose labels obey {either}{also}"


#: Strategies that a lease can have.
LeaseStrategy: TypeAlias = "Literal['DEFAULT'] | InGroup"

Strategy: TypeAlias = "Literal['DEFAULT', 'SPREAD'] | InGroup | OnNode | ByLabels | Selecting"


def without_selectors(strategy: Strategy) -> Strategy:
    """Return the strategy that is used among the selected nodes."""
    return strategy.base if isinstance(strategy, Selecting) else strategy


class SchedulingStrategy:
    """Base class of the objects that a program passes as `scheduling_strategy`."""


class GroupStrategy(SchedulingStrategy):
    """A strategy that names a placement group, which is read when a call is made."""

    placement_group: Any
    placement_group_bundle_index: int
    placement_group_capture_child_tasks: bool | None


class NodeStrategy(SchedulingStrategy):
    """A strategy that chooses nodes by id or labels."""

    def to_strategy(self) -> OnNode | ByLabels:
        """Return the strategy for messages."""
        raise NotImplementedError


class GroupHandle:
    """Base class of a program's handle of a placement group."""


def to_wire(strategy: Strategy) -> Any:
    """Return a strategy as plain tuples, for `from_wire`."""
    if isinstance(strategy, str):
        return strategy
    if isinstance(strategy, Selecting):
        selectors = [[astuple(rule) for rule in rules] for rules in strategy.selectors]
        return ("Selecting", selectors, to_wire(strategy.base))
    return (type(strategy).__name__, *astuple(strategy))


def from_wire(wire: Any) -> Strategy:
    """Return the strategy from the values of `to_wire`."""
    if isinstance(wire, str):
        return "SPREAD" if wire == "SPREAD" else "DEFAULT"
    kind, *values = wire
    if kind == "InGroup":
        return InGroup(*values)
    if kind == "OnNode":
        return OnNode(*values)
    if kind == "Selecting":
        base: Any = from_wire(values[1])
        return Selecting(tuple(_rules(selector) for selector in values[0]), base)
    hard, soft = map(_rules, values)
    return ByLabels(hard, soft)


def _rules(wire: Any) -> tuple[LabelRule, ...]:
    return tuple(LabelRule(key, operator, tuple(values)) for key, operator, values in wire)
