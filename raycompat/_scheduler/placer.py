"""The node for a waiting call: by its strategy, labels, groups, and the nodes kept for others.

The dispatcher calls it for one call after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._protocol import failures
from raycompat._protocol.strategy import InGroup, OnNode, Strategy, without_selectors
from raycompat._scheduler.affinity import choices

if TYPE_CHECKING:
    from raycompat._protocol.resource_set import ResourceSet
    from raycompat._scheduler.capacity import Holding, Place
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.groups import Groups
    from raycompat._scheduler.leases import Leases
    from raycompat._scheduler.lines import Line, Shape


class Placer:
    """Acquires resources for calls, and explains why calls cannot run."""

    def __init__(
        self,
        ground: Ground,
        groups: Groups,
        leases: Leases,
    ) -> None:
        self._ground = ground
        self._groups = groups
        self._leases = leases
        self._dask = ground.dask

    def acquire(self, key: str, shape: Shape) -> Holding | None:
        """Acquire a call's resources in an allowed place; None when they are not free."""
        _, request, strategy = shape
        running, reserved = self._ground.drains.accepting(), self._leases.reserved(shape)
        if isinstance(strategy, InGroup):
            bundles = [each for each in self._groups.bundles(strategy) if each is not reserved]
            return self._ground.ledger.acquire(request, within=bundles, only=running)
        nearest = self._dask.dependency_bytes(key)
        free = running - {reserved} - self._groups.keeper.kept_from_calls()
        for allowed in choices(strategy, request, self._ground.nodes.info, self._ground.ledger):
            holding = self._ground.ledger.acquire(
                request,
                strategy="SPREAD" if without_selectors(strategy) == "SPREAD" else "DEFAULT",
                prefer=sorted(nearest, key=nearest.__getitem__)[::-1],
                only=free if allowed is None else free.intersection(allowed),
            )
            if holding is not None:
                return holding
        return None

    def make_room(self, line: Line) -> bool:
        """Revoke leases for calls without free resources; return whether that helps."""
        _, request, strategy = line.shape
        places: frozenset[Place] | None
        if isinstance(strategy, InGroup):
            places = frozenset(self._groups.bundles(strategy))
        else:
            places = self._allowed(request, strategy)
        first = self._ground.calls.by_key[line.first]
        is_lease = first.spec["kind"] == "lease"
        return self._leases.make_room(
            line.shape, len(line.keys), is_lease=is_lease, since=first.since, places=places
        )

    def _allowed(self, request: ResourceSet, strategy: Strategy) -> frozenset[Place] | None:
        """Return the nodes that a call may use; None is all."""
        places = set[str]()
        for allowed in choices(strategy, request, self._ground.nodes.info, self._ground.ledger):
            if allowed is None:
                return None
            places.update(allowed)
        return frozenset(places)

    def is_feasible(self, request: ResourceSet, strategy: Strategy) -> bool:
        """Return whether a call could ever run. A call in a group waits for the group instead."""
        if isinstance(strategy, InGroup):
            return True
        ledger = self._ground.ledger
        allowed = choices(strategy, request, self._ground.nodes.info, ledger)
        return any(ledger.feasible(request, each) for each in allowed)

    # --- errors ---------------------------------------------------------------------------------

    def error_if_impossible(self, key: str, shape: Shape) -> bytes | None:
        """Return the error of a call that waits for a node or group that cannot appear."""
        _, request, strategy = shape
        if isinstance(strategy, InGroup) and self._groups.is_gone(strategy.group):
            return self._groups.why_it_is_gone(key)
        base = without_selectors(strategy)
        if isinstance(base, OnNode) and not choices(
            strategy, request, self._ground.nodes.info, self._ground.ledger
        ):
            text = (
                f"The node {base.node_id} of its NodeAffinitySchedulingStrategy does not exist "
                f"(any more), or can never provide {request}, and soft=False."
                + ("" if base is strategy else " Or the label_selector does not admit it.")
            )
            return failures.unschedulable(text, is_actor=self._is_actor(key))
        return None

    def error_if_busy(self, key: str, shape: Shape) -> bytes | None:
        """Return the error of a call whose strategy does not let it wait for free resources."""
        _, request, strategy = shape
        strategy = without_selectors(strategy)
        if not (isinstance(strategy, OnNode) and strategy.fails_when_busy):
            return None
        text = (
            f"The node {strategy.node_id} has no {request} free, and _fail_on_unavailable is set."
        )
        return failures.unschedulable(text, is_actor=self._is_actor(key))

    def _is_actor(self, key: str) -> bool:
        return key in self._ground.actors.rows
