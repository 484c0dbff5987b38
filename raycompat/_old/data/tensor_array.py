"""`ray.data.extensions.TensorArray` and `TensorDtype`: a column of arrays for a table of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class TensorArray(NDArrayOperatorsMixin, Sequence[Any]):
    """Arrays, one for each row: a column of pandas that is assigned one has them as its values.

    Operators and functions of NumPy work on the arrays and return a `TensorArray`. It has no
    ``__array__`` and no ``ndim``, because pandas takes no column with more than one axis.

    Parameters
    ----------
    values : numpy.ndarray or sequence of arrays
        The first axis are the rows. Arrays of several shapes stay an array of arrays.
    """

    def __init__(self, values: np.ndarray[Any, Any] | Sequence[Any]) -> None:
        rows = [np.asarray(value) for value in values]
        if len({row.shape for row in rows}) > 1:
            self._values = np.empty(len(rows), object)
            self._values[:] = rows
        else:
            self._values = np.array(rows)

    @property
    def numpy_shape(self) -> tuple[int, ...]:
        """The shape of all rows together."""
        shape: tuple[int, ...] = self._values.shape
        return shape

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        dtype: np.dtype[Any] = self._values.dtype
        return dtype

    @property
    def numpy_ndim(self) -> int:
        """The number of axes of all rows together."""
        return self._values.ndim

    @property
    def nbytes(self) -> int:
        """The bytes of the values."""
        return self._values.nbytes

    def to_numpy(self, dtype: Any = None, copy: bool = False) -> np.ndarray[Any, Any]:
        """Return the rows as one array, whose first axis are the rows."""
        return np.array(self._values, dtype, copy=True) if copy else np.asarray(self._values, dtype)

    def astype(self, dtype: Any, copy: bool = True) -> TensorArray:
        """Return the rows with values of another type."""
        return TensorArray(self._values.astype(dtype, copy=copy))

    def copy(self) -> TensorArray:
        """Return a copy."""
        return TensorArray(self._values.copy())

    def take(self, indices: Sequence[int]) -> TensorArray:
        """Return some of the rows."""
        return TensorArray(self._values[np.asarray(indices, int)])

    def any(self, axis: int | None = None) -> Any:
        """Return whether any value is true, or along an axis."""
        return self._values.any(axis)

    def all(self, axis: int | None = None) -> Any:
        """Return whether all values are true, or along an axis."""
        return self._values.all(axis)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            return self._values[index]
        return TensorArray(self._values[np.asarray(index) if isinstance(index, list) else index])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            return NotImplemented
        plain = [each._values if isinstance(each, TensorArray) else each for each in inputs]
        value = getattr(ufunc, method)(*plain, **options)
        return (
            TensorArray(value) if method == "__call__" and isinstance(value, np.ndarray) else value
        )

    def __repr__(self) -> str:
        return f"TensorArray({self._values!r})"


class TensorDtype:
    """The type of a column of arrays, for `pandas.Series.astype`: pandas' ``object``.

    Operators of columns work on each row; ``mean()`` and others need numbers, so call them on
    ``column.to_numpy()``.

    Parameters
    ----------
    shape : tuple of int, optional
        Shape of an array. Of no effect: each array has its own.
    dtype : numpy.dtype, optional
        Type of the arrays' items. Of no effect.
    """

    def __new__(cls, shape: Any = None, dtype: Any = None) -> Any:
        """Return the type of pandas."""
        return np.dtype(object)
