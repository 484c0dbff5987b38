"""Tensors and ``tf.data``: TensorFlow is imported when one of these is called."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from raycompat.data import batch, block
from raycompat.data.block import require_columns
from raycompat.data.schema import Schema
from raycompat.data.tensor import TensorType

if TYPE_CHECKING:
    import tensorflow as tf

#: The type of the tensors: one for all, or by column.
TfDtypes: TypeAlias = "tf.DType | Mapping[str, tf.DType]"

#: The type of one column's tensor, or those of several by column.
TypeSpecs: TypeAlias = "tf.TypeSpec | Mapping[str, tf.TypeSpec]"

#: Bytes of the tables that are converted together, and then divided into batches.
_CONVERTED_BYTES = 4 * 2**20


def imported() -> Any:
    """Return the module ``tensorflow``.

    Raises
    ------
    ImportError
        When TensorFlow is not installed; the text says how to install it.
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            f"This part of raycompat.data needs TensorFlow, which cannot be imported ({error}): "
            "pip install 'raycompat[tensorflow]'."
        ) from error
    return tf


def to_tensors(arrays: Mapping[str, np.ndarray], dtypes: TfDtypes | None) -> dict[str, tf.Tensor]:
    """Return a batch of arrays as tensors; arrays of several shapes become ragged ones."""
    return {
        name: _tensor(values, dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes)
        for name, values in arrays.items()
    }


def batches(
    tables: Iterable[pa.Table], batch_size: int, drop_last: bool, dtypes: TfDtypes | None
) -> Iterator[dict[str, tf.Tensor]]:
    """Yield batches of tensors, cut from larger ones: one conversion takes longer than many cuts."""
    tf = imported()
    for table in batch.of_whole_batches(tables, batch_size, _CONVERTED_BYTES):
        number = table.num_rows // batch_size
        arrays = block.to_numpy(table)
        if number > 1 and not any(_is_ragged(values) for values in arrays.values()):
            whole = to_tensors(arrays, dtypes)
            columns = [tf.split(tensor, number) for tensor in whole.values()]
            for tensors in zip(*columns, strict=True):
                yield dict(zip(whole, tensors, strict=True))
        else:
            for each in batch.sized([table], batch_size, drop_last):
                yield to_tensors(block.to_numpy(each), dtypes)


def _is_ragged(values: np.ndarray) -> bool:
    return values.dtype == object and len(values) > 0 and isinstance(values[0], np.ndarray)


def _tensor(values: np.ndarray, dtype: tf.DType | None) -> tf.Tensor:
    tf = imported()
    if _is_ragged(values):
        return _ragged(values, dtype)
    tensor = tf.convert_to_tensor(values)
    return tensor if dtype is None else tf.cast(tensor, dtype)


def _ragged(values: np.ndarray, dtype: tf.DType | None) -> tf.Tensor:
    tf = imported()
    if all(row.ndim == 1 for row in values):
        tensor = tf.RaggedTensor.from_row_lengths(
            np.concatenate(list(values)), [len(row) for row in values]
        )
    else:
        tensor = tf.ragged.stack([tf.convert_to_tensor(row) for row in values])
    return tensor if dtype is None else tf.cast(tensor, dtype)


def _as_specified(values: np.ndarray, spec: tf.TypeSpec) -> tf.Tensor:
    """Return an array as a tensor of this type; it is ragged even if all rows have one shape."""
    tf = imported()
    convert = _ragged if isinstance(spec, tf.RaggedTensorSpec) else _tensor
    return convert(values, spec.dtype)


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Source:
    """The batches of a ``tf.data.Dataset``: TensorFlow keeps functions that it was given for ever."""

    batches: Iterable[Mapping[str, np.ndarray]]


def to_dataset(
    schema: Schema | None,
    batches: Iterable[Mapping[str, np.ndarray]],
    elements: Sequence[tuple[str | list[str], TypeSpecs | None]],
) -> tf.data.Dataset:
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
    tf = imported()
    if schema is None:
        raise ValueError("to_tf: the data set has no rows, so its columns have no types.")
    names = [name for columns, _ in elements for name in _names(columns)]
    require_columns(names, schema.names, "to_tf")
    types = dict(zip(schema.names, schema.types, strict=True))
    signature = tuple(
        spec if spec is not None else _specs(columns, types) for columns, spec in elements
    )

    source = _Source(batches)
    held = weakref.ref(source)

    def generate() -> Iterator[tuple[object, ...]]:
        source = held()
        assert source is not None, "an iterator keeps its tf.data.Dataset"
        for arrays in source.batches:
            yield tuple(
                _as_specified(arrays[columns], spec)
                if isinstance(columns, str)
                else {name: _as_specified(arrays[name], spec[name]) for name in columns}
                for (columns, _), spec in zip(elements, signature, strict=True)
            )

    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    dataset._raycompat_source = source
    options = tf.data.Options()
    # Each worker reads a shard already: TensorFlow must not divide it again.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def _names(columns: str | list[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else columns


def _specs(columns: str | list[str], types: Mapping[str, pa.DataType]) -> TypeSpecs:
    if isinstance(columns, str):
        return _spec(columns, types[columns])
    return {name: _spec(name, types[name]) for name in columns}


def _spec(name: str, type_: pa.DataType) -> tf.TypeSpec:
    tf = imported()
    if isinstance(type_, pa.FixedShapeTensorType):
        dtype = tf.dtypes.as_dtype(type_.value_type.to_pandas_dtype())
        return tf.TensorSpec((None, *type_.shape), dtype, name=name)
    if isinstance(type_, TensorType) or pa.types.is_list(type_):
        dtype = tf.dtypes.as_dtype(type_.value_type.to_pandas_dtype())
        return tf.RaggedTensorSpec((None, None), dtype)
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_):
        return tf.TensorSpec((None,), tf.string, name=name)
    return tf.TensorSpec((None,), tf.dtypes.as_dtype(type_.to_pandas_dtype()), name=name)
