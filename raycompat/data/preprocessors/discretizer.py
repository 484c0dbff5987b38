"""Preprocessors that put numbers into bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from raycompat.data import aggregate
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.preprocessors.columns import outputs

if TYPE_CHECKING:
    from raycompat.data.dataset import Dataset

#: The share of its range by which the outermost bin of a column is widened, as in ``pandas.cut``.
_MARGIN = 0.001


class _Discretizer(Preprocessor):
    """Puts values into bins, by ``pandas.cut``."""

    def __init__(
        self,
        columns: Sequence[str],
        bins: Any,
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: dict[str, Any] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        self.columns = list(columns)
        self.bins = bins
        self.right = right
        self.include_lowest = include_lowest
        self.duplicates = duplicates
        self.dtypes = dtypes
        self.output_columns = outputs(self.columns, output_columns)
        missing = [name for name in self.columns if isinstance(bins, dict) and name not in bins]
        if missing:
            raise ValueError(f"bins has none for the columns {missing}: give one for each column.")

    def _edges(self, column: str) -> Any:
        """Return the edges of the bins: numbers, or how many bins there are."""
        raise NotImplementedError

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {}
        for column, output in zip(self.columns, self.output_columns, strict=True):
            dtype: Any = (self.dtypes or {}).get(column)
            is_category = isinstance(dtype, pd.CategoricalDtype)
            made[output] = pd.cut(
                df[column],
                self._edges(column),
                right=self.right,
                labels=list(dtype.categories) if is_category else False,
                ordered=bool(dtype.ordered) if is_category else True,
                include_lowest=self.include_lowest,
                duplicates=self.duplicates,
            )
        return df.assign(**made)


class CustomKBinsDiscretizer(_Discretizer):
    """Replace numbers by the number of their bin; the edges of the bins are given.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    bins : list of float, pandas.IntervalIndex, or dict of them
        The edges, for all columns or by column.
    right : bool, default True
        Whether a bin includes its right edge; else its left one.
    include_lowest : bool, default False
        Whether the first bin includes its left edge, too.
    duplicates : {"raise", "drop"}, default "raise"
        The reaction to equal edges.
    dtypes : dict of str to pandas.CategoricalDtype, optional
        For columns, labels in place of the bins' numbers.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import CustomKBinsDiscretizer
    >>> rows = ray.data.from_items([{"age": age} for age in (5, 30, 70)])
    >>> CustomKBinsDiscretizer(["age"], bins=[0, 18, 65, 120]).transform(
    ...     rows
    ... ).take_all()
    [{'age': 0}, {'age': 1}, {'age': 2}]

    Notes
    -----
    Ray source: ``ray.data.preprocessors.CustomKBinsDiscretizer``, 2.60.0. No known difference. What
    outside of all bins becomes missing.
    """

    _is_fittable = False

    def _edges(self, column: str) -> Any:
        return self.bins[column] if isinstance(self.bins, dict) else self.bins


class UniformKBinsDiscretizer(_Discretizer):
    """Replace numbers by the number of their bin; all bins have the same width.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    bins : int or dict of str to int
        Number of bins, for all columns or by column.
    right : bool, default True
        Whether a bin includes its right edge; else its left one.
    include_lowest : bool, default False
        Whether the first bin includes its left edge, too.
    duplicates : {"raise", "drop"}, default "raise"
        The reaction to equal edges.
    dtypes : dict of str to pandas.CategoricalDtype, optional
        For columns, labels in place of the bins' numbers.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import UniformKBinsDiscretizer
    >>> rows = ray.data.from_items([{"age": age} for age in (0, 20, 60, 100)])
    >>> UniformKBinsDiscretizer(["age"], bins=4).fit_transform(rows).take_all()
    [{'age': 0}, {'age': 0}, {'age': 2}, {'age': 3}]
    """

    def _fit(self, ds: Dataset) -> None:
        counts = (
            self.bins if isinstance(self.bins, dict) else dict.fromkeys(self.columns, self.bins)
        )
        for column, count in counts.items():
            if not isinstance(count, int):
                raise TypeError(f"bins={count!r} of column {column!r} is not a number of bins.")
        kinds = (aggregate.Min, aggregate.Max)
        found = ds.aggregate(*(kind(name) for name in self.columns for kind in kinds))
        self.stats_ = {}
        for column in self.columns:
            low, high = found[f"min({column})"], found[f"max({column})"]
            if low is None:
                raise ValueError(f"Column {column!r} has no values to put into bins.")
            if not np.isfinite([low, high]).all():
                raise ValueError(
                    f"Column {column!r} has infinite values: equal bins cannot hold it."
                )
            self.stats_[column] = self._even(float(low), float(high), counts[column])

    def _even(self, low: float, high: float, count: int) -> np.ndarray:
        if low == high:
            low -= _MARGIN * (abs(low) or 1.0)
            high += _MARGIN * (abs(high) or 1.0)
            return np.linspace(low, high, count + 1)
        edges = np.linspace(low, high, count + 1)
        edges[0 if self.right else -1] += (high - low) * (-_MARGIN if self.right else _MARGIN)
        return edges

    def _edges(self, column: str) -> Any:
        return self.stats_[column]
