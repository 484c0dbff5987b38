"""A worker's part of a data set that is a data set itself, as in Ray 1.7 to 2.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from raycompat._surface import forms
from raycompat._upper import upper


class _Iterator(Protocol):
    def materialize(self) -> object: ...


def method_of(iterator: _Iterator, name: str) -> Callable[..., Any]:
    """Return a method of a data set, which reads the rows of an iterator first.

    Raises
    ------
    AttributeError
        When a data set has no such method.
    """
    if name.startswith("_") or not hasattr(upper("data.dataset").Dataset, name):
        raise AttributeError(f"{type(iterator).__name__!r} object has no attribute {name!r}")

    def call(*args: Any, **options: Any) -> Any:
        forms.used("ray.train.get_dataset_shard as a data set", refusal=AttributeError)
        return getattr(iterator.materialize(), name)(*args, **options)

    return call
