"""The placement group of a try: for a fixed number of workers, or for as many as there is room for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import raycompat as ray
from raycompat.train._configs import ScalingConfig
from raycompat.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

_log = logging.getLogger(__name__)

#: Seconds to wait for nodes that may be about to join, when all that are there do not suffice.
INFEASIBLE_S = 5.0
#: Seconds between two warnings that resources are in use.
_WARN_S = 30.0
#: Seconds in which the scheduler places a group for which there is room.
_PLACED_S = 2.0
#: The label that each node has with its id.
_NODE_ID_LABEL = "ray.io/node-id"


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
    with _removed_on_error(group):
        _wait_for(group, scaling, number, must_fit=number)
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
        #: Seconds between two checks; more after one that has not led to more workers.
        self._interval_s = scaling.elastic_resize_monitor_interval_s
        self._checked = time.monotonic()
        #: The group of the latest try.
        self._group: PlacementGroup | None = None
        #: The number of workers when room for more was found; None after `reserve`.
        self._number_before: int | None = None
        #: Groups for one more worker each, references to them, and since when they wait.
        self._probes: list[PlacementGroup] = []
        self._refs: list[object] = []
        self._probed = 0.0

    def reserve(self) -> PlacementGroup:
        """Reserve the resources of as many workers as there is room for; wait for the least.

        Raises
        ------
        PlacementFailed
            When, before the first try, no node is large enough for one worker.
        """
        scaling = self._scaling
        least, number = scaling._least_workers, min(scaling.max_workers, _room(scaling))
        while number > least:
            group = _group(scaling, number)
            with _removed_on_error(group):
                is_reserved = group.wait(INFEASIBLE_S)
            if is_reserved:
                return self._reserved(group, number)
            remove_placement_group(group)  # others use the resources
            number = min(number - 1, self._room_now(number))
        group = _group(scaling, least)
        with _removed_on_error(group):
            # A node that was lost may be replaced.
            _wait_for(group, scaling, least, must_fit=1 if self._group is None else 0)
        return self._reserved(group, least)

    def _reserved(self, group: PlacementGroup, number: int) -> PlacementGroup:
        if self._number_before is not None:
            # Others may take the room whenever the workers have ended: do not end them for it as often.
            has_grown = number > self._number_before
            given = self._scaling.elastic_resize_monitor_interval_s
            self._interval_s = given if has_grown else max(2 * self._interval_s, _PLACED_S)
            self._number_before = None
        self._group = group
        self._checked = time.monotonic()
        return group

    def _room_now(self, number: int) -> int:
        """Return for how many of `number` workers resources are free."""
        try:
            self._probe(self._labels(rank) for rank in range(number))
            ready, _ = ray.wait(self._refs, num_returns=number, timeout=_PLACED_S)
            return len(ready)
        finally:
            self.stop()

    def _probe(self, labels: Iterator[dict[str, str]]) -> None:
        for each in labels:
            self._probes.append(_group_with(self._scaling, [each]))
        self._refs = [each.ready() for each in self._probes]
        self._probed = time.monotonic()

    def _labels(self, rank: int) -> dict[str, str]:
        return self._scaling.labels_of(rank) or {}

    def num_more(self, current: int) -> int:
        """Return for how many more workers than `current` resources are free; do not wait.

        With a strict strategy it looks for one, since how many more there will be depends on all nodes.
        """
        now = time.monotonic()
        if self._probes:
            ready, waiting = ray.wait(self._refs, num_returns=len(self._refs), timeout=0)
            if waiting and now - self._probed < _PLACED_S:
                return 0
            self.stop()
            if ready:
                self._number_before = current
            return len(ready)
        if now - self._checked >= self._interval_s:
            self._checked = now
            room = min(self._scaling.max_workers, _room(self._scaling))
            if room > current:
                self._probe_for_more(current, room)
        return 0

    def _probe_for_more(self, current: int, room: int) -> None:
        if self._scaling.placement_strategy.startswith("STRICT_"):
            labels = self._labels(current)
            nodes = self._nodes_of_workers()
            if (
                nodes and _NODE_ID_LABEL not in labels
            ):  # two conditions for one label cannot be given
                is_spread = self._scaling.placement_strategy == "STRICT_SPREAD"
                condition = f"{'!' if is_spread else ''}in({', '.join(nodes)})"
                self._probe(iter([{**labels, _NODE_ID_LABEL: condition}]))
        else:
            self._probe(self._labels(rank) for rank in range(current, room))

    def _nodes_of_workers(self) -> list[str]:
        assert self._group is not None
        nodes = placement_group_table(self._group).get("bundles_to_node_id", {})
        return sorted({node for node in nodes.values() if node})

    def stop(self) -> None:
        """Withdraw what it has asked for."""
        self._refs = []
        while self._probes:
            remove_placement_group(self._probes.pop())


@contextmanager
def _removed_on_error(group: PlacementGroup) -> Iterator[None]:
    """Remove a group after an error in the context, Ctrl-C included."""
    try:
        yield
    except BaseException:
        remove_placement_group(group)
        raise


def _group(scaling: ScalingConfig, number: int) -> PlacementGroup:
    """Return a group for `number` workers, which may not be placed yet."""
    return _group_with(scaling, [scaling.labels_of(rank) or {} for rank in range(number)])


def _group_with(scaling: ScalingConfig, labels: list[dict[str, str]]) -> PlacementGroup:
    """Return a group for workers with these labels of their nodes."""
    needs = scaling._resources_per_worker_not_none
    return placement_group(
        [dict(needs) for _ in labels],
        strategy=scaling.placement_strategy,
        bundle_label_selector=labels if any(labels) else None,
    )


def _wait_for(group: PlacementGroup, scaling: ScalingConfig, number: int, must_fit: int) -> None:
    """Wait for a group of `number` workers; raise if the whole cluster is too small for `must_fit`."""
    needs = scaling._resources_per_worker_not_none
    began, seconds = time.monotonic(), INFEASIBLE_S
    while not group.wait(seconds):
        room = _room(scaling)
        if room < must_fit:
            raise PlacementFailed(_lacking(scaling, number, room))
        waited = time.monotonic() - began
        if room < number:
            lacking = _lacking(scaling, number, room)
            _log.warning("%s The run waits for nodes that may join, since %.0f s.", lacking, waited)
        else:
            _log.warning(
                "%d workers with %s each wait for resources that are in use, since %.0f s. "
                "Free: %s, of %s.",
                number,
                needs,
                waited,
                _amounts(ray.available_resources(), needs),
                _amounts(ray.cluster_resources(), needs),
            )
        seconds = _WARN_S


def _amounts(resources: dict[str, float], names: dict[str, float]) -> dict[str, float]:
    return {name: resources.get(name, 0.0) for name in names}


def _nodes(needs: dict[str, float]) -> list[dict[str, float]]:
    """Return the resources of each node, of those that workers need."""
    return [_amounts(node["Resources"], needs) for node in ray.nodes() if node["Alive"]]


def _room_on(node: dict[str, float], needs: dict[str, float], most: int) -> int:
    """Return for how many workers a node has resources when it is empty, at most `most`."""
    # As floats, 5 * 0.2 may be more than 1.
    rooms = [int(node[name] / amount + 1e-9) for name, amount in needs.items() if amount]
    return min([*rooms, most])


def _room(scaling: ScalingConfig) -> int:
    """Return for how many workers the cluster has resources when it is empty."""
    needs, strategy = scaling._resources_per_worker_not_none, scaling.placement_strategy
    rooms = [_room_on(node, needs, scaling.max_workers) for node in _nodes(needs)]
    if strategy == "STRICT_SPREAD":
        return sum(room > 0 for room in rooms)
    return max(rooms, default=0) if strategy == "STRICT_PACK" else sum(rooms)


def _lacking(scaling: ScalingConfig, number: int, room: int) -> str:
    """Return what a cluster with room for `room` workers lacks for `number`."""
    needs, strategy = scaling._resources_per_worker_not_none, scaling.placement_strategy
    total = _amounts(ray.cluster_resources(), needs)
    wanted = {name: amount * number for name, amount in needs.items()}
    nodes = _nodes(needs)
    is_strict = strategy.startswith("STRICT_")
    numbers = (room, scaling.max_workers) if scaling.elasticity_enabled else room
    advice = [
        f"ScalingConfig(num_workers={numbers})" if room else "",
        f"placement_strategy={strategy.removeprefix('STRICT_')!r}" if is_strict else "",
        "fewer resources_per_worker, or a larger cluster",
    ]
    return (
        f"{number} workers with {needs} each need {wanted}. The cluster has {total} in all, on "
        f"{len(nodes)} nodes, of which the largest has {_largest(nodes)}: room for {room} workers"
        f"{f' with placement_strategy={strategy!r}' if is_strict else ''}. "
        f"Pass {', '.join(filter(None, advice))}"
        f"{'' if is_strict else f'; to try it on a small machine, ray.init(num_cpus={number})'}."
    )


def _largest(nodes: list[dict[str, float]]) -> dict[str, float]:
    return max(nodes, key=lambda node: tuple(node.values()), default={})
