"""Tensors and ``tf.data``: TensorFlow is imported when one of these is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from raycompat.data.block import require_columns
from raycompat.data.schema import Schema
from raycompat.data.tensor import TensorType


def to_tensors(batch: Mapping[str, np.ndarray[Any, Any]], dtypes: Any) -> dict[str, Any]:
    """Return a batch of arrays as tensors; arrays of several shapes become ragged ones."""
    return {
        name: _tensor(values, dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes)
        for name, values in batch.items()
    }


def _tensor(values: np.ndarray[Any, Any], dtype: Any) -> Any:
    import tensorflow as tf

    if values.dtype == object and len(values) and isinstance(values[0], np.ndarray):
        ragged = tf.ragged.stack([tf.convert_to_tensor(value) for value in values])
        return ragged if dtype is None else tf.cast(ragged, dtype)
    tensor = tf.convert_to_tensor(values)
    return tensor if dtype is None else tf.cast(tensor, dtype)


def to_dataset(
    schema: Schema | None,
    batches: Iterable[Mapping[str, Any]],
    elements: Sequence[tuple[str | list[str], Any]],
    batch_size: int,
    drop_last: bool,
) -> Any:
    """Return a ``tf.data.Dataset`` whose elements are tuples of columns.

    Parameters
    ----------
    schema : Schema
        The columns that there are.
    batches : iterable of dict
        Read again in each epoch.
    elements : sequence of (str or list of str, tf.TypeSpec or None)
        One column is a tensor, a list is a dictionary of tensors; the type, if it was given.
    """
    import tensorflow as tf

    if schema is None:
        raise ValueError("to_tf: the data set has no rows, so its columns have no types.")
    names = [name for columns, _ in elements for name in _names(columns)]
    require_columns(names, schema.names, "to_tf")
    types = dict(zip(schema.names, schema.types, strict=True))
    given = dict.fromkeys(names)
    signature = tuple(
        spec if spec is not None else _specs(columns, types) for columns, spec in elements
    )

    def generate() -> Any:
        for batch in batches:
            tensors = to_tensors({name: batch[name] for name in given}, None)
            yield tuple(
                tensors[columns]
                if isinstance(columns, str)
                else {name: tensors[name] for name in columns}
                for columns, _ in elements
            )

    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    options = tf.data.Options()
    # Each worker reads a shard of its own: TensorFlow must not divide it once more.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def _names(columns: str | list[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else columns


def _specs(columns: str | list[str], types: Mapping[str, pa.DataType]) -> Any:
    if isinstance(columns, str):
        return _spec(columns, types[columns])
    return {name: _spec(name, types[name]) for name in columns}


def _spec(name: str, type_: pa.DataType) -> Any:
    import tensorflow as tf

    if isinstance(type_, pa.FixedShapeTensorType):
        dtype = tf.dtypes.as_dtype(type_.value_type.to_pandas_dtype())
        return tf.TensorSpec((None, *type_.shape), dtype, name=name)
    if isinstance(type_, TensorType):
        return tf.RaggedTensorSpec(
            (None, None), tf.dtypes.as_dtype(type_.value_type.to_pandas_dtype())
        )
    if pa.types.is_list(type_):
        return tf.RaggedTensorSpec(
            (None, None), tf.dtypes.as_dtype(type_.value_type.to_pandas_dtype())
        )
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_):
        return tf.TensorSpec((None,), tf.string, name=name)
    return tf.TensorSpec((None,), tf.dtypes.as_dtype(type_.to_pandas_dtype()), name=name)
