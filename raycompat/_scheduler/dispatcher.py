"""Which call starts next, and where: queues of calls that wait for resources, served in turn.

Acquires the resources of a call in the ledger, sends the node a grant, and lets the task go to it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol.call_spec import Grant
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup, Strategy

if TYPE_CHECKING:
    from raycompat._scheduler.calls import Call
    from raycompat._scheduler.core import Core
    from raycompat._scheduler.leases import Shape

#: Seconds that a request waits before its driver is told that no node can ever fulfil it.
INFEASIBLE_WARNING_S = 10.0


class Dispatcher:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        #: Calls whose dependencies are there, by (owner, request, strategy): one shape, one queue.
        self._queues: dict[Shape, deque[str]] = {}
        self._is_due = False
        self._is_warning_due = False
        self._warned: set[Shape] = set()

    def enqueue(self, key: str, call: Call) -> None:
        """Have a call wait for its resources."""
        shape = (call.owner, call.request, call.strategy)
        call.queue = self._queues.setdefault(shape, deque())
        call.queue.append(key)
        self.soon()

    def soon(self) -> None:
        """See, after what is going on, whether something can start."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Start what fits: one call of each queue in turn, so that no caller is starved."""
        self._is_due = False
        self._core.groups.serve()
        blocked: set[tuple[ResourceSet, Strategy]] = set()
        progress = True
        while progress:
            progress = False
            for shape in list(self._queues):
                if shape[1:] in blocked:
                    continue
                if self._start_one(shape):
                    progress = True
                elif self._core.leases.reserved(shape) is None:
                    blocked.add(shape[1:])
        self._queues = {shape: queue for shape, queue in self._queues.items() if queue}
        waiting = set(self._core.groups.keeper.pressing)
        for shape, queue in self._queues.items():
            if self._core.placer.make_room(shape, queue):
                waiting.add(shape[0])
        self._core.leases.tell_who_waits(waiting)
        if (self._queues or self._core.groups.waiting()) and not self._is_warning_due:
            self._is_warning_due = True
            asyncio.get_running_loop().call_later(
                INFEASIBLE_WARNING_S + 0.1, self._warn_of_the_infeasible
            )

    def _start_one(self, shape: Shape) -> bool:
        """Start, or fail, the first call of a queue; False if it has to wait."""
        queue = self._queues[shape]
        if not queue:
            del self._queues[shape]
            return True
        key = queue[0]
        error = self._core.placer.why_it_cannot_go(key, shape)
        if error is not None:
            self._core.calls.end(key, error)
            return True
        holding = self._core.placer.acquire(key, shape)
        if holding is None:
            error = self._core.placer.why_it_does_not_wait(key, shape)
            if error is not None:
                self._core.calls.end(key, error)
            return error is not None
        queue.popleft()
        del self._queues[shape]
        if queue:
            self._queues[shape] = queue  # behind the others, whose turn it is
        call = self._core.calls.by_key[key]
        call.holding, call.queue, call.is_freed, call.is_ready = holding, None, False, False
        if call.spec["kind"] == "lease":
            self._core.leases.granted(key, shape, holding)
        self._core.leases.served(shape)
        self.run_on(holding.node_id, key, call)
        return True

    def run_on(self, address: str, key: str, call: Call, made: list[Any] | None = None) -> None:
        """Let a call go to a node; `made` is what it has returned elsewhere, for the node to keep."""
        call.address = address
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
        dask.tell_worker(self._scheduler, address, {"op": "raycompat-grant", "grant": dict(grant)})
        dask.release_to(self._scheduler, key, address)

    def _warn_of_the_infeasible(self) -> None:
        """Tell drivers, once a shape, what has waited and can never run."""
        self._is_warning_due = False
        now = time.monotonic()
        for (owner, request, strategy), queue in self._queues.items():
            call = self._core.calls.by_key.get(queue[0]) if queue else None
            if call is None or (owner, request, strategy) in self._warned:
                continue
            if now - call.since < INFEASIBLE_WARNING_S or self._core.placer.is_feasible(
                request, strategy
            ):
                continue
            self._warned.add((owner, request, strategy))
            where = "" if isinstance(strategy, str) else f" {strategy}"
            self._core.logs.tell(
                call.spec["job"],
                f"raycompat: {call.spec['name']} has waited {now - call.since:.0f} s for {request}"
                f"{where} and no node can ever provide that. The largest node has "
                f"{self._core.ledger.largest_node(request)}, the cluster in total "
                f"{self._core.ledger.cluster_total()}. Ask for less, or add a node that has it.",
            )
        for job, line in self._core.groups.warnings(INFEASIBLE_WARNING_S):
            self._core.logs.tell(job, line)
        self._core.dispatcher.soon()  # which has us look again if something still waits

    def pending(self) -> list[dict[str, Any]]:
        """Return what waits for resources, by what it asks for: tasks, actors and leases of callers."""
        counts: dict[tuple[ResourceSet, str], int] = {}
        for (_, request, _), queue in self._queues.items():
            for key in queue:
                shape = (request, self._core.calls.by_key[key].spec["kind"])
                counts[shape] = counts.get(shape, 0) + 1
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
