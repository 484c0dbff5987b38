"""`DataType`: names of Arrow's types, as functions of columns are declared with in Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["DataType"]

_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_OTHERS = ("float16", "float32", "float64", "string", "binary", "date32", "date64")


@dataclass(frozen=True)
class DataType:
    """The type of a column: ``DataType.int64()``, ``DataType.from_arrow(type)``.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from raycompat.data.datatype import DataType
    >>> DataType.float32(), DataType.from_arrow(pa.string()) == DataType.string()
    (DataType(arrow:float), True)
    >>> DataType.from_numpy(np.dtype("int16")).to_arrow_dtype()
    DataType(int16)

    Notes
    -----
    Ray source: ``ray.data.datatype.DataType``, 2.60.0. Differs from Ray: each is a type of Arrow's.
    """

    _arrow_type: pa.DataType

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        """Return the type that is Arrow's."""
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: Any) -> DataType:
        """Return the type of an array's items, by a dtype or its name."""
        return cls(pa.from_numpy_dtype(np.dtype(numpy_dtype)))

    @classmethod
    def bool(cls) -> DataType:
        """Return the type of truth values."""
        return cls(pa.bool_())

    def to_arrow_dtype(self) -> pa.DataType:
        """Return Arrow's type."""
        return self._arrow_type

    def __repr__(self) -> str:
        return f"DataType(arrow:{self._arrow_type})"


def _of_arrow(name: str) -> Any:
    def make(cls: type[DataType]) -> DataType:
        return cls(getattr(pa, name)())

    make.__name__ = name
    make.__doc__ = f"Return Arrow's type {name}."
    return classmethod(make)


for _name in (*_NUMBERS, *_OTHERS):
    setattr(DataType, _name, _of_arrow(_name))
