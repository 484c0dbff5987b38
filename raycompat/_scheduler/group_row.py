"""A placement group, and what it waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from raycompat._protocol.call_spec import GroupSpec
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import LabelRule

if TYPE_CHECKING:
    from raycompat._scheduler.capacity import Holding

#: The rules for the labels of a bundle's node; empty if any node may take it.
Selector: TypeAlias = "tuple[LabelRule, ...]"


class Wish(NamedTuple):
    """What a waiting group lacks."""

    #: The bundles without a node, and the selector of each; no selectors if none has one.
    bundles: tuple[ResourceSet, ...]
    selectors: tuple[Selector, ...]
    strategy: str
    #: The nodes of the group's other bundles.
    beside: frozenset[str]


@dataclass(slots=True)
class Group:
    """One placement group."""

    spec: GroupSpec
    bundles: list[ResourceSet]
    #: The selector of each bundle; empty if no bundle has one.
    selectors: list[Selector]
    #: The place of each bundle; None while it waits for a node.
    holdings: list[Holding | None]
    #: The id of each bundle's current or last node; empty before the first.
    node_ids: list[str]
    state: Literal["PENDING", "CREATED", "RESCHEDULING", "REMOVED"] = "PENDING"
    #: When it was created, and since when it waits, by the monotonic clock.
    created: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)
    #: Seconds from the request to the first reservation.
    latency_s: float = 0.0
    num_attempts: int = 0
    #: Whether its creator was notified that it cannot be placed.
    is_told: bool = False
    #: The clients to notify when it is ready.
    awaited_by: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        """The group's id, 36 hexadecimal digits."""
        return self.spec["group"]

    @property
    def is_waiting(self) -> bool:
        """Whether some of its bundles have no node."""
        return self.state in ("PENDING", "RESCHEDULING")

    def homeless(self) -> list[int]:
        """Return the numbers of the bundles without a node."""
        return [number for number, holding in enumerate(self.holdings) if holding is None]

    def wish(self) -> Wish:
        """Return what it waits for."""
        numbers = self.homeless()
        bundles = tuple(self.bundles[number] for number in numbers)
        selectors = tuple(self.selectors[number] for number in numbers) if self.selectors else ()
        return Wish(bundles, selectors, self.spec["strategy"], frozenset(self.addresses()))

    def addresses(self) -> list[str]:
        """Return the nodes of the bundles that have one."""
        return [holding.node_id for holding in self.holdings if holding is not None]
