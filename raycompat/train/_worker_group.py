"""The workers of one try: a placement group, and an actor for each rank.

Ranks are numbered node by node, so that neighbours are on one node.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import raycompat as ray
from raycompat.exceptions import RayError
from raycompat.train._configs import ScalingConfig
from raycompat.train._worker import Place, RayTrainWorker
from raycompat.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

_log = logging.getLogger(__name__)

#: Seconds to wait for nodes that may be about to join, when all that are there do not suffice.
INFEASIBLE_S = 5.0
#: Seconds between two warnings that resources are in use.
_WARN_S = 30.0


@dataclass(frozen=True)
class Worker:
    """A rank.

    Attributes
    ----------
    actor : ActorHandle
        Its process.
    place : Place
        Where it is.
    rank, local_rank, local_size, node_rank : int
        Its numbers.
    """

    actor: Any
    place: Place
    rank: int
    local_rank: int
    local_size: int
    node_rank: int

    def __str__(self) -> str:
        place = self.place
        return f"Rank {self.rank} (node {place.node_id}, ip {place.node_ip}, pid {place.pid})"


class PlacementFailed(RuntimeError):
    """The cluster has no room for the workers; the text shows its resources."""


class WorkerGroup:
    """See the module. Backends are given it, too.

    Parameters
    ----------
    scaling : ScalingConfig
        Number of workers, and the resources of each.
    worker_class : type
        A `RayTrainWorker`.
    runtime_env : dict
        Their runtime environment.
    group : PlacementGroup, optional
        A group with a bundle for each worker, which stays when the workers end. By default a group is
        reserved, and removed.
    """

    def __init__(
        self,
        scaling: ScalingConfig,
        worker_class: type[RayTrainWorker],
        runtime_env: dict[str, Any],
        group: PlacementGroup | None = None,
    ) -> None:
        self._scaling = scaling
        self._class = worker_class
        self._runtime_env = runtime_env
        self._given_group = group
        self._group: PlacementGroup | None = None
        self._actors: list[Any] = []
        self.workers: list[Worker] = []

    def __len__(self) -> int:
        return len(self.workers)

    def start(self) -> None:
        """Reserve the resources and start the processes.

        Raises
        ------
        PlacementFailed
            When the cluster is too small.
        RayError
            When a process did not start.
        """
        self._group = self._given_group or self._reserve()
        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        first_seen = list(dict.fromkeys(nodes[bundle] for bundle in sorted(nodes)))
        bundles = sorted(nodes, key=lambda bundle: (first_seen.index(nodes[bundle]), bundle))
        self._actors = [self._start_actor(rank, bundle) for rank, bundle in enumerate(bundles)]
        places = ray.get([actor.find_place.remote() for actor in self._actors])
        self.workers = _numbered(self._actors, places)

    def _start_actor(self, rank: int, bundle: int) -> Any:
        needs = self._scaling._resources_per_worker_not_none
        others = {name: needs[name] for name in needs if name not in ("CPU", "GPU", "memory")}
        is_chosen = "OMP_NUM_THREADS" in self._runtime_env.get("env_vars", {})
        num_threads = None if is_chosen else max(int(needs.get("CPU", 1)), 1)
        return (
            ray.remote(self._class)
            .options(
                num_cpus=needs.get("CPU", 0),
                num_gpus=needs.get("GPU", 0),
                memory=needs.get("memory"),
                resources=others or None,
                # The training function, the wait for its events, answers, pings, and code of backends.
                max_concurrency=16,
                runtime_env=self._runtime_env,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, bundle),
            )
            .remote(rank, num_threads)
        )

    def _reserve(self) -> PlacementGroup:
        scaling = self._scaling
        needs = scaling._resources_per_worker_not_none
        labels = scaling.label_selector
        group = placement_group(
            [dict(needs) for _ in range(scaling.num_workers)],
            strategy=scaling.placement_strategy,
            bundle_label_selector=None
            if labels is None
            else [scaling.labels_of(rank) or {} for rank in range(scaling.num_workers)],
        )
        try:
            self._wait_for(group, needs)
        except BaseException:
            remove_placement_group(group)
            raise
        return group

    def _wait_for(self, group: PlacementGroup, needs: dict[str, float]) -> None:
        began, seconds = time.monotonic(), INFEASIBLE_S
        while not group.wait(seconds):
            lacking = _lacking(needs, self._scaling)
            if lacking:
                raise PlacementFailed(lacking)
            _log.warning(
                "%d workers with %s each wait for resources that are in use, since %.0f s. Free: %s, "
                "of %s.",
                self._scaling.num_workers,
                needs,
                time.monotonic() - began,
                _amounts(ray.available_resources(), needs),
                _amounts(ray.cluster_resources(), needs),
            )
            seconds = _WARN_S

    # --- functions for backends -----------------------------------------------------------------

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function on all workers; return references, by rank."""
        return [worker.actor.execute.remote(function, *args, **kwargs) for worker in self.workers]

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function on all workers; return the results by rank."""
        results: list[Any] = ray.get(self.execute_async(function, *args, **kwargs))
        return results

    def execute_single_async(
        self, worker_index: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function on one worker; return a reference."""
        return self.workers[worker_index].actor.execute.remote(function, *args, **kwargs)

    def execute_single(
        self, worker_index: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function on one worker; return the result."""
        return ray.get(self.execute_single_async(worker_index, function, *args, **kwargs))

    def get_resources_per_worker(self) -> dict[str, float]:
        """Return the resources of each worker, by name."""
        return dict(self._scaling._resources_per_worker_not_none)

    def share_gpus(self) -> None:
        """Show each worker all GPUs of the workers on its node."""
        for worker in self.workers:
            ids = [
                gpu
                for other in self.workers
                if other.place.node_id == worker.place.node_id
                for gpu in other.place.gpu_ids
            ]
            if ids:
                self.execute_single(worker.rank, _show_gpus, ",".join(dict.fromkeys(ids)))

    def stop(self) -> None:
        """Kill the processes at once, and release their resources."""
        for actor in self._actors:
            try:
                ray.kill(actor)
            except RayError as error:
                _log.warning("A worker could not be killed: %s", error)
        self._actors, self.workers = [], []
        if self._group is not None:
            if self._group is not self._given_group:
                remove_placement_group(self._group)
            self._group = None


def _show_gpus(visible: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = visible


def _numbered(actors: list[Any], places: list[Place]) -> list[Worker]:
    nodes = list(dict.fromkeys(place.node_id for place in places))
    seen = dict.fromkeys(nodes, 0)
    workers = []
    for rank, (actor, place) in enumerate(zip(actors, places, strict=True)):
        size = sum(other.node_id == place.node_id for other in places)
        local_rank, node_rank = seen[place.node_id], nodes.index(place.node_id)
        workers.append(Worker(actor, place, rank, local_rank, size, node_rank))
        seen[place.node_id] += 1
    return workers


def _amounts(resources: dict[str, float], names: dict[str, float]) -> dict[str, float]:
    return {name: resources.get(name, 0.0) for name in names}


def _lacking(needs: dict[str, float], scaling: ScalingConfig) -> str | None:
    """Return the resources that the cluster lacks; None if it has enough when it is empty."""
    number = scaling.num_workers
    total = _amounts(ray.cluster_resources(), needs)
    wanted = {name: amount * number for name, amount in needs.items()}
    nodes = [_amounts(node["Resources"], needs) for node in ray.nodes() if node["Alive"]]
    room = sum(
        min(int(node[name] // amount) for name, amount in needs.items() if amount) for node in nodes
    )
    if needs and room < number:
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
    if scaling.placement_strategy == "STRICT_SPREAD" and len(nodes) < number:
        return (
            f"{number} workers on a node each (STRICT_SPREAD): the cluster has {len(nodes)} nodes."
        )
    return None


def _largest(nodes: list[dict[str, float]]) -> dict[str, float]:
    return max(nodes, key=lambda node: tuple(node.values()), default={})
