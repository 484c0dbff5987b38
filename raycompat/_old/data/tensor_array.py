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

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the rows as one array, whose first axis are the rows."""
        return self._values

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
