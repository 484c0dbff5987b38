"""Functions for training functions, for programs of 2022 and 2023 that import them from here.

They write ``from ray.air import session`` and ``session.report(...)``. The functions are those of
`raycompat.train` and of its context; for trials of Tune use `raycompat.tune`.
"""

from raycompat.train import get_checkpoint, get_context, get_dataset_shard, report

__all__ = [
    "get_checkpoint",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_world_rank",
    "get_world_size",
    "report",
]


def get_experiment_name() -> str:
    """Return the run's name; see `TrainContext.get_experiment_name`."""
    return get_context().get_experiment_name()


def get_world_size() -> int:
    """Return the number of workers; see `TrainContext.get_world_size`."""
    return get_context().get_world_size()


def get_world_rank() -> int:
    """Return this worker's number among all; see `TrainContext.get_world_rank`."""
    return get_context().get_world_rank()


def get_local_rank() -> int:
    """Return this worker's number on its node; see `TrainContext.get_local_rank`."""
    return get_context().get_local_rank()


def get_local_world_size() -> int:
    """Return the number of workers on this node; see `TrainContext.get_local_world_size`."""
    return get_context().get_local_world_size()


def get_node_rank() -> int:
    """Return the number of this worker's node; see `TrainContext.get_node_rank`."""
    return get_context().get_node_rank()
