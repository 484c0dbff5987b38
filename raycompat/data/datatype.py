"""`DataType`: the type of a column or of a value, Arrow's, NumPy's or Python's."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from raycompat.data.tensor import TensorType, is_tensor

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DataType"]

_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_OTHERS = ("float16", "float32", "float64", "string", "binary", "date32", "date64")

#: Arrow's types for Python's.
_OF_PYTHON = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
    type(None): pa.null(),
}
#: Functions of Arrow that make types of times, and whether they take a unit.
_TIMES = {
    "timestamp": True,
    "date32": False,
    "date64": False,
    "time32": True,
    "time64": True,
    "duration": True,
}


@dataclass(frozen=True)
class DataType:
    """The type of a column: ``DataType.int64()``, ``DataType.from_arrow(type)``, ``DataType(int)``.

    Examples
    --------
    >>> from raycompat.data.datatype import DataType
    >>> DataType.struct(
    ...     [
    ...         ("name", DataType.string()),
    ...         ("sizes", DataType.list(DataType.int64())),
    ...     ]
    ... )
    DataType(arrow:struct<name: string, sizes: list<item: int64>>)
    >>> DataType.list(DataType.int64()).is_nested_type()
    True
    >>> import numpy as np, pyarrow as pa
    >>> DataType.float32(), DataType.from_arrow(pa.string()) == DataType.string()
    (DataType(arrow:float), True)
    >>> DataType.from_numpy(np.dtype("int16")).to_arrow_dtype()
    DataType(int16)

    Types of Arrow, with further types in them:

    >>> DataType.map(DataType.string(), DataType.float64())
    DataType(arrow:map<string, double>)
    >>> (
    ...     DataType.fixed_size_list(DataType.int8(), 3),
    ...     DataType.large_list(DataType.bool()),
    ... )
    (DataType(arrow:fixed_size_list<item: int8>[3]),
     DataType(arrow:large_list<item: bool>))
    >>> DataType.temporal("timestamp", unit="ms", tz="UTC"), DataType.date32()
    (DataType(arrow:timestamp[ms, tz=UTC]), DataType(arrow:date32[day]))

    Images of one size, and of any:

    >>> DataType.tensor((28, 28), DataType.uint8()).is_tensor_type()
    True
    >>> DataType.variable_shaped_tensor(DataType.uint8()).is_tensor_type()
    True

    A type from a value, and into the types of other libraries:

    >>> DataType.infer_dtype([1, 2])
    DataType(arrow:list<item: int64>)
    >>> DataType.float16().to_numpy_dtype(), DataType(str).to_python_type()
    (dtype('float16'), <class 'str'>)
    >>> (
    ...     DataType.int64().is_arrow_type(),
    ...     DataType(np.dtype("int64")).is_numpy_type(),
    ... )
    (True, True)
    >>> DataType(int).is_python_type()
    True

    The kind of a column's values decides how it is prepared for a model:

    >>> def preparation(dtype):
    ...     if dtype.is_numerical_type():
    ...         return "scale" if dtype.is_floating_type() else "count"
    ...     if dtype.is_boolean_type():
    ...         return "as 0 and 1"
    ...     if dtype.is_string_type() or dtype.is_binary_type():
    ...         return "encode"
    ...     if dtype.is_temporal_type():
    ...         return "days since"
    ...     if (
    ...         dtype.is_list_type()
    ...         or dtype.is_struct_type()
    ...         or dtype.is_map_type()
    ...     ):
    ...         return "flatten"
    ...     return "drop" if dtype.is_null_type() else "?"
    >>> [
    ...     preparation(each)
    ...     for each in (DataType.float64(), DataType.int16(), DataType.bool())
    ... ]
    ['scale', 'count', 'as 0 and 1']
    >>> [preparation(each) for each in (DataType.binary(), DataType.date64())]
    ['encode', 'days since']
    >>> (
    ...     preparation(DataType.list(DataType.int32())),
    ...     preparation(DataType.from_arrow(pa.null())),
    ... )
    ('flatten', 'drop')
    >>> sizes = [DataType.uint16(), DataType.uint32(), DataType.uint64()]
    >>> [each.to_numpy_dtype().itemsize for each in sizes if each.is_integer_type()]
    [2, 4, 8]

    Notes
    -----
    Ray source: ``ray.data.datatype.DataType``, 2.60.0. Differs from Ray: arrays have Arrow's type
    ``fixed_shape_tensor`` or `raycompat.data.tensor.TensorType`; there are no types of cuDF.
    """

    _type: pa.DataType | np.dtype | type

    def __post_init__(self) -> None:
        if not isinstance(self._type, pa.DataType | np.dtype | type):
            raise TypeError(
                f"{self._type!r} is not a type: give one of pyarrow or of Python, or a NumPy dtype."
            )

    # Making them.

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        """Return the type that is Arrow's."""
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: npt.DTypeLike) -> DataType:
        """Return the type of an array's items, by a dtype or its name."""
        return cls(np.dtype(numpy_dtype))

    @classmethod
    def infer_dtype(cls, value: object) -> DataType:
        """Return the type of a value: of an array of NumPy its dtype, of others Arrow's."""
        if isinstance(value, np.ndarray | np.generic):
            return cls(value.dtype)
        return cls(pa.array([value]).type)

    @classmethod
    def bool(cls) -> DataType:
        """Return the type of truth values."""
        return cls(pa.bool_())

    @classmethod
    def list(cls, value_type: DataType) -> DataType:
        """Return the type of lists of values of a type."""
        return cls(pa.list_(value_type.to_arrow_dtype()))

    @classmethod
    def large_list(cls, value_type: DataType) -> DataType:
        """Return the type of lists that together may have more than 2**31 values."""
        return cls(pa.large_list(value_type.to_arrow_dtype()))

    @classmethod
    def fixed_size_list(cls, value_type: DataType, list_size: int) -> DataType:
        """Return the type of lists of `list_size` values each."""
        return cls(pa.list_(value_type.to_arrow_dtype(), list_size))

    @classmethod
    def struct(cls, fields: Sequence[tuple[str, DataType]]) -> DataType:
        """Return the type of structs with fields of these names and types."""
        return cls(pa.struct([(name, type_.to_arrow_dtype()) for name, type_ in fields]))

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        """Return the type of maps."""
        return cls(pa.map_(key_type.to_arrow_dtype(), value_type.to_arrow_dtype()))

    @classmethod
    def tensor(cls, shape: tuple[int, ...], dtype: DataType) -> DataType:
        """Return the type of arrays of one shape, without the axis of rows."""
        return cls(pa.fixed_shape_tensor(dtype.to_arrow_dtype(), tuple(shape)))

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        """Return the type of arrays of any shapes; `ndim` has no effect."""
        return cls(TensorType(dtype.to_arrow_dtype()))

    @classmethod
    def temporal(
        cls, temporal_type: str, unit: str | None = None, tz: str | None = None
    ) -> DataType:
        """Return a type of times.

        Parameters
        ----------
        temporal_type : {"timestamp", "date32", "date64", "time32", "time64", "duration"}
            The kind of time.
        unit : {"s", "ms", "us", "ns"}, optional
            The unit. Default: that of Ray, microseconds, and seconds for ``"time32"``.
        tz : str, optional
            The time zone of a timestamp.
        """
        if temporal_type not in _TIMES:
            raise ValueError(
                f"temporal_type={temporal_type!r} should be one of {', '.join(map(repr, _TIMES))}."
            )
        make = getattr(pa, temporal_type)
        if not _TIMES[temporal_type]:
            return cls(make())
        unit = unit or ("s" if temporal_type == "time32" else "us")
        return cls(make(unit, tz) if temporal_type == "timestamp" else make(unit))

    # Converting them.

    def to_arrow_dtype(self, values: Sequence[object] | None = None) -> pa.DataType:
        """Return Arrow's type; for one of Python, that of `values` if they are given."""
        if isinstance(self._type, pa.DataType):
            return self._type
        if isinstance(self._type, np.dtype):
            return pa.from_numpy_dtype(self._type)
        if values is not None and len(values):
            return pa.array(values).type
        if self._type not in _OF_PYTHON:
            raise ValueError(
                f"Arrow has no type for {self!r} itself: give values, or a type of Arrow."
            )
        return _OF_PYTHON[self._type]

    def to_numpy_dtype(self) -> np.dtype:
        """Return NumPy's dtype; that of objects where NumPy has no such type."""
        if isinstance(self._type, np.dtype):
            return self._type
        if not isinstance(self._type, pa.DataType):
            return np.dtype(object)
        try:
            made: np.dtype = np.dtype(self._type.to_pandas_dtype())
        except (NotImplementedError, TypeError):
            made = np.dtype(object)
        return made

    def to_python_type(self) -> type:
        """Return Python's type, of a type that was made of one."""
        if isinstance(self._type, type):
            return self._type
        raise ValueError(
            f"{self!r} was not made of a type of Python: use to_arrow_dtype() or to_numpy_dtype()."
        )

    # What they are.

    def is_arrow_type(self) -> builtins.bool:
        """Return whether it was made of a type of Arrow."""
        return isinstance(self._type, pa.DataType)

    def is_numpy_type(self) -> builtins.bool:
        """Return whether it was made of a NumPy dtype."""
        return isinstance(self._type, np.dtype)

    def is_python_type(self) -> builtins.bool:
        """Return whether it was made of a type of Python."""
        return isinstance(self._type, type)

    def is_list_type(self) -> builtins.bool:
        """Return whether the values are lists."""
        return self._is("is_list", "is_large_list", "is_fixed_size_list") or self._type is list

    def is_struct_type(self) -> builtins.bool:
        """Return whether the values are structs."""
        return self._is("is_struct") or self._type is dict

    def is_map_type(self) -> builtins.bool:
        """Return whether the values are maps."""
        return self._is("is_map")

    def is_tensor_type(self) -> builtins.bool:
        """Return whether the values are arrays of one dimension or more."""
        return is_tensor(self._type)

    def is_nested_type(self) -> builtins.bool:
        """Return whether the values consist of values."""
        return self._is("is_nested") or self.is_list_type() or self.is_struct_type()

    def is_null_type(self) -> builtins.bool:
        """Return whether all values are missing."""
        return self._is("is_null")

    def is_boolean_type(self) -> builtins.bool:
        """Return whether the values are true or false."""
        return self._is("is_boolean")

    def is_integer_type(self) -> builtins.bool:
        """Return whether the values are integers."""
        return self._is("is_integer")

    def is_floating_type(self) -> builtins.bool:
        """Return whether the values are floats."""
        return self._is("is_floating")

    def is_numerical_type(self) -> builtins.bool:
        """Return whether the values are integers, floats or decimals."""
        return self._is("is_integer", "is_floating", "is_decimal")

    def is_string_type(self) -> builtins.bool:
        """Return whether the values are text."""
        return self._is("is_string", "is_large_string")

    def is_binary_type(self) -> builtins.bool:
        """Return whether the values are bytes."""
        return self._is("is_binary", "is_large_binary", "is_fixed_size_binary")

    def is_temporal_type(self) -> builtins.bool:
        """Return whether the values are times, dates or durations."""
        return self._is("is_temporal")

    def _is(self, *names: str) -> builtins.bool:
        """Return whether one of these functions of Arrow is true of the type."""
        try:
            type_ = self.to_arrow_dtype()
        except (ValueError, pa.ArrowNotImplementedError):
            return False
        return any(getattr(pa.types, name)(type_) for name in names)

    def __repr__(self) -> str:
        if isinstance(self._type, pa.DataType):
            return f"DataType(arrow:{self._type})"
        if isinstance(self._type, np.dtype):
            return f"DataType(numpy:{self._type})"
        return f"DataType(python:{self._type.__name__})"


def _of_arrow(name: str) -> classmethod[DataType, [], DataType]:
    def make(cls: type[DataType]) -> DataType:
        return cls(getattr(pa, name)())

    make.__name__ = name
    make.__doc__ = f"Return Arrow's type {name}."
    return classmethod(make)


for _name in (*_NUMBERS, *_OTHERS):
    setattr(DataType, _name, _of_arrow(_name))
