"""`ray.data.extensions.TensorArray`: a column of arrays for a table of pandas."""

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
