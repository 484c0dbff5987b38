"""Methods that trainers had in older Rays: each takes the trainer first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat.tune.trainable import wrap_function
from raycompat.tune.trainable.trainer import trainable_of

if TYPE_CHECKING:
    from raycompat.train.data_parallel_trainer import DataParallelTrainer
    from raycompat.tune.trainable.trainable import Trainable


def as_trainable(trainer: DataParallelTrainer) -> type[Trainable]:
    """Return the class with which a `Tuner` runs the trainer."""
    return wrap_function(trainable_of(trainer))
