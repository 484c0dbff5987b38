"""`ray.tune.sklearn` of 0.8 to 2.10: names of the package tune-sklearn."""

from __future__ import annotations

from typing import Any

from raycompat._old_forms import packages

__all__ = ["TuneGridSearchCV", "TuneSearchCV"]  # noqa: F822 - the package has them


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ray.tune.sklearn' has no attribute {name!r}")
    return getattr(packages.require("tune_sklearn", f"ray.tune.sklearn.{name}"), name)
