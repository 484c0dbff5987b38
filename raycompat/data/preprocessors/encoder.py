"""Preprocessors that make numbers of categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from raycompat._old_forms.data.vectors import of_their_time
from raycompat.data import aggregate
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.preprocessors.columns import counted, outputs

if TYPE_CHECKING:
    from raycompat.data.dataset import Dataset


def _numbers(
    ds: Dataset,
    columns: Sequence[str],
    limits: Mapping[str, int],
    items: Callable[[Any], list[object]] = lambda value: [value],
) -> dict[str, dict[Any, int]]:
    """Return the numbers of the items in the values of columns, in the order of the items.

    With a limit, the most frequent items alone have numbers; of equal ones, those that came first.
    """
    stats = {}
    for column in columns:
        counts = counted(ds, column, items)
        if any(not isinstance(item, tuple) and pd.isna(item) for item in counts):
            raise _missing(column)
        found = sorted(item for item, _ in counts.most_common(limits.get(column)))
        stats[f"unique_values({column})"] = {item: number for number, item in enumerate(found)}
    return stats


def _missing(column: str) -> ValueError:
    return ValueError(
        f"Column {column!r} has missing values, which have no number. Fill them first, with "
        "SimpleImputer for example."
    )


def _require_values(values: pd.Series, column: str) -> pd.Series:
    """Return the values of a column; raise where one is missing."""
    if values.isna().any():
        raise _missing(column)
    return values


def _items(value: Any) -> list[object]:
    return list(value) if _is_list(value) else [value]


def _whole(value: Any) -> list[object]:
    """Return a value as the only item; a list as a tuple, which can be a key."""
    return [tuple(value) if _is_list(value) else value]


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


class OrdinalEncoder(Preprocessor):
    """Replace the values of columns by their numbers, in the order of the values.

    Parameters
    ----------
    columns : list of str
        The columns.
    encode_lists : bool, default True
        Replace each item of a list by its number; otherwise a list is one value.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import OrdinalEncoder
    >>> rows = ray.data.from_items([{"y": "cat"}, {"y": "ape"}])
    >>> OrdinalEncoder(columns=["y"]).fit_transform(rows).take_all()
    [{'y': 1}, {'y': 0}]

    Notes
    -----
    Ray source: ``ray.data.preprocessors.OrdinalEncoder``, 2.60.0. No known difference. A value
    that was not there becomes missing.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        encode_lists: bool = True,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        self.columns = list(columns)
        self.encode_lists = encode_lists
        self.output_columns = outputs(self.columns, output_columns)

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = _numbers(ds, self.columns, {}, _items if self.encode_lists else _whole)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        names = zip(self.columns, self.output_columns, strict=True)
        return df.assign(**{output: self._encoded(df[name], name) for name, output in names})

    def _encoded(self, values: pd.Series, column: str) -> pd.Series:
        _require_values(values, column)
        numbers = self.stats_[f"unique_values({column})"]
        if not any(map(_is_list, values)):
            return values.map(numbers)
        if not self.encode_lists:
            return values.map(lambda value: numbers.get(*_whole(value)))
        lists = [[numbers.get(item) for item in _items(value)] for value in values]
        return pd.Series(lists, index=values.index, dtype=object)


