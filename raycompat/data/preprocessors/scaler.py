"""Preprocessors that scale numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from raycompat._surface import forms
from raycompat.data import aggregate
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.preprocessors.columns import outputs

if TYPE_CHECKING:
    from raycompat.data.aggregation import Aggregation
    from raycompat.data.dataset import Dataset


class _Scaler(Preprocessor):
    """A scaler: aggregations of columns, and a function of a column and their results."""

    def __init__(self, columns: Sequence[str], output_columns: Sequence[str] | None = None) -> None:
        self.columns = list(columns)
        self.output_columns = outputs(self.columns, output_columns)

    def _aggregations(self, column: str) -> list[Aggregation]:
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


@forms.takes_old_options_in_constructor("ray.data.preprocessors.StandardScaler")
class StandardScaler(_Scaler):
    """Subtract the mean of a column, and divide by its standard deviation (of all values: ddof 0).

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import StandardScaler
    >>> rows = ray.data.from_items([{"x": 0.0}, {"x": 2.0}])
    >>> StandardScaler(columns=["x"]).fit_transform(rows).take_all()
    [{'x': -1.0}, {'x': 1.0}]

    Notes
    -----
    Ray source: ``ray.data.preprocessors.StandardScaler``, 2.60.0. No known difference: a column of one
    value becomes 0.
    """

    def _aggregations(self, column: str) -> list[Aggregation]:
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
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import MinMaxScaler
    >>> rows = ray.data.from_items([{"x": 0.0}, {"x": 2.0}])
    >>> MinMaxScaler(columns=["x"]).fit_transform(rows).take_all()
    [{'x': 0.0}, {'x': 1.0}]

    Notes
    -----
    Ray source: ``ray.data.preprocessors.MinMaxScaler``, 2.60.0. No known difference: a column of one
    value becomes 0.
    """

    def _aggregations(self, column: str) -> list[Aggregation]:
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
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import MaxAbsScaler
    >>> rows = ray.data.from_items([{"x": -4.0}, {"x": 2.0}])
    >>> MaxAbsScaler(columns=["x"]).fit_transform(rows).take_all()
    [{'x': -1.0}, {'x': 0.5}]
    """

    def _aggregations(self, column: str) -> list[Aggregation]:
        return [aggregate.AbsMax(column)]

    def _scaled(self, column: str, values: pd.Series) -> pd.Series:
        return values / (self.stats_[f"abs_max({column})"] or 1.0)


class RobustScaler(_Scaler):
    """Subtract the median of a column, and divide by the distance of two quantiles.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    quantile_range : (float, float), default (0.25, 0.75)
        The quantiles, from 0 to 1.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.
    quantile_precision : int, default 800
        Has no effect: quantiles are exact.

    Examples
    --------
    One value far from the others hardly changes the scale:

    >>> from raycompat.data.preprocessors import RobustScaler
    >>> rows = ray.data.from_items([{"x": x} for x in (1.0, 2.0, 3.0, 4.0, 1000.0)])
    >>> RobustScaler(["x"]).fit_transform(rows).take_batch()["x"]
    array([ -1. ,  -0.5,   0. ,   0.5, 498.5])

    Notes
    -----
    Ray source: ``ray.data.preprocessors.RobustScaler``, 2.60.0. Differs from Ray: see
    `quantile_precision`. A column whose quantiles are equal becomes 0, one without values NaN.
    """

    _shown = ("columns", "quantile_range", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: Sequence[str] | None = None,
        quantile_precision: int = 800,
    ) -> None:
        super().__init__(columns, output_columns)
        self.quantile_range = quantile_range
        self.quantile_precision = quantile_precision

    def _fit(self, ds: Dataset) -> None:
        wanted = [self.quantile_range[0], 0.5, self.quantile_range[1]]
        found = ds.aggregate(
            *(aggregate.ApproximateQuantile(name, wanted) for name in self.columns)
        )
        self.stats_ = {}
        for name in self.columns:
            values = found[f"approx_quantile({name})"] or [None] * 3
            for what, value in zip(
                ("low_quantile", "median", "high_quantile"), values, strict=True
            ):
                self.stats_[f"{what}({name})"] = value

    def _scaled(self, column: str, values: pd.Series) -> pd.Series:
        low, median, high = (
            self.stats_[f"{what}({column})"] for what in ("low_quantile", "median", "high_quantile")
        )
        if median is None:
            return values * float("nan")
        return values * 0.0 if high == low else (values - median) / (high - low)


_NORMS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "l1": lambda numbers: numbers.abs().sum(axis=1),
    "l2": lambda numbers: (numbers**2).sum(axis=1) ** 0.5,
    "max": lambda numbers: numbers.abs().max(axis=1),
}


class Normalizer(Preprocessor):
    """Divide the columns of each row by their norm.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    norm : {"l2", "l1", "max"}, default "l2"
        Root of the sum of squares, sum of absolute values, or greatest absolute value.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import Normalizer
    >>> rows = ray.data.from_items([{"x": 3.0, "y": 4.0}])
    >>> Normalizer(["x", "y"]).transform(rows).take_all()
    [{'x': 0.6, 'y': 0.8}]
    """

    _is_fittable = False

    def __init__(
        self,
        columns: Sequence[str],
        norm: str = "l2",
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        if norm not in _NORMS:
            raise ValueError(f"norm={norm!r} should be one of {', '.join(_NORMS)}.")
        self.columns = list(columns)
        self.norm = norm
        self.output_columns = outputs(self.columns, output_columns)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        numbers = df[self.columns].astype("float64")
        divided = numbers.div(_NORMS[self.norm](numbers), axis=0)
        names = dict(zip(self.columns, self.output_columns, strict=True))
        return df.assign(**{names[name]: divided[name] for name in self.columns})


class PowerTransformer(Preprocessor):
    """Make columns more like a normal distribution, by a power that is given.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    power : float
        The transformation's parameter, often called lambda.
    method : {"yeo-johnson", "box-cox"}, default "yeo-johnson"
        Box-Cox takes numbers greater than 0 only.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import PowerTransformer
    >>> rows = ray.data.from_items([{"size": 4.0}, {"size": 16.0}])
    >>> PowerTransformer(["size"], power=0.5, method="box-cox").transform(
    ...     rows
    ... ).take_all()
    [{'size': 2.0}, {'size': 6.0}]

    Notes
    -----
    Ray source: ``ray.data.preprocessors.PowerTransformer``, 2.60.0. No known difference. Yeo, Johnson,
    "A new family of power transformations", Biometrika 87 (2000).
    """

    _is_fittable = False

    def __init__(
        self,
        columns: Sequence[str],
        power: float,
        method: str = "yeo-johnson",
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        if method not in ("yeo-johnson", "box-cox"):
            raise ValueError(f'method={method!r} should be "yeo-johnson" or "box-cox".')
        self.columns = list(columns)
        self.power = power
        self.method = method
        self.output_columns = outputs(self.columns, output_columns)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {}
        for column, output in zip(self.columns, self.output_columns, strict=True):
            values = df[column].astype("float64")
            if self.method == "box-cox":
                made[output] = _box_cox(values, self.power)
                continue
            up = _box_cox(values.clip(lower=0) + 1, self.power)
            down = -_box_cox(1 - values.clip(upper=0), 2 - self.power)
            made[output] = up.where(values >= 0, down)
        return df.assign(**made)


def _box_cox(values: pd.Series, power: float) -> pd.Series:
    return (values**power - 1) / power if power else np.log(values)
