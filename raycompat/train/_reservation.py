"""The placement group of a try: for a fixed number of workers, or for as many as there is room for."""

from __future__ import annotations

import logging
import time

import raycompat as ray
from raycompat.train._configs import ScalingConfig
from raycompat.util.placement_group import PlacementGroup, placement_group, remove_placement_group

_log = logging.getLogger(__name__)

#: Seconds to wait for nodes that may be about to join, when all that are there do not suffice.
INFEASIBLE_S = 5.0
#: Seconds between two warnings that resources are in use.
_WARN_S = 30.0
#: Seconds in which the scheduler places a group for which there is room.
_PLACED_S = 2.0


class PlacementFailed(RuntimeError):
    """The cluster has no room for the workers; the text shows its resources."""


def reserve(scaling: ScalingConfig) -> PlacementGroup:
    """Reserve the resources of a fixed number of workers, and wait until others release them.

    Raises
    ------
    PlacementFailed
        When the cluster is too small.
    """
    number = scaling.max_workers
    group = _group(scaling, number)
    try:
        _wait_for(group, scaling, number, is_final=True)
    except BaseException:
        remove_placement_group(group)
        raise
    return group


class Elasticity:
    """The number of workers of a run that may have more or fewer.

    It asks the scheduler for placement groups, because only the scheduler knows for how many workers
    there is room on the nodes at the same time.

    Parameters
    ----------
    scaling : ScalingConfig
        The least and the largest number of workers.
    """

    def __init__(self, scaling: ScalingConfig) -> None:
        self._scaling = scaling
        self._checked = time.monotonic()
        #: Groups for one more worker each, and since when they wait.
        self._probes: list[PlacementGroup] = []
        self._probed = 0.0

    def reserve(self) -> PlacementGroup:
        """Reserve the resources of as many workers as there is room for; wait for the least."""
        scaling = self._scaling
        least, number = scaling._least_workers, min(scaling.max_workers, _room(scaling))
        while number > least:
            group = _group(scaling, number)
            if group.wait(INFEASIBLE_S):
                return self._reserved(group)
            remove_placement_group(group)  # others use the resources
            number = min(number - 1, self._room_now(number))
        group = _group(scaling, least)
        try:
            _wait_for(group, scaling, least, is_final=False)
        except BaseException:
            remove_placement_group(group)
            raise
        return self._reserved(group)

    def _reserved(self, group: PlacementGroup) -> PlacementGroup:
        self._checked = time.monotonic()
        return group

    def _room_now(self, number: int) -> int:
        """Return for how many of `number` workers resources are free."""
        self._probe(0, number)
        try:
            deadline = self._probed + _PLACED_S
            return sum(each.wait(max(0.0, deadline - time.monotonic())) for each in self._probes)
        finally:
            self.stop()

    def _probe(self, first: int, number: int) -> None:
        self._probes = [_group(self._scaling, 1, first + index) for index in range(number)]
        self._probed = time.monotonic()

    def num_more(self, current: int) -> int:
        """Return for how many more workers than `current` resources are free; do not wait."""
        now = time.monotonic()
        if self._probes:
            ready = [each.wait(0) for each in self._probes]
            if not all(ready) and now - self._probed < _PLACED_S:
                return 0
            self.stop()
            return sum(ready)
        if now - self._checked >= self._scaling.elastic_resize_monitor_interval_s:
            self._checked = now
            room = min(self._scaling.max_workers, _room(self._scaling))
            self._probe(current, max(0, room - current))
        return 0

    def stop(self) -> None:
        """Withdraw what it has asked for."""
        for each in self._probes:
            remove_placement_group(each)
        self._probes = []


def _group(scaling: ScalingConfig, number: int, first: int = 0) -> PlacementGroup:
    """Return a group for `number` workers, which may not be placed yet."""
    needs = scaling._resources_per_worker_not_none
    ranks = range(first, first + number)
    labels = [scaling.labels_of(rank) or {} for rank in ranks]
    return placement_group(
        [dict(needs) for _ in ranks],
        strategy=scaling.placement_strategy,
        bundle_label_selector=None if scaling.label_selector is None else labels,
    )


def _wait_for(
    group: PlacementGroup, scaling: ScalingConfig, number: int, *, is_final: bool
) -> None:
    """Wait for a group; `is_final`: not for nodes that may join later."""
    needs = scaling._resources_per_worker_not_none
    began, seconds = time.monotonic(), INFEASIBLE_S
    while not group.wait(seconds):
        lacking = _lacking(needs, number, scaling.placement_strategy)
        if lacking and is_final:
            raise PlacementFailed(lacking)
        _log.warning(
            "%d workers with %s each wait for resources%s, since %.0f s. Free: %s, of %s.",
            number,
            needs,
            "" if lacking else " that are in use",
            time.monotonic() - began,
            _amounts(ray.available_resources(), needs),
            _amounts(ray.cluster_resources(), needs),
        )
        seconds = _WARN_S


def _amounts(resources: dict[str, float], names: dict[str, float]) -> dict[str, float]:
    return {name: resources.get(name, 0.0) for name in names}


def _nodes(needs: dict[str, float]) -> list[dict[str, float]]:
    """Return the resources of each node, of those that workers need."""
    return [_amounts(node["Resources"], needs) for node in ray.nodes() if node["Alive"]]


def _room_on(node: dict[str, float], needs: dict[str, float]) -> int:
    return min(int(node[name] // amount) for name, amount in needs.items() if amount)


def _room(scaling: ScalingConfig) -> int:
    """Return for how many workers the cluster has resources when it is empty."""
    needs, strategy = scaling._resources_per_worker_not_none, scaling.placement_strategy
    if not any(needs.values()):
        return scaling.max_workers
    rooms = [_room_on(node, needs) for node in _nodes(needs)]
    if strategy == "STRICT_SPREAD":
        return sum(room > 0 for room in rooms)
    return max(rooms, default=0) if strategy == "STRICT_PACK" else sum(rooms)


def _lacking(needs: dict[str, float], number: int, strategy: str) -> str | None:
    """Return the resources that the cluster lacks; None if it has enough when it is empty."""
    total = _amounts(ray.cluster_resources(), needs)
    wanted = {name: amount * number for name, amount in needs.items()}
    nodes = _nodes(needs)
    room = sum(_room_on(node, needs) for node in nodes) if needs else number
    if room < number:
        advice = (
            f"Pass ScalingConfig(num_workers={room}), fewer resources_per_worker, or a larger cluster"
            if room
            else "Pass fewer resources_per_worker, or a larger cluster"
        )
        return (
            f"{number} workers with {needs} each need {wanted}. The cluster has {total} in all, on "
            f"{len(nodes)} nodes, of which the largest has {_largest(nodes)}: room for {room} workers. "
            f"{advice}; to try it on a small machine, ray.init(num_cpus={number})."
        )
    if strategy == "STRICT_SPREAD" and len(nodes) < number:
        return (
            f"{number} workers on a node each (STRICT_SPREAD): the cluster has {len(nodes)} nodes."
        )
    return None


def _largest(nodes: list[dict[str, float]]) -> dict[str, float]:
    return max(nodes, key=lambda node: tuple(node.values()), default={})
