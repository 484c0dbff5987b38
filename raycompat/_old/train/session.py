"""Functions of 1.9 to 1.13 for the training function, and `get_session` of Ray's machinery."""

from __future__ import annotations

import sys
from typing import Any

from raycompat.train import Checkpoint, _session
from raycompat.train._functions import get_checkpoint, get_context, get_dataset_shard, report

__all__ = [
    "get_dataset_shard",
    "get_session",
    "load_checkpoint",
    "local_rank",
    "report",
    "save_checkpoint",
    "world_rank",
    "world_size",
]


def get_session() -> object:
    """Return what a training function or a trial has; None elsewhere, as packages on Ray ask."""
    return _session.current("get_session") if _session.is_entered() else None


def world_rank() -> int:
    """Return the number of this worker among all; 0 outside of a training function."""
    return int(get_context().get_world_rank()) if _session.is_entered() else 0


def local_rank() -> int:
    """Return the number of this worker among those of its node; 0 outside of a training function."""
    return int(get_context().get_local_rank()) if _session.is_entered() else 0


def world_size() -> int:
    """Return the number of workers; 1 outside of a training function."""
    return int(get_context().get_world_size()) if _session.is_entered() else 1


def load_checkpoint() -> dict[str, Any] | None:
    """Return the dict with which training continues; None at the start."""
    checkpoint = get_checkpoint()
    return None if checkpoint is None else checkpoint.to_dict()


def save_checkpoint(**values: Any) -> None:
    """Keep values of rank 0 as a checkpoint, which the next report takes with it."""
    session = _session.current("save_checkpoint")
    if session.context.get_world_rank() == 0:
        session.unreported = Checkpoint.from_dict({k: _unwrapped(v) for k, v in values.items()})


def _unwrapped(value: Any) -> Any:
    """Return the model within a ``DistributedDataParallel``, which works on its worker alone."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.parallel.DistributedDataParallel):
        return value.module
    return value
