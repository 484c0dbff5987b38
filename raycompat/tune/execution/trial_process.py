"""The actor of a trial, with its resources and, for a trial with workers, its placement group."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import raycompat as ray
from raycompat.tune.execution.placement_groups import PlacementGroupFactory
from raycompat.tune.execution.trial_actor import TrialActor
from raycompat.util.placement_group import PlacementGroup, remove_placement_group
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

if TYPE_CHECKING:
    from raycompat.object_ref import ObjectRef

#: Seconds that a trainable has for its ``cleanup``; then its process is killed.
STOP_DEADLINE_S = 10.0


@dataclass(eq=False)
class TrialProcess:
    """An actor that holds a trainable.

    Parameters
    ----------
    actor : ActorHandle
    trainable_name : str
    request : PlacementGroupFactory
        Its resources.
    group : PlacementGroup or None
        Where it and its workers are placed.
    """

    actor: Any
    trainable_name: str
    request: PlacementGroupFactory
    group: PlacementGroup | None
    #: When it is killed although its cleanup has not ended.
    deadline: float = float("inf")

    @classmethod
    def start(cls, trainable_name: str, request: PlacementGroupFactory) -> TrialProcess:
        """Ask the cluster for the process; do not wait for it."""
        options, group = _options(request)
        actor: Any = _actor_class(trainable_name).options(**options).remote()
        return cls(actor, trainable_name, request, group)

    def stop(self) -> ObjectRef[None]:
        """Let the trainable clean up; return the reference that says when it has."""
        self.deadline = time.monotonic() + STOP_DEADLINE_S
        ended: ObjectRef[None] = self.actor.stop.remote()
        return ended

    def kill(self) -> None:
        """End the process, and release its placement group."""
        ray.kill(self.actor)
        if self.group is not None:
            remove_placement_group(self.group)


@functools.lru_cache(maxsize=64)  # of each class, the cluster keeps a copy for each job
def _actor_class(trainable_name: str) -> Any:
    """Return an actor class of the trainable's name, with which the trial's output can be found."""
    named = type(trainable_name, (TrialActor,), {"__module__": TrialActor.__module__})
    named.__qualname__ = trainable_name
    return ray.remote(named)


def _options(request: PlacementGroupFactory) -> tuple[dict[str, Any], PlacementGroup | None]:
    """Return the actor's options, and the placement group where there is one."""
    bundles = request.bundles
    head: dict[str, float] = {} if request.head_bundle_is_empty else bundles[0]
    options: dict[str, object] = {
        "num_cpus": head.get("CPU", 0),
        "num_gpus": head.get("GPU", 0),
        "resources": {k: v for k, v in head.items() if k not in ("CPU", "GPU", "memory")},
    }
    if head.get("memory"):
        options["memory"] = head["memory"]
    if len(bundles) < 2 and not (request.head_bundle_is_empty and bundles):
        return options, None
    group = request.to_placement_group()
    options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
        group,
        placement_group_bundle_index=-1 if request.head_bundle_is_empty else 0,
        placement_group_capture_child_tasks=True,
    )
    return options, group