class LabelEncoder(Preprocessor):
    """Replace the labels in a column by their numbers, in the order of the labels.

    Parameters
    ----------
    label_column : str
        The column.
    output_column : str, optional
        Where the numbers go. Default: in place of the column.

    Examples
    --------
    >>> from raycompat.data.preprocessors import LabelEncoder
    >>> rows = ray.data.from_items([{"y": "cat"}, {"y": "ape"}])
    >>> LabelEncoder("y").fit_transform(rows).take_all()
    [{'y': 1}, {'y': 0}]
    """

    def __init__(self, label_column: str, *, output_column: str | None = None) -> None:
        self.label_column = label_column
        self.output_column = output_column or label_column

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = _numbers(ds, [self.label_column], {})

    def _labels(self) -> dict[Any, int]:
        found: dict[Any, int] = self.stats_[f"unique_values({self.label_column})"]
        return found

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        labels = _require_values(df[self.label_column], self.label_column)
        return df.assign(**{self.output_column: labels.map(self._labels())})

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """Return a data set in which numbers are labels again.

        Examples
        --------
        >>> from raycompat.data.preprocessors import LabelEncoder
        >>> rows = ray.data.from_items([{"kind": "cat"}, {"kind": "dog"}])
        >>> encoder = LabelEncoder("kind").fit(rows)
        >>> numbers = encoder.transform(rows)
        >>> numbers.take_all()
        [{'kind': 0}, {'kind': 1}]
        >>> encoder.inverse_transform(numbers).take_all()
        [{'kind': 'cat'}, {'kind': 'dog'}]
        """
        self._require_fit()
        labels = {number: label for label, number in self._labels().items()}
        source, target = self.output_column, self.label_column
        return ds.map_batches(
            lambda df: df.assign(**{target: df[source].map(labels)}), batch_format="pandas"
        )

    def get_input_columns(self) -> list[str]:
        """Return the columns that it reads."""
        return [self.label_column]

    def get_output_columns(self) -> list[str]:
        """Return the columns that it writes.

        Examples
        --------
        >>> from raycompat.data.preprocessors import LabelEncoder
        >>> encoder = LabelEncoder("colour")
        >>> encoder.get_input_columns(), encoder.get_output_columns()
        (['colour'], ['colour'])
        """
        return [self.output_column]


