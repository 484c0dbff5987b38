"""Functions for training functions, for programs of 2022 and 2023 that import them from here.

They write ``from ray.air import session`` and ``session.report(...)``. The functions are those of
`raycompat.train` and of its context; for trials of Tune use `raycompat.tune`.
"""

from typing import Any

from raycompat.train import get_checkpoint, get_context, get_dataset_shard, report

__all__ = [
    "get_checkpoint",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_world_rank",
    "get_world_size",
    "report",
]


def get_experiment_name() -> str:
    """Return the run's name; see `TrainContext.get_experiment_name`."""
    return str(get_context().get_experiment_name())


def get_world_size() -> int:
    """Return the number of workers; see `TrainContext.get_world_size`."""
    return int(get_context().get_world_size())


def get_world_rank() -> int:
    """Return this worker's number among all; see `TrainContext.get_world_rank`."""
    return int(get_context().get_world_rank())


def get_local_rank() -> int:
    """Return this worker's number on its node; see `TrainContext.get_local_rank`."""
    return int(get_context().get_local_rank())


def get_local_world_size() -> int:
    """Return the number of workers on this node; see `TrainContext.get_local_world_size`."""
    return int(get_context().get_local_world_size())


def get_node_rank() -> int:
    """Return the number of this worker's node; see `TrainContext.get_node_rank`."""
    return int(get_context().get_node_rank())


def get_trial_name() -> str:
    """Return the trial's name; see `TuneContext.get_trial_name`."""
    return str(get_context().get_trial_name())


def get_trial_id() -> str:
    """Return the trial's id; see `TuneContext.get_trial_id`."""
    return str(get_context().get_trial_id())


def get_trial_dir() -> str:
    """Return the trial's folder; see `TuneContext.get_trial_dir`."""
    return str(get_context().get_trial_dir())


def get_trial_resources() -> Any:
    """Return the trial's resources; see `TuneContext.get_trial_resources`."""
    return get_context().get_trial_resources()
