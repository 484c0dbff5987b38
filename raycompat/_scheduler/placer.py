"""Where calls that wait go: by their strategies, labels of nodes, groups, and what is kept for others.

Part of the plugin, which asks for one call after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from raycompat import _dask_adapter as dask
from raycompat._protocol import failures
from raycompat._protocol.strategy import InGroup, OnNode, Strategy
from raycompat._scheduler.affinity import choices

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.core import Core
    from raycompat._scheduler.leases import Shape
    from raycompat._scheduler.lines import Line
    from raycompat._scheduler.placement import Grant as Holding
    from raycompat._scheduler.placement import Place


class Placer:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler

    def acquire(self, key: str, shape: Shape) -> Holding | None:
        """Take what a call asks for from where it may go; None when nothing is free there."""
        core, (_, request, strategy) = self._core, shape
        running, reserved = dask.running_workers(self._scheduler), core.leases.reserved(shape)
        if isinstance(strategy, InGroup):
            bundles = [each for each in core.groups.bundles(strategy) if each is not reserved]
            return core.ledger.acquire(request, within=bundles, only=running)
        nearest = dask.dependency_bytes(self._scheduler, key)
        free = running - {reserved} - core.groups.keeper.kept_from_calls()
        for allowed in choices(strategy, request, core.nodes.info, core.ledger):
            holding = core.ledger.acquire(
                request,
                strategy="SPREAD" if strategy == "SPREAD" else "DEFAULT",
                prefer=sorted(nearest, key=nearest.__getitem__)[::-1],
                only=free if allowed is None else free.intersection(allowed),
            )
            if holding is not None:
                return holding
        return None

    def make_room(self, line: Line) -> bool:
        """Revoke leases for calls for which nothing is free; return whether that helps."""
        core, (_, request, strategy) = self._core, line.shape
        places: Collection[Place]
        if isinstance(strategy, InGroup):
            places = core.groups.bundles(strategy)
        else:
            best, *others = choices(strategy, request, core.nodes.info, core.ledger)
            places = core.nodes.info if others or best is None else best
        first = core.calls.by_key[line.first]
        is_lease = first.spec["kind"] == "lease"
        return core.leases.make_room(
            line.shape, len(line.keys), is_lease=is_lease, since=first.since, places=places
        )

    def is_feasible(self, request: ResourceSet, strategy: Strategy) -> bool:
        """Whether a call could ever run here. One in a group waits for that, which is told of."""
        if isinstance(strategy, InGroup):
            return True
        ledger = self._core.ledger
        allowed = choices(strategy, request, self._core.nodes.info, ledger)
        return any(ledger.feasible(request, each) for each in allowed)

    # --- errors ---------------------------------------------------------------------------------

    def why_it_cannot_go(self, key: str, shape: Shape) -> bytes | None:
        """Return the error of a call that waits for what is not there, and will not come."""
        _, request, strategy = shape
        if isinstance(strategy, InGroup) and self._core.groups.is_gone(strategy.group):
            return self._core.groups.why_it_is_gone(key)
        if isinstance(strategy, OnNode) and not choices(
            strategy, request, self._core.nodes.info, self._core.ledger
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
        return key in self._core.actors.rows