class _WithPlaces(Preprocessor):
    """An encoder that gives the values of a column, or the most frequent ones, a place in arrays."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        max_categories: Mapping[str, int] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        self.columns = list(columns)
        self.max_categories = dict(max_categories or {})
        self.output_columns = outputs(self.columns, output_columns)


class OneHotEncoder(_WithPlaces):
    """Replace the values of columns by arrays with a 1 at the value's number and 0 elsewhere.

    Parameters
    ----------
    columns : list of str
        The columns.
    max_categories : dict of str to int, optional
        For columns, how many of the most frequent values have a place; the others are all 0.
    output_columns : list of str, optional
        Where the results go, arrays of shape (number of values,), uint8. Default: in place of the
        columns.

    Examples
    --------
    >>> from raycompat.data.preprocessors import OneHotEncoder
    >>> rows = ray.data.from_items([{"y": "cat"}, {"y": "ape"}])
    >>> [
    ...     row["y"].tolist()
    ...     for row in OneHotEncoder(columns=["y"]).fit_transform(rows).take_all()
    ... ]
    [[0, 1], [1, 0]]
    """

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = _numbers(ds, self.columns, self.max_categories, _whole)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made, named = {}, {}
        for column, output in zip(self.columns, self.output_columns, strict=True):
            numbers = self.stats_[f"unique_values({column})"]
            values = _require_values(df[column], column)
            if any(map(_is_list, values)):
                values = values.map(lambda value: _whole(value)[0])
            codes = values.map(numbers).to_numpy(dtype=float, na_value=np.nan)
            known = ~np.isnan(codes)
            encoded = np.zeros((len(df), len(numbers)), np.uint8)
            encoded[np.flatnonzero(known), codes[known].astype(int)] = 1
            made[output] = pd.Series(list(encoded), index=df.index, dtype=object)
            named[output] = [f"{column}_{value}" for value in numbers]
        return of_their_time(df.assign(**made), named)


class MultiHotEncoder(_WithPlaces):
    """Replace lists of values by arrays with the number of times that each value is in the list.

    Parameters
    ----------
    columns : list of str
        Columns of lists, or of single values.
    max_categories : dict of str to int, optional
        For columns, how many of the most frequent values have a place; the others are not counted.
    output_columns : list of str, optional
        Where the results go, lists with a count for each value, in the order of values. Default: in
        place of the columns.

    Examples
    --------
    >>> from raycompat.data.preprocessors import MultiHotEncoder
    >>> rows = ray.data.from_items([{"tags": ["sea", "sun"]}, {"tags": ["sun"]}])
    >>> encoded = MultiHotEncoder(["tags"]).fit_transform(rows).take_all()
    >>> [list(row["tags"]) for row in encoded]
    [[1, 1], [0, 1]]
    """

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = _numbers(ds, self.columns, self.max_categories, _items)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {}
        for column, output in zip(self.columns, self.output_columns, strict=True):
            known = self.stats_[f"unique_values({column})"]
            counted = (Counter(_items(value)) for value in _require_values(df[column], column))
            values = [[counts[item] for item in known] for counts in counted]
            made[output] = pd.Series(values, index=df.index, dtype=object)
        return df.assign(**made)


class Categorizer(Preprocessor):
    """Make columns categorical: pandas treats their values as members of a set.

    Parameters
    ----------
    columns : list of str
        The columns.
    dtypes : dict of str to pandas.CategoricalDtype, optional
        The sets of the columns. Default: the values in the data set.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import Categorizer
    >>> rows = ray.data.from_items(
    ...     [{"color": "red"}, {"color": "blue"}, {"color": "red"}]
    ... )
    >>> frame = Categorizer(["color"]).fit_transform(rows).to_pandas()
    >>> list(frame["color"].cat.categories)
    ['blue', 'red']

    Notes
    -----
    Ray source: ``ray.data.preprocessors.Categorizer``, 2.60.0. No known difference: blocks keep such a
    column as Arrow's dictionary. Missing values stay missing.
    """

    def __init__(
        self,
        columns: Sequence[str],
        dtypes: Mapping[str, pd.CategoricalDtype] | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        self.columns = list(columns)
        self.dtypes = dict(dtypes or {})
        self.output_columns = outputs(self.columns, output_columns)

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = dict(self.dtypes)
        for column in self.columns:
            if column not in self.dtypes:
                values = [value for value in ds.unique(column) if not pd.isna(value)]
                self.stats_[column] = pd.CategoricalDtype(sorted(values))

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        names = zip(self.columns, self.output_columns, strict=True)
        return df.assign(**{output: df[name].astype(self.stats_[name]) for name, output in names})


class SimpleImputer(Preprocessor):
    """Replace missing values.

    Parameters
    ----------
    columns : list of str
        The columns.
    strategy : {"mean", "most_frequent", "constant"}, default "mean"
        The replacement.
    fill_value : optional
        The replacement for ``"constant"``.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import SimpleImputer
    >>> rows = ray.data.from_items([{"x": 1.0}, {"x": None}, {"x": 3.0}])
    >>> SimpleImputer(columns=["x"]).fit_transform(rows).take_all()
    [{'x': 1.0}, {'x': 2.0}, {'x': 3.0}]
    """

    def __init__(
        self,
        columns: Sequence[str],
        strategy: str = "mean",
        fill_value: object = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        if strategy not in ("mean", "most_frequent", "constant"):
            raise ValueError(
                f'strategy={strategy!r} should be "mean", "most_frequent" or "constant".'
            )
        if strategy == "constant" and fill_value is None:
            raise ValueError('strategy="constant" needs a fill_value.')
        self.columns = list(columns)
        self.strategy = strategy
        self.fill_value = fill_value
        self.output_columns = outputs(self.columns, output_columns)
        self._is_fittable = strategy != "constant"

    def _fit(self, ds: Dataset) -> None:
        if self.strategy == "mean":
            self.stats_ = ds.aggregate(*map(aggregate.Mean, self.columns))
            return
        self.stats_ = {}
        for column in self.columns:
            counted = ds.groupby(column).count().to_pandas().dropna(subset=[column])
            most = counted.sort_values(["count()", column], ascending=[False, True])[column]
            self.stats_[f"most_frequent({column})"] = most.iloc[0] if len(most) else None

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {}
        for column, output in zip(self.columns, self.output_columns, strict=True):
            value = self.fill_value
            if self._is_fittable:
                value = self.stats_[f"{self.strategy}({column})"]
            if value is None:
                raise ValueError(f"Column {column!r} has no values to fill missing ones with.")
            made[output] = self._filled(df, column, value)
        return df.assign(**made)

    def _filled(self, df: pd.DataFrame, column: str, value: object) -> pd.Series:
        if column not in df.columns and not self._is_fittable:
            return pd.Series(value, index=df.index)
        return df[column].fillna(value)
