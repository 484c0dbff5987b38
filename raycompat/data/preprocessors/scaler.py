"""Preprocessors that scale numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from raycompat.data import aggregate
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.preprocessors.columns import outputs

if TYPE_CHECKING:
    from raycompat.data.dataset import Dataset


class _Scaler(Preprocessor):
    """A scaler: aggregations of columns, and a function of a column and what they found."""

    def __init__(self, columns: Sequence[str], output_columns: Sequence[str] | None = None) -> None:
        self.columns = list(columns)
        self.output_columns = outputs(self.columns, output_columns)

    def _aggregations(self, column: str) -> list[Any]:
        raise NotImplementedError

    def _scaled(self, column: str, values: pd.Series) -> pd.Series:
        raise NotImplementedError

    def _fit(self, ds: Dataset) -> None:
        found = [each for column in self.columns for each in self._aggregations(column)]
        self.stats_ = ds.aggregate(*found)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        scaled = {
            output: self._scaled(column, df[column].astype("float64"))
            for column, output in zip(self.columns, self.output_columns, strict=True)
        }
        return df.assign(**scaled)


class StandardScaler(_Scaler):
    """Subtract the mean of a column, and divide by its standard deviation (of all values: ddof 0).

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    output_columns : list of str, optional
        Where the results go. Default: in place of the columns.

    Notes
    -----
    Ray source: ``ray.data.preprocessors.StandardScaler``, 2.60.0. No known difference: a column of one
    value becomes 0.
    """

    def _aggregations(self, column: str) -> list[Any]:
        return [aggregate.Mean(column), aggregate.Std(column, ddof=0)]

    def _scaled(self, column: str, values: pd.Series) -> pd.Series:
        mean, std = self.stats_[f"mean({column})"], self.stats_[f"std({column})"]
        return (values - mean) / (std or 1.0)


class MinMaxScaler(_Scaler):
    """Map the least value of a column to 0 and the greatest to 1.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    output_columns : list of str, optional
        Where the results go. Default: in place of the columns.

    Notes
    -----
    Ray source: ``ray.data.preprocessors.MinMaxScaler``, 2.60.0. No known difference: a column of one
    value becomes 0.
    """

    def _aggregations(self, column: str) -> list[Any]:
        return [aggregate.Min(column), aggregate.Max(column)]

    def _scaled(self, column: str, values: pd.Series) -> pd.Series:
        low, high = self.stats_[f"min({column})"], self.stats_[f"max({column})"]
        return (values - low) / ((high - low) or 1.0)


class MaxAbsScaler(_Scaler):
    """Divide a column by its greatest absolute value.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    output_columns : list of str, optional
        Where the results go. Default: in place of the columns.

    Notes
    -----
    Ray source: ``ray.data.preprocessors.MaxAbsScaler``, 2.60.0. No known difference.
    """

    def _aggregations(self, column: str) -> list[Any]:
        return [aggregate.AbsMax(column)]

    def _scaled(self, column: str, values: pd.Series) -> pd.Series:
        return values / (self.stats_[f"abs_max({column})"] or 1.0)
