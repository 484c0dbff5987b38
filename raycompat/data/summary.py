"""`DatasetSummary`: the statistics of a data set's columns, and which ones a column has by its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from raycompat.data.aggregate import (
    ApproximateQuantile,
    ApproximateTopK,
    Count,
    Max,
    Mean,
    Min,
    MissingValuePercentage,
    Std,
    ZeroPercentage,
)
from raycompat.data.block import require_columns
from raycompat.data.datatype import DataType

if TYPE_CHECKING:
    from raycompat.data.aggregation import Aggregation

#: How many of the most frequent values are shown.
_TOP = 10

#: Returns the aggregations of a column of a name.
Chooser = Callable[[str], Sequence["Aggregation"]]


def _of_numbers(name: str) -> list[Aggregation]:
    return [
        Count(name, ignore_nulls=False),
        Mean(name),
        Min(name),
        Max(name),
        Std(name, ddof=0),
        ApproximateQuantile(name, quantiles=[0.5]),
        MissingValuePercentage(name),
        ZeroPercentage(name),
    ]


def _of_times(name: str) -> list[Aggregation]:
    return [
        Count(name, ignore_nulls=False),
        Min(name),
        Max(name),
        MissingValuePercentage(name),
    ]


def _of_others(name: str) -> list[Aggregation]:
    return [
        Count(name, ignore_nulls=False),
        MissingValuePercentage(name),
        ApproximateTopK(name, k=_TOP),
    ]


def aggregations(
    field: pa.Field, chosen: Mapping[DataType, Chooser] | None = None
) -> Sequence[Aggregation]:
    """Return the aggregations of a column: those that its type has in `chosen`, or the usual ones."""
    type_ = DataType.from_arrow(field.type)
    for each, choose in (chosen or {}).items():
        if each == type_:
            return choose(field.name)
    if type_.is_numerical_type() or type_.is_boolean_type():
        return _of_numbers(field.name)
    if type_.is_temporal_type() and not pa.types.is_duration(field.type):
        return _of_times(field.name)
    has_frequent = _has_frequent(field.type)
    return _of_others(field.name) if has_frequent else _of_others(field.name)[:2]


def _has_frequent(kind: pa.DataType) -> bool:
    """Return whether equal values of a type can be counted."""
    while DataType.from_arrow(kind).is_list_type():
        kind = kind.value_type
    type_ = DataType.from_arrow(kind)
    return not (type_.is_struct_type() or type_.is_map_type() or type_.is_tensor_type())


@dataclass
class DatasetSummary:
    """Statistics of the columns of a data set. `Dataset.summary` returns it.

    Parameters
    ----------
    dataset_schema : pyarrow.Schema
        The columns of the data set.
    statistics : dict of str to dict
        For each column its statistics, by their names.

    Examples
    --------
    >>> summary = ray.data.range(5).summary()
    >>> stats = summary.get_column_stats("id")
    >>> stats.set_index(summary.STATISTIC_COLUMN).loc["max", "value"]
    4
    """

    dataset_schema: pa.Schema
    statistics: dict[str, dict[str, object]]

    #: The column of the tables that has the names of statistics.
    STATISTIC_COLUMN = "statistic"

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for each statistic, and a column for each column.

        A value that a column does not have is None.

        Examples
        --------
        >>> ray.data.range(5).summary().to_pandas()["statistic"].tolist()[-3:]
        ['missing_pct', 'std', 'zero_pct']
        """
        names = self._names()
        columns = {
            column: pd.Series([stats.get(name) for name in names], dtype=object)
            for column, stats in sorted(self.statistics.items())
        }
        frame = pd.DataFrame({self.STATISTIC_COLUMN: names, **columns})
        return frame.infer_objects()

    def get_column_stats(self, column: str) -> pd.DataFrame:
        """Return the statistics of one column, in the columns "statistic" and "value".

        Parameters
        ----------
        column : str
            Its name.

        Raises
        ------
        ValueError
            When the summary does not have it.

        Examples
        --------
        >>> ray.data.range(5).summary().get_column_stats("id").columns.tolist()
        ['statistic', 'value']
        """
        require_columns([column], list(self.statistics), "get_column_stats")
        names, stats = self._names(), self.statistics[column]
        values = pd.Series([stats.get(name) for name in names], dtype=object)
        return pd.DataFrame({self.STATISTIC_COLUMN: names, "value": values})

    def _names(self) -> list[str]:
        return sorted({name for stats in self.statistics.values() for name in stats})


def statistics(
    results: Mapping[str, object], chosen: Mapping[str, Sequence[Aggregation]]
) -> dict[str, dict[str, object]]:
    """Return the results of aggregations by columns, each item of a list by its number."""
    found: dict[str, dict[str, object]] = {}
    for column, several in chosen.items():
        stats = found[column] = {}
        for each in several:
            name, value = each.name.removesuffix(f"({column})"), results[each.name]
            if isinstance(value, list):
                stats.update((f"{name}[{number}]", item) for number, item in enumerate(value))
            else:
                stats[name] = value
    return found
