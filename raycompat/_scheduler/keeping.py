"""Nodes that are kept free for a waiting placement group, so that others do not take its resources.

The first waiting group that could be placed gets a turn after a short wait. During its turn, the leases
on its nodes are revoked, and no call starts there. Then everything is as usual for twice as long, and
then the group gets another, longer turn. So it gets its nodes even under a constant load, and calls
lose at most a third of some nodes. A group that waits for actors or other groups, which may never end,
keeps its nodes free from later groups only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup
from raycompat._scheduler.affinity import admitted

if TYPE_CHECKING:
    from raycompat._scheduler.capacity import Holding
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.group_row import Group, Wish
    from raycompat._scheduler.leases import Leases

#: Seconds that a group waits before its turn; the length of its first and of its longest turn.
_PATIENCE_S, _FIRST_S, _LONGEST_S = 0.2, 0.1, 30.0

#: The number of wishes whose feasibility is remembered.
_MANY_WISHES = 1000

_NOWHERE: frozenset[str] = frozenset()
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Turn:
    """The nodes that are kept for a group, the end of the turn, and the start of the next one."""

    group: str
    nodes: frozenset[str]
    #: Whether calls may not use the nodes either; otherwise only later groups may not.
    from_calls: bool
    until: float
    next: float
    length_s: float


class Keeper:
    """The turns of waiting groups."""

    def __init__(
        self,
        ground: Ground,
        leases: Leases,
    ) -> None:
        self._ground = ground
        self._leases = leases
        #: The group for which idle leases are being revoked.
        self.pressing = _NOBODY
        self._turn: Turn | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: Whether each wish can be met on empty nodes; valid while the nodes are the same.
        self._feasible: dict[Wish, bool] = {}
        self._membership = 0

    def kept_from_calls(self) -> frozenset[str]:
        """Return the nodes on which no call may start now."""
        turn = self._turn
        is_on = turn is not None and turn.from_calls and time.monotonic() < turn.until
        return turn.nodes if turn is not None and is_on else _NOWHERE

    def kept_from_groups(self, group: str) -> frozenset[str]:
        """Return the nodes that are kept for another group now."""
        turn = self._turn
        if turn is None or turn.group == group or time.monotonic() >= turn.until:
            return _NOWHERE
        return turn.nodes

    def update_turn(self, waiting: Sequence[Group], running: Collection[str]) -> None:
        """Keep nodes for the first group that could be placed, and schedule the next check."""
        first = next((row for row in waiting if self.is_feasible(row)), None)
        self.pressing = _NOBODY
        if first is None:
            self._turn = None
            self._forget_timer()
            return
        now, last = time.monotonic(), self._turn
        if last is not None and last.group != first.id:
            last = self._turn = None
        due = last.next if last is not None else first.since + _PATIENCE_S
        if now >= due:
            length_s = min(2 * last.length_s, _LONGEST_S) if last is not None else _FIRST_S
            self._begin(first, running, now, length_s)
            due = now + length_s
        elif last is not None and now < last.until:
            due = last.until
        if now < first.since + _PATIENCE_S or self.kept_from_calls():
            self.pressing = frozenset({first.id})
        self._look_again(due - now)

    def _look_again(self, delay_s: float) -> None:
        self._forget_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_s + 0.001, self._ground.next_round.soon)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, row: Group, running: Collection[str], now: float, length_s: float) -> None:
        nodes = self._where(row, running, self._calls_that_end())
        from_calls = nodes is not None
        if nodes is None:
            nodes = self._where(row, running, None) or []
        until = now + length_s
        self._turn = Turn(
            row.id, frozenset(nodes), from_calls, until, until + 2 * length_s, length_s
        )
        if from_calls:
            demands: dict[str, ResourceSet] = {}
            for number, address in zip(row.homeless(), nodes, strict=True):
                demands[address] = demands.get(address, ResourceSet()) + row.bundles[number]
            self._leases.vacate(demands)

    def _calls_that_end(self) -> list[Holding]:
        """Return the holdings of leases and of calls that end by themselves."""
        return [
            call.holding
            for call in self._ground.calls.holding.values()
            if call.holding is not None
            and call.spec["kind"] != "actor"
            and not isinstance(call.strategy, InGroup)
        ]

    def _where(
        self, row: Group, only: Collection[str] | None, ended: Collection[Holding] | None
    ) -> list[str] | None:
        wish = row.wish()
        return self._ground.ledger.where_it_could_be(
            wish.bundles,
            wish.strategy,
            ended=ended,
            only=only,
            beside=wish.beside,
            allowed=admitted(wish.selectors, self._ground.nodes.info),
        )

    def is_feasible(self, row: Group) -> bool:
        """Return whether a group could be placed on empty nodes."""
        if self._membership != self._ground.ledger.membership:
            self._membership = self._ground.ledger.membership
            self._feasible.clear()
        wish = row.wish()
        if wish not in self._feasible:
            if len(self._feasible) >= _MANY_WISHES:
                self._feasible.clear()
            self._feasible[wish] = self._where(row, None, None) is not None
        return self._feasible[wish]
