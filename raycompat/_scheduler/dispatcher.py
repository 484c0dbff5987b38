"""The choice of the next call and its node: lines of calls that wait for resources take turns.

It acquires a call's resources in the ledger, sends the node a grant, and then starts the task there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raycompat._messages.calls import GrantCall
from raycompat._protocol.call_spec import Grant
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup, Strategy
from raycompat._scheduler.lines import Line, Lines, Site

if TYPE_CHECKING:
    from raycompat._scheduler.actors import Actors
    from raycompat._scheduler.call_table import Call
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.groups import Groups
    from raycompat._scheduler.leases import Leases
    from raycompat._scheduler.placer import Placer

#: Lines for which leases are revoked in one round: enough for most programs.
_MANY_LINES = 32


class Dispatcher:
    """The lines of waiting calls, and the rounds that start calls."""

    def __init__(
        self,
        ground: Ground,
        actors: Actors,
        groups: Groups,
        leases: Leases,
        placer: Placer,
    ) -> None:
        self._ground = ground
        self._actors = actors
        self._groups = groups
        self._leases = leases
        self._placer = placer
        self._dask = ground.dask
        #: Calls with ready dependencies. One line has one shape: (owner, request, strategy).
        self._lines = Lines()
        self._round = 0
        self._membership = 0
        #: Owners that revoked leases would help, and the last round in which this was so.
        self._pressing: dict[str, int] = {}

    def has_lines(self) -> bool:
        """Return whether calls wait."""
        return bool(self._lines)

    def lines(self) -> Iterator[Line]:
        """Return the lines of waiting calls."""
        return iter(self._lines)

    def enqueue(self, key: str, call: Call) -> None:
        """Queue a call for its resources."""
        shape = (call.owner, call.request, call.strategy)
        call.line = self._lines.add(key, call.spec["kind"], shape)
        self._ground.next_round.soon()

    def withdraw(self, key: str, call: Call) -> None:
        """Remove a call from its line, if it is in one."""
        if call.line is not None:
            self._lines.remove(key, call.line)
            call.line = None

    def serve(self) -> None:
        """Start the calls that fit: one of each line in turn, so that no caller is starved."""
        self._round += 1
        self._groups.serve()
        if self._membership != self._ground.ledger.membership:
            self._membership = self._ground.ledger.membership
            self._lines.mark_all_untried()
        for site in self._lines.sites():
            self._serve_site(site)
        waiting = set(self._groups.keeper.pressing)
        self._leases.set_pressure(waiting | self._make_room())

    def _serve_site(self, site: Site) -> None:
        """Start the calls that fit on nodes, or in the bundles of a group."""
        free: dict[str, int] = {}

        def most_free(resource: str) -> int:
            if resource not in free:
                bundles = None if site is None else self._groups.bundles(InGroup(site))
                free[resource] = self._ground.ledger.most_free(resource, bundles)
            return free[resource]

        while (line := self._lines.next(site, most_free, self._round)) is not None:
            needs = line.shape[1].items()
            lacking = next((name for name, units in needs if units > most_free(name)), None)
            if lacking is None or line.must_be_tried:
                if self._start_one(line):
                    free.clear()
                    continue
                line.is_untried = False
            if lacking is None:
                self._lines.try_again(line, self._round)
            else:
                self._lines.lacks(line, lacking)

    def _make_room(self) -> set[str]:
        """Revoke leases for waiting calls, and return the owners that this helps.

        Of very many lines, each round handles some, and the next round others.
        """
        if not self._lines:
            self._leases.no_one_waits()
        for line in self._lines.some(_MANY_LINES):
            if self._placer.make_room(line):
                self._pressing[line.shape[0]] = self._round
        since = self._round - len(self._lines) // _MANY_LINES
        self._pressing = {who: at for who, at in self._pressing.items() if at >= since}
        return set(self._pressing) if self._lines else set()

    def _start_one(self, line: Line) -> bool:
        """Start, or fail, the first call of a line; False if it must wait."""
        key, shape = line.first, line.shape
        error = self._placer.error_if_impossible(key, shape)
        holding = self._placer.acquire(key, shape) if error is None else None
        if holding is None:
            error = error or self._placer.error_if_busy(key, shape)
            if error is None:
                return False
        self._lines.remove_started(key, line)
        call = self._ground.calls.by_key[key]
        call.line = None
        if holding is None:
            assert error is not None
            self._actors.end_call(key, error)
            return True
        call.holding, call.is_freed, call.is_ready = holding, False, False
        self._ground.calls.holding[key] = call
        if call.spec["kind"] == "lease":
            self._leases.add(key, shape, holding)
        self._leases.served(shape)
        self.run_on(holding.node_id, key, call)
        return True

    def run_on(self, address: str, key: str, call: Call, results: list[Any] | None = None) -> None:
        """Let a node run a call, or store its results if its owner has run it."""
        call.address, call.started, call.pid = address, time.time(), None
        grant = Grant(
            key=key,
            name=call.spec["name"],
            job=call.spec["job"],
            owner=call.owner,
            retries=call.retries,
            max_calls=call.spec["max_calls"],
            runtime_env=call.spec["runtime_env"],
            resources=ResourceSet.from_units(
                call.spec["keep"] if call.spec["kind"] == "actor" else call.spec["request"]
            ).amounts(),
            gpus=list(call.holding.gpus) if call.holding else [],
            group=_group_of(call.strategy),
            actor=call.spec["actor"],
            num_restarts=self._ground.actors.rows[key].incarnation if call.spec["actor"] else 0,
            kind=call.spec["kind"],
            results=results,
        )
        self._dask.notify_node(address, GrantCall(grant))
        self._dask.release_to(key, address)

    def pending(self) -> list[dict[str, object]]:
        """Return the waiting tasks, actors and leases, by their resources."""
        counts: Counter[tuple[ResourceSet, str]] = Counter()
        for line in self._lines:
            for kind, count in (+line.counts).items():
                counts[line.shape[1], kind] += count
        may_come = self._ground.nodes.may_come()
        return [
            {
                "request": request.amounts(),
                "kind": kind,
                "count": count,
                "is_feasible": may_come or self._ground.ledger.feasible(request),
            }
            for (request, kind), count in counts.items()
        ]


def _group_of(strategy: Strategy) -> tuple[str, bool] | None:
    """Return the part of a grant about the placement group."""
    return (strategy.group, strategy.captures) if isinstance(strategy, InGroup) else None
