"""`DatasetConfig` of ``ray.air`` (2.0 to 2.6): how the workers of a trainer get one data set."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError

__all__ = ["DatasetConfig"]

#: The name that stands for all data sets without a configuration, except the training's.
_OTHERS = "*"


@forms.takes_old_options_in_constructor("ray.air.DatasetConfig")
@dataclasses.dataclass
class DatasetConfig:
    """How the workers get one data set; a trainer takes a dict with one for each name.

    Parameters
    ----------
    fit : bool, optional
        Whether the preprocessor learns from it: this is so for "train" alone.
    split : bool, optional
        Whether each worker gets a part. By default for "train" alone.
    required : bool, optional
        Whether a trainer without this data set is an error. By default it is not.

    Notes
    -----
    Ray source: ``ray.air.config.DatasetConfig``, of which 2.10.0 has the fields alone. Differs from
    Ray: no other value of `fit`; data sets are read as streams, in the order of their blocks.
    """

    fit: bool | None = None
    split: bool | None = None
    required: bool | None = None


def to_split(given: Mapping[str, object], names: Iterable[str]) -> list[str]:
    """Return which data sets are divided, of those with these names.

    Raises
    ------
    ValueError
        When a value is not a `DatasetConfig`, or a required data set is missing.
    UnsupportedRayFeatureError
        When the preprocessor shall learn from another data set than "train".
    """
    present = set(names)
    configs: dict[str, DatasetConfig] = {}
    for name, config in given.items():
        if not isinstance(config, DatasetConfig):
            raise ValueError(
                f"dataset_config[{name!r}]={config!r}: expected a DatasetConfig of ray.air. Or pass "
                "train.DataConfig(datasets_to_split=[...]) for all data sets."
            )
        if config.fit is not None and config.fit != (name == "train"):
            raise UnsupportedRayFeatureError(
                f"dataset_config[{name!r}] with fit={config.fit}",
                "A preprocessor learns from the data set 'train'",
                "preprocessor.fit(data), and pass data sets that are transformed",
            )
        if config.required and name not in present | {_OTHERS}:
            raise ValueError(f"dataset_config requires the data set {name!r}: pass it in datasets.")
        configs[name] = config
    others = configs.get(_OTHERS, DatasetConfig())
    defaults = {name: DatasetConfig() if name == "train" else others for name in present}
    return sorted(
        name
        for name, default in defaults.items()
        if _is_split(configs.get(name, default).split, name)
    )


def _is_split(chosen: bool | None, name: str) -> bool:
    return name == "train" if chosen is None else chosen
