"""`ray.data.extensions.TensorArray` and `TensorDtype`: a column of arrays for a table of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class TensorArray(list[np.ndarray[Any, Any]]):
    """Arrays, one for each row: a column of pandas that is assigned one has them as its values.

    Parameters
    ----------
    values : numpy.ndarray or sequence of arrays
        The first axis are the rows.
    """

    def __init__(self, values: np.ndarray[Any, Any] | Sequence[Any]) -> None:
        super().__init__(np.asarray(value) for value in values)

    @property
    def numpy_shape(self) -> tuple[int, ...]:
        """The shape of all rows together."""
        shape: tuple[int, ...] = self.to_numpy().shape
        return shape

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the rows as one array, whose first axis are the rows."""
        return np.array(list(self))


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
