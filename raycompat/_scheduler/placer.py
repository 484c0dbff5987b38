"""Where calls that wait go: by their strategies, labels of nodes, groups, and what is kept for others.

Part of the plugin, which asks for one call after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raycompat import _dask_adapter as dask
from raycompat._protocol import failures
from raycompat._protocol.strategy import InGroup, OnNode, Strategy
from raycompat._scheduler.affinity import choices

if TYPE_CHECKING:
    from distributed import Scheduler

    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.actors import Actors
    from raycompat._scheduler.leases import Leases, Shape
    from raycompat._scheduler.placement import Grant as Holding
    from raycompat._scheduler.plugin import SchedulerPlugin


class Placer:
    """See the module."""

    def __init__(
        self, plugin: SchedulerPlugin, scheduler: Scheduler, actors: Actors, leases: Leases
    ) -> None:
        self._plugin = plugin
        self._scheduler = scheduler
        self._actors = actors
        self._leases = leases

    def acquire(self, key: str, shape: Shape) -> Holding | None:
        """Take what a call asks for from where it may go; None when nothing is free there."""
        plugin, (_, request, strategy) = self._plugin, shape
        running = dask.running_workers(self._scheduler)
        if isinstance(strategy, InGroup):
            bundles = plugin.groups.bundles(strategy)
            return plugin.ledger.acquire(request, within=bundles, only=running)
        nearest = dask.dependency_bytes(self._scheduler, key)
        free = running - {self._leases.reserved(shape)} - plugin.groups.keeper.kept_from_calls()
        for allowed in choices(strategy, request, plugin.nodes, plugin.ledger):
            holding = plugin.ledger.acquire(
                request,
                strategy="SPREAD" if strategy == "SPREAD" else "DEFAULT",
                prefer=sorted(nearest, key=nearest.__getitem__)[::-1],
                only=free if allowed is None else free.intersection(allowed),
            )
            if holding is not None:
                return holding
        return None

    def make_room(self, shape: Shape, queue: Sequence[str]) -> bool:
        """Have leases end for calls for which nothing is free; whether that helps."""
        plugin, (_, request, strategy) = self._plugin, shape
        if isinstance(strategy, InGroup):
            return False  # what its group has, nobody else has
        best, *others = choices(strategy, request, plugin.nodes, plugin.ledger)
        first = plugin.calls[queue[0]]
        return self._leases.make_room(
            shape,
            len(queue),
            is_lease=first.spec["kind"] == "lease",
            since=first.since,
            only=None if others else best,
        )

    def is_feasible(self, request: ResourceSet, strategy: Strategy) -> bool:
        """Whether a call could ever run here. One in a group waits for that, which is told of."""
        if isinstance(strategy, InGroup):
            return True
        ledger = self._plugin.ledger
        allowed = choices(strategy, request, self._plugin.nodes, ledger)
        return any(ledger.feasible(request, each) for each in allowed)

    # --- errors ---------------------------------------------------------------------------------

    def why_it_cannot_go(self, key: str, shape: Shape) -> bytes | None:
        """Return the error of a call that waits for what is not there, and will not come."""
        _, request, strategy = shape
        if isinstance(strategy, InGroup) and self._plugin.groups.is_gone(strategy.group):
            return self._plugin.groups.why_it_is_gone(key)
        if isinstance(strategy, OnNode) and not choices(
            strategy, request, self._plugin.nodes, self._plugin.ledger
        ):
            text = (
                f"The node {strategy.node_id} of its NodeAffinitySchedulingStrategy does not exist "
                f"(any more), or can never provide {request}, and soft=False."
            )
            return failures.unschedulable(text, is_actor=self._is_actor(key))
        return None

    def why_it_does_not_wait(self, key: str, shape: Shape) -> bytes | None:
        """Return the error of a call for which nothing is free just now, if it asked for that."""
        _, request, strategy = shape
        if not (isinstance(strategy, OnNode) and strategy.fails_when_busy):
            return None
        text = (
            f"The node {strategy.node_id} has no {request} free, and _fail_on_unavailable is set."
        )
        return failures.unschedulable(text, is_actor=self._is_actor(key))

    def _is_actor(self, key: str) -> bool:
        return key in self._actors.rows
