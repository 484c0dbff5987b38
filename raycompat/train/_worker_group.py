"""The workers of one try: a placement group, and an actor for each rank.

Ranks are numbered node by node, so that neighbours are on one node.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import raycompat as ray
from raycompat.exceptions import RayError
from raycompat.train import _reservation
from raycompat.train._configs import ScalingConfig
from raycompat.train._worker import Place, RayTrainWorker
from raycompat.util._internal_actors import internal_actor
from raycompat.util.placement_group import (
    PlacementGroup,
    placement_group_table,
    remove_placement_group,
)
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

_log = logging.getLogger(__name__)


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
    reserve : callable, optional
        Reserves that group. By default one for a fixed number of workers.
    """

    def __init__(
        self,
        scaling: ScalingConfig,
        worker_class: type[RayTrainWorker],
        runtime_env: dict[str, Any],
        group: PlacementGroup | None = None,
        reserve: Callable[[], PlacementGroup] | None = None,
    ) -> None:
        self._scaling = scaling
        self._reserve = reserve or partial(_reservation.reserve, scaling)
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
            internal_actor(self._class)
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

    # --- functions for backends -----------------------------------------------------------------

    def execute_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function on all workers; return references, by rank."""
        return [worker.actor.execute.remote(function, *args, **kwargs) for worker in self.workers]

    def execute(
        self, function: Callable[..., object], *args: object, **kwargs: object
    ) -> list[Any]:
        """Call a function on all workers; return the results by rank."""
        results: list[object] = ray.get(self.execute_async(function, *args, **kwargs))
        return results

    def execute_single_async(
        self, worker_index: int, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function on one worker; return a reference."""
        return self.workers[worker_index].actor.execute.remote(function, *args, **kwargs)

    def execute_single(
        self, worker_index: int, function: Callable[..., object], *args: object, **kwargs: object
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


def _numbered(actors: list[object], places: list[Place]) -> list[Worker]:
    nodes = list(dict.fromkeys(place.node_id for place in places))
    seen = dict.fromkeys(nodes, 0)
    workers = []
    for rank, (actor, place) in enumerate(zip(actors, places, strict=True)):
        size = sum(other.node_id == place.node_id for other in places)
        local_rank, node_rank = seen[place.node_id], nodes.index(place.node_id)
        workers.append(Worker(actor, place, rank, local_rank, size, node_rank))
        seen[place.node_id] += 1
    return workers
