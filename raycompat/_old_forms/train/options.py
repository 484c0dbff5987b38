"""Options of older versions of Train: what each means today. The rows of ``train.toml`` name these."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from typing import Any

from raycompat._surface import era, forms
from raycompat._upper import upper


def wrap_ddp(given: dict[str, Any], value: bool) -> None:
    """Choose whether the workers' models are kept equal."""
    given["parallel_strategy"] = "ddp" if value else None


def scaling_config(given: Any) -> Any:
    """Return a `ScalingConfig`, also of a dict with its options, as trainers took in 2022."""
    if not isinstance(given, dict):
        return of_air(given)
    forms.used("ray.train.ScalingConfig as a dict", refusal=ValueError)
    return upper("train").ScalingConfig(**given)


def default_split(scaling: object) -> str | list[str]:
    """Return which data sets are divided where a trainer has no ``dataset_config``.

    Up to Ray 2.6 that was "train" alone, so a program may validate on one worker. A dict as
    ``scaling_config`` is of such a Ray.
    """
    return ["train"] if isinstance(scaling, dict) or era.is_within("2.6") else "all"


def data_config(given: Any, scaling: object, datasets: Iterable[str]) -> Any:
    """Return a `DataConfig`, also of a dict with a ``DatasetConfig`` for each name, as in 2022."""
    if isinstance(given, dict):
        forms.used("ray.train.DataConfig as a dict", refusal=ValueError)
        names = upper("_old.air.dataset_config").to_split(given, datasets)
        return upper("train").DataConfig(names)
    return given or upper("train").DataConfig(default_split(scaling))


#: The configurations that Train and Tune had in common.
_SHARED = ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig")


def of_air(given: Any) -> Any:
    """Return what says the same in Train as a configuration of ``ray.air``; others as they are."""
    if not _is_of_air(given):
        return given
    forms.used(f"ray.air.{type(given).__name__} in a trainer", refusal=ValueError)
    return _of_train(given)


def _is_of_air(given: Any) -> bool:
    name = type(given).__name__
    return name in _SHARED and type(given) is getattr(upper("train._run_configs"), name)


def _of_train(given: Any) -> Any:
    """Return what says the same, with the fields that the program has set."""
    if not _is_of_air(given):
        return given
    blank = type(given)()
    names = [field.name for field in dataclasses.fields(given)]
    values = {name: getattr(given, name) for name in names if name != "local_dir"}
    set_by_program = {
        name: _of_train(value) for name, value in values.items() if value != getattr(blank, name)
    }
    return getattr(upper("train"), type(given).__name__)(**set_by_program)


def preprocessor(given: dict[str, Any], value: Any) -> None:
    """Fit a preprocessor on the data set of the training, transform all data sets, and keep it.

    Each checkpoint of the run has the fitted preprocessor, so that predictors find it there.
    """
    if value is None:
        return
    datasets = dict(given.get("datasets") or {})
    if "train" in datasets:
        value.fit(datasets["train"])
    given["datasets"] = {name: value.transform(each) for name, each in datasets.items()}
    run_config = copy.copy(of_air(given.get("run_config"))) or upper("train").RunConfig()
    keeps = upper("_old.checkpoints").KeepsPreprocessor(value)
    run_config.callbacks = [*(run_config.callbacks or ()), keeps]
    given["run_config"] = run_config
