"""``Dataset.to_tf`` of Ray 1, which took the signature of what it yields."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from raycompat._old_forms.data import plain_rows
from raycompat._surface import forms

_F = TypeVar("_F", bound=Callable[..., Any])


def takes_a_signature(method: _F) -> _F:
    """Make ``to_tf`` of data sets and iterators take ``output_signature``, and what belonged to it."""

    @functools.wraps(method)
    def to_tf(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if "output_signature" not in kwargs:
            return method(dataset, *args, **kwargs)
        forms.used("ray.data.Dataset.to_tf() with a signature")
        return _by_signature(dataset, *args, **kwargs)

    return cast("_F", to_tf)


def _by_signature(
    dataset: Any,
    *,
    output_signature: Any,
    label_column: str | None = None,
    feature_columns: Any = None,
    prefetch_blocks: int = 1,
    batch_size: int = 1,
) -> Any:
    """Return a ``tf.data.Dataset`` of features, or of pairs (features, labels).

    The features of a list of columns are one array, next to each other. In lists, or in a dictionary,
    they are one array for each.
    """
    import tensorflow as tf

    def features(batch: Mapping[str, Any], columns: Any) -> Any:
        if isinstance(columns, Mapping):
            return {name: _side_by_side(batch, each) for name, each in columns.items()}
        if columns and all(isinstance(each, list | tuple) for each in columns):
            return tuple(_side_by_side(batch, each) for each in columns)
        return _side_by_side(batch, columns)

    def generate() -> Iterator[Any]:
        batches = dataset.iter_batches(
            batch_size=batch_size, batch_format="numpy", prefetch_batches=prefetch_blocks
        )
        for given in batches:
            batch = given if isinstance(given, Mapping) else {plain_rows.SHOWN: given}
            columns = feature_columns or [name for name in batch if name != label_column]
            made = features(batch, columns)
            yield made if label_column is None else (made, batch[label_column])

    return tf.data.Dataset.from_generator(generate, output_signature=output_signature)


def _side_by_side(batch: Mapping[str, Any], columns: Any) -> np.ndarray[Any, Any]:
    names = [columns] if isinstance(columns, str) else columns
    return np.column_stack([batch[name] for name in names])
