"""Options of older versions of Train: what each means today. The rows of ``train.toml`` name these."""

from __future__ import annotations

from typing import Any

from raycompat._surface import forms
from raycompat._upper import upper


def wrap_ddp(given: dict[str, Any], value: bool) -> None:
    """Choose whether the workers' models are kept equal."""
    given["parallel_strategy"] = "ddp" if value else None


def scaling_config(given: Any) -> Any:
    """Return a `ScalingConfig`, also of a dict with its options, as trainers took in 2022."""
    if not isinstance(given, dict):
        return given
    forms.used("ray.train.ScalingConfig as a dict", refusal=ValueError)
    return upper("train").ScalingConfig(**given)


def preprocessor(given: dict[str, Any], value: Any) -> None:
    """Fit a preprocessor on the data set of the training, and transform all data sets with it."""
    if value is None:
        return
    datasets = dict(given.get("datasets") or {})
    if "train" in datasets:
        value.fit(datasets["train"])
    given["datasets"] = {name: value.transform(each) for name, each in datasets.items()}
