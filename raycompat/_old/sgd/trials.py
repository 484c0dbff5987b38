"""Trainers of ``ray.util.sgd`` in trials: their workers are in the trial's placement group."""

from __future__ import annotations

from typing import Any

import raycompat as ray
from raycompat.train._configs import ScalingConfig
from raycompat.tune import PlacementGroupFactory


def needs_of_workers(num_workers: int, num_cpus: float, use_gpu: bool) -> PlacementGroupFactory:
    """Return what a trial needs: a bundle for each worker, and nothing for itself."""
    needs: dict[str, float] = {"CPU": num_cpus}
    if use_gpu:
        needs["GPU"] = 1
    return PlacementGroupFactory([{}, *([needs] * num_workers)])


def group_of_trial(scaling: ScalingConfig) -> Any:
    """Return the placement group of the trial that makes the trainer, if it is for the workers."""
    group = ray.util.get_current_placement_group()
    return group if group is not None and group.bundle_count == scaling.num_workers else None
