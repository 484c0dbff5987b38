"""Columns of arrays: the conversion of numpy arrays of any shape to Arrow columns and back.

Arrays of one shape are Arrow's own ``fixed_shape_tensor``, without a copy. Arrays of several shapes,
and those of bool, which Arrow's tensors do not have, are a `TensorType`. Python objects that Arrow has
no type for are pickled into a `PickledType`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc


class _ValueScalar(pa.ExtensionScalar):
    """A value of a column of arrays or pickled objects: ``as_py``, and ``to_pylist``, give it."""

    def as_py(self, **_: object) -> Any:
        """Return the array or the object."""
        if self.value is None:
            return None
        storage = pa.array([self.value.as_py()], self.type.storage_type)
        return to_list(pa.ExtensionArray.from_storage(self.type, storage))[0]


class TensorType(pa.ExtensionType):
    """Arrays of one dtype and of any shapes: for each array, its elements in a row and its shape."""

    def __init__(self, value_type: pa.DataType) -> None:
        self.value_type = value_type
        storage = pa.struct([("data", pa.list_(value_type)), ("shape", pa.list_(pa.int64()))])
        super().__init__(storage, "raycompat.tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> TensorType:
        return cls(storage.field("data").type.value_type)

    def __arrow_ext_scalar_class__(self) -> type[_ValueScalar]:
        return _ValueScalar

    def __reduce__(self) -> tuple[object, ...]:
        return TensorType, (self.value_type,)

    def __str__(self) -> str:
        return f"TensorType(dtype={self.value_type})"


class PickledType(pa.ExtensionType):
    """Python objects, pickled."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "raycompat.object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> PickledType:
        return cls()

    def __arrow_ext_scalar_class__(self) -> type[_ValueScalar]:
        return _ValueScalar

    def __reduce__(self) -> tuple[object, ...]:
        return PickledType, ()

    def __str__(self) -> str:
        return "PickledType()"


for _type in (TensorType(pa.bool_()), PickledType()):
    pa.register_extension_type(_type)


def is_tensor(type_: pa.DataType) -> bool:
    """Whether a column of this type holds arrays."""
    return isinstance(type_, TensorType | pa.FixedShapeTensorType)


def type_text(type_: object) -> str:
    """Return the text of a type of arrays in schemas, which is Ray's; none of another type."""
    if isinstance(type_, pa.FixedShapeTensorType):
        return f"ArrowTensorTypeV2(shape={tuple(type_.shape)}, dtype={type_.value_type})"
    return str(type_) if isinstance(type_, TensorType | PickledType) else ""


def from_numpy(values: np.ndarray) -> pa.Array:
    """Return a column whose rows are the items of `values` along its first axis."""
    if values.ndim > 1:
        return _from_stacked(values)
    if values.dtype == object:
        return from_list(list(values))
    if values.dtype.kind == "V":
        return pickled(list(values))
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] not in _ARROW_UNITS:
        return pa.array(values.astype(f"{values.dtype.kind}8[s]"))
    return pa.array(values)


