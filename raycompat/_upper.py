"""What lower modules take from upper ones: all that the house knows upwards.

Imports run down. But a text may name an algorithm where Tune reads it, and ``train.report`` in
a trial is Tune's: such a module is imported by name, when a program first comes to it. A new one gets a
row here.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal, TypeAlias, get_args

#: The upper modules, without the package's name.
Upper: TypeAlias = Literal[
    # A program without `init` starts its session at its first call.
    "_launch.driver",
    # Functions of Train that a trial of Tune calls, and a trainer that is for Tune.
    "tune",
    # The resources of a trial that trains.
    "tune.execution.placement_groups",
    # Algorithms and networks that a program names in a text.
    "rllib.algorithms.registry",
    "rllib.models.catalog",
    # The command ``raycompat rllib evaluate``.
    "rllib.rollout",
    # The device of the worker of Train in which a data set is read.
    "train.torch",
    # The methods of a data set, which a worker's part of it had.
    "data.dataset",
    # The former names of errors.
    "_surface.modules",
    # What only programs of older Rays come to.
    "_old.air.dataset_config",
    "_old.checkpoints",
    "_old.data.keys",
    "_old.data.pipeline",
    "_old.data.readers",
    "_old.program",
    "_old.rllib.action_distributions",
    "_old.rllib.batch_builder",
    "_old.rllib.builders",
    "_old.rllib.input_readers",
    "_old.rllib.losses",
    "_old.rllib.models.layers",
    "_old.rllib.policies",
    "_old.rllib.sample_batch",
    "_old.rllib.workers",
    "_old.train.boosting",
    "_old.train.trials",
    "train",
    "train._run_configs",
    "tune.result_grid",
    "tune.trainable.nested",
]

UPPER: tuple[str, ...] = get_args(Upper)


def upper(module: Upper) -> Any:
    """Return an upper module."""
    return importlib.import_module(f"raycompat.{module}")
