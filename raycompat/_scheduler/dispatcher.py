"""Which call starts next, and where: lines of calls that wait for resources, served in turn.

Acquires the resources of a call in the ledger, sends the node a grant, and lets the task go to it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol.call_spec import Grant
from raycompat._protocol.operations import ToNode
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup, Strategy
from raycompat._scheduler.lines import Line, Lines, Site

if TYPE_CHECKING:
    from raycompat._scheduler.calls import Call
    from raycompat._scheduler.core import Core

#: Lines for which room is made in one round: enough for most programs.
_MANY_LINES = 32


class Dispatcher:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        #: Calls whose dependencies are there, by (owner, request, strategy): one shape, one line.
        self._lines = Lines()
        self._round = 0
        self._membership = 0
        self._is_due = False
        #: Owners for whose calls the end of leases would make room, and the round that found so.
        self._pressing: dict[str, int] = {}

    def lines(self) -> Iterator[Line]:
        """Return the lines of calls that wait."""
        return iter(self._lines)

    def enqueue(self, key: str, call: Call) -> None:
        """Queue a call for its resources."""
        shape = (call.owner, call.request, call.strategy)
        call.line = self._lines.add(key, call.spec["kind"], shape)
        self.soon()

    def withdraw(self, key: str, call: Call) -> None:
        """Take a call out of its queue, if it is in one."""
        if call.line is not None:
            self._lines.remove(key, call.line)
            call.line = None

    def soon(self) -> None:
        """See, after what is going on, whether something can start."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Start what fits: one call of each line in turn, so that no caller is starved."""
        self._is_due = False
        self._round += 1
        self._core.groups.serve()
        if self._membership != self._core.ledger.membership:
            self._membership = self._core.ledger.membership
            self._lines.try_all()
        for site in self._lines.sites():
            self._serve_site(site)
        waiting = set(self._core.groups.keeper.pressing)
        self._core.leases.tell_who_waits(waiting | self._make_room())
        if self._lines or self._core.groups.waiting():
            self._core.notices.look_later()

    def _serve_site(self, site: Site) -> None:
        """Start what fits on nodes, or in the bundles of a group, until nothing is free there."""
        free: dict[str, int] = {}

        def most_free(resource: str) -> int:
            if resource not in free:
                bundles = None if site is None else self._core.groups.bundles(InGroup(site))
                free[resource] = self._core.ledger.most_free(resource, bundles)
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
        """Revoke leases for calls that wait, and return the owners whom that helps.

        Of very many lines only some are looked at in each round, others in the next.
        """
        for line in self._lines.some(_MANY_LINES):
            if self._core.placer.make_room(line):
                self._pressing[line.shape[0]] = self._round
        since = self._round - len(self._lines) // _MANY_LINES
        self._pressing = {who: at for who, at in self._pressing.items() if at >= since}
        return set(self._pressing) if self._lines else set()

    def _start_one(self, line: Line) -> bool:
        """Start, or fail, the first call of a line; False if it has to wait."""
        key, shape = line.first, line.shape
        error = self._core.placer.why_it_cannot_go(key, shape)
        holding = self._core.placer.acquire(key, shape) if error is None else None
        if holding is None:
            error = error or self._core.placer.why_it_does_not_wait(key, shape)
            if error is None:
                return False
        self._lines.served(key, line)
        call = self._core.calls.by_key[key]
        call.line = None
        if holding is None:
            assert error is not None
            self._core.calls.end(key, error)
            return True
        call.holding, call.is_freed, call.is_ready = holding, False, False
        self._core.calls.holding[key] = call
        if call.spec["kind"] == "lease":
            self._core.leases.granted(key, shape, holding)
        self._core.leases.served(shape)
        self.run_on(holding.node_id, key, call)
        return True

    def run_on(self, address: str, key: str, call: Call, made: list[Any] | None = None) -> None:
        """Let a call go to a node; `made` is what it has returned elsewhere, for the node to keep."""
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
            num_restarts=self._core.actors.rows[key].incarnation if call.spec["actor"] else 0,
            kind=call.spec["kind"],
            made=made,
        )
        dask.tell_worker(self._scheduler, address, {"op": ToNode.GRANT, "grant": dict(grant)})
        dask.release_to(self._scheduler, key, address)

    def pending(self) -> list[dict[str, Any]]:
        """Return what waits for resources, by what it asks for: tasks, actors and leases of callers."""
        counts: Counter[tuple[ResourceSet, str]] = Counter()
        for line in self._lines:
            for kind, count in (+line.counts).items():
                counts[line.shape[1], kind] += count
        return [
            {
                "request": request.amounts(),
                "kind": kind,
                "count": count,
                "is_feasible": self._core.ledger.feasible(request),
            }
            for (request, kind), count in counts.items()
        ]


def _group_of(strategy: Strategy) -> tuple[str, bool] | None:
    """Return what a node is told of the group of a call."""
    return (strategy.group, strategy.captures) if isinstance(strategy, InGroup) else None