def without_torch(value: object) -> Any:
    """Return a tensor of PyTorch as an array, or as numpy's scalar; any other value as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    return value.detach().cpu().numpy()[()]


#: The units of times in Arrow; times in other units become seconds, as in Ray.
_ARROW_UNITS = ("s", "ms", "us", "ns")


#: Rows have times of nanoseconds in these classes; pyarrow would take them for microseconds.
_OF_NANOSECONDS = (pd.Timestamp, pd.Timedelta)


def from_list(values: Sequence[Any]) -> pa.Array:
    """Return a column of these values; None is a missing one."""
    if "torch" in sys.modules:
        values = [without_torch(value) for value in values]
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, np.ndarray) and value.ndim for value in present):
        return _from_arrays(values, present)
    try:
        if present and all(type(value) in _OF_NANOSECONDS for value in present):
            return pa.Array.from_pandas(pd.Series(values))
        return pa.array(values)
    except (ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        if any(value is pd.NaT or value is pd.NA for value in values):
            return from_list(
                [None if value is pd.NaT or value is pd.NA else value for value in values]
            )
        return pickled(values)


def pickled(values: Sequence[object]) -> pa.Array:
    """Return a column of Python objects, pickled."""
    dumped = [None if value is None else cloudpickle.dumps(value) for value in values]
    return pa.ExtensionArray.from_storage(PickledType(), pa.array(dumped, pa.large_binary()))


def _from_stacked(values: np.ndarray) -> pa.Array:
    if values.dtype.kind in "iuf" and values.size:
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))
    if values.dtype.kind in "biuf":
        return _ragged(list(values), values.dtype)
    return from_list(values.tolist())


def _from_arrays(values: Sequence[np.ndarray | None], present: Sequence[np.ndarray]) -> pa.Array:
    dtype = np.result_type(*{value.dtype for value in present})
    if dtype.kind not in "biuf":
        try:
            return pa.array([None if value is None else value.tolist() for value in values])
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pickled(values)
    if len(present) == len(values) and len({value.shape for value in present}) == 1:
        return _from_stacked(np.stack(present).astype(dtype, copy=False))
    return _ragged(values, dtype)


def _ragged(values: Sequence[np.ndarray | None], dtype: np.dtype) -> pa.Array:
    type_ = TensorType(pa.from_numpy_dtype(dtype))
    missing = np.array([value is None for value in values], dtype=bool)
    arrays = [np.zeros(0, dtype) if value is None else value for value in values]
    flat = [np.ravel(value).astype(dtype, copy=False) for value in arrays]
    data = _lists(flat, dtype)
    shape = _lists([np.array(value.shape, np.int64) for value in arrays], np.dtype(np.int64))
    storage = pa.StructArray.from_arrays(
        [data, shape], fields=list(type_.storage_type), mask=pa.array(missing)
    )
    return pa.ExtensionArray.from_storage(type_, storage)


def _lists(items: Sequence[np.ndarray], dtype: np.dtype) -> pa.ListArray:
    offsets = np.zeros(len(items) + 1, np.int32)
    np.cumsum([len(item) for item in items], out=offsets[1:])
    values = np.concatenate(items) if items else np.zeros(0, dtype)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def to_numpy(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return a column as an array whose first axis is the rows; without a copy if possible."""
    if isinstance(column, pa.ChunkedArray):  # combine_chunks copies even a single chunk
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    else:
        array = column
    if isinstance(array, pa.ChunkedArray):  # too long for one chunk
        return np.concatenate([to_numpy(chunk) for chunk in array.chunks])
    type_ = array.type
    if pa.types.is_null(type_):
        return np.full(len(array), np.nan, np.float32)
    if isinstance(type_, pa.FixedShapeTensorType) and not array.null_count:
        return np.asarray(array.to_numpy_ndarray())
    if is_tensor(type_) or isinstance(type_, PickledType):
        return _as_objects(to_list(array), stack=is_tensor(type_))
    if exceeds_floats(array):
        return _as_objects(array.to_pylist(), stack=False)
    return np.asarray(array.to_numpy(zero_copy_only=False))


#: Up to this size, all integers are floats too.
_EXACT_FLOATS = 2**53


def exceeds_floats(column: pa.ChunkedArray | pa.Array) -> bool:
    """Return whether a column has missing values, and integers that floats cannot hold.

    numpy and pandas have floats where integers are missing.
    """
    if not pa.types.is_integer(column.type) or not column.null_count:
        return False
    extremes = pc.min_max(column).as_py()
    return any(abs(value or 0) > _EXACT_FLOATS for value in extremes.values())


def _as_objects(items: list[Any], stack: bool) -> np.ndarray:
    is_full = stack and items and not any(item is None for item in items)
    if is_full and len({item.shape for item in items}) == 1:
        return np.stack(items)
    result = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        result[index] = item
    return result


def to_list(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return a column as a list of Python values; arrays stay arrays."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in to_list(chunk)]
    if isinstance(column.type, PickledType):
        return [
            None if value is None else pickle.loads(value) for value in column.storage.to_pylist()
        ]
    if isinstance(column.type, TensorType):
        dtype = column.type.value_type.to_pandas_dtype()
        return [
            None if row is None else np.array(row["data"], dtype).reshape(row["shape"])
            for row in column.storage.to_pylist()
        ]
    if isinstance(column.type, pa.FixedShapeTensorType):
        if not column.null_count:
            return list(column.to_numpy_ndarray())
        shape, dtype = column.type.shape, column.type.value_type.to_pandas_dtype()
        return [
            None if row is None else np.array(row, dtype).reshape(shape)
            for row in column.storage.to_pylist()
        ]
    values: list[object] = column.to_pylist()
    return values


def as_ragged(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of arrays with a type that admits several shapes."""
    dtype = np.dtype(column.type.value_type.to_pandas_dtype())
    return pa.chunked_array([_ragged(to_list(column), dtype)])
