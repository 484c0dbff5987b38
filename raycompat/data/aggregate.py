"""Aggregations for `Dataset.aggregate` and `GroupedData.aggregate`.

None and NaN in a column are missing values for all of them. With ``ignore_nulls=True`` an aggregation
leaves both out. With ``ignore_nulls=False`` a result is None if there was a None, and else NaN if there
was a NaN. `Count` counts them then, `Unique`, `CountDistinct` and `AsList` keep them (all NaN are one
value), and `Min`, `Max` and `AbsMax` pass over NaN, as Arrow does.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from raycompat._surface import forms
from raycompat.data import block, tensor
from raycompat.data.aggregation import (
    Aggregation,
    ArrowAggregation,
    Groups,
    PythonAggregation,
    without_nan,
)
from raycompat.data.block import Block
from raycompat.data.value_aggregations import (
    ApproximateQuantile,
    ApproximateTopK,
    AsList,
    CountDistinct,
    Quantile,
    Unique,
    ValueCounter,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from raycompat.data.aggregation import Accumulator
    from raycompat.data.block import Row

__all__ = [
    "AbsMax",
    "AggregateFn",
    "AggregateFnV2",
    "ApproximateQuantile",
    "ApproximateTopK",
    "AsList",
    "Count",
    "CountDistinct",
    "Max",
    "Mean",
    "Min",
    "MissingValuePercentage",
    "Quantile",
    "Std",
    "Sum",
    "Unique",
    "ValueCounter",
    "ZeroPercentage",
]


class Count(Aggregation):
    """Number of rows, or of values in a column.

    Parameters
    ----------
    on : str, optional
        The column. Default: rows.
    ignore_nulls : bool, default False
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``count()`` or ``count(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import Count
    >>> ray.data.range(3).aggregate(Count())
    {'count()': 3}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Count``, 2.60.0. Differs from Ray: with ``ignore_nulls=True``
    NaN is not counted; there it is.
    """

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ) -> None:
        self.column = on
        self.ignores_nulls = ignore_nulls
        self.name = alias_name or f"count({on or ''})"

    def states(self, table: Block, groups: Groups) -> list[pa.Array]:
        """Count."""
        if self.column is None:
            return [pa.array(np.bincount(groups.ids, minlength=groups.num))]
        values = self.values(table)
        if self.ignores_nulls:
            counts = groups.reduce(without_nan(values), "count", mode="only_valid")
        else:
            counts = groups.reduce(values, "count", mode="all")
        return [counts.fill_null(0)]

    def merged(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Add."""
        return [groups.reduce(states[0], "sum").fill_null(0)]

    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the counts."""
        return states[0]


class Sum(ArrowAggregation):
    """Sum of a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Ignore missing values; otherwise the sum of a group that has one is missing.
    alias_name : str, optional
        Name of the result. Default: ``sum(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import Sum
    >>> ray.data.range(3).aggregate(Sum("id"))
    {'sum(id)': 3}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Sum``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN
    is left out; there the result can be None for it.
    """

    first = then = ("sum",)
    default_name = "sum"


class Min(ArrowAggregation):
    """Least value of a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``min(column)``.
    zero_factory : callable, optional
        Has no effect: a group without values has none.

    Examples
    --------
    >>> from raycompat.data.aggregate import Min
    >>> ray.data.range(3).aggregate(Min("id"))
    {'min(id)': 0}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Min``, 2.60.0. Differs from Ray: see `zero_factory`.
    """

    first = then = ("min",)
    default_name = "min"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Accumulator] = lambda: float("+inf"),
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)


class Max(ArrowAggregation):
    """Greatest value of a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``max(column)``.
    zero_factory : callable, optional
        Has no effect: a group without values has none.

    Examples
    --------
    >>> from raycompat.data.aggregate import Max
    >>> ray.data.range(3).aggregate(Max("id"))
    {'max(id)': 2}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Max``, 2.60.0. Differs from Ray: see `zero_factory`.
    """

    first = then = ("max",)
    default_name = "max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Accumulator] = lambda: float("-inf"),
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)


class AbsMax(ArrowAggregation):
    """Greatest absolute value of a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``abs_max(column)``.
    zero_factory : callable, optional
        Has no effect: a group without values has none.

    Examples
    --------
    >>> from raycompat.data.aggregate import AbsMax
    >>> ray.data.from_items([1, -3, 2]).aggregate(AbsMax("item"))
    {'abs_max(item)': 3}

    Notes
    -----
    Ray source: ``ray.data.aggregate.AbsMax``, 2.60.0. Differs from Ray: see `zero_factory`.
    """

    first = then = ("max",)
    default_name = "abs_max"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], Accumulator] = lambda: 0,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def values(self, table: Block) -> pa.ChunkedArray:
        """Return the absolute values of the column that is read."""
        values = super().values(table)
        try:
            return pc.abs_checked(values)
        except pa.ArrowInvalid as error:
            raise OverflowError(
                f"{self.name}: the least value of the column {self.column!r} has no absolute value of "
                f"the type {values.type}. Convert the column to float64 first, with map_batches for "
                "example."
            ) from error
        except (pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise self._not_numbers(values.type, "no absolute values") from error


class Mean(ArrowAggregation):
    """Mean of a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``mean(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import Mean
    >>> ray.data.range(3).aggregate(Mean("id"))
    {'mean(id)': 1.0}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Mean``, 2.60.0. Differs from Ray: with ``ignore_nulls=True``
    NaN is left out; there the result can be None for it.
    """

    first = ("sum", "count")
    then = ("sum", "sum")
    default_name = "mean"

    def values(self, table: Block) -> pa.ChunkedArray:
        """Return the column that is read, integers as floats: their sum has no limit."""
        values = super().values(table)
        is_integer = pa.types.is_integer(values.type)
        return values.cast(pa.float64(), safe=False) if is_integer else values

    def options(self, function: str) -> dict[str, object]:
        """Return the options of a function of Arrow's."""
        return {"mode": "only_valid"} if function == "count" else super().options(function)

    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Divide."""
        return pc.divide(pc.cast(states[0], pa.float64()), pc.cast(states[1], pa.float64()))


class Std(Aggregation):
    """Standard deviation of a column, computed from the deviations from each block's mean.

    Parameters
    ----------
    on : str
        The column.
    ddof : int, default 1
        The divisor is the number of values minus this number.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``std(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import Std
    >>> ray.data.range(3).aggregate(Std("id"))
    {'std(id)': 1.0}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Std``, 2.60.0. Differs from Ray: with ``ignore_nulls=True`` NaN
    is left out; there the result can be None for it. Algorithm: Chan, Golub and LeVeque, Updating
    formulae and a pairwise algorithm for computing sample variances, 1979.
    """

    def __init__(
        self,
        on: str | None = None,
        ddof: int = 1,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        self.column = on
        self._ddof = ddof
        self.ignores_nulls = ignore_nulls
        self.name = alias_name or f"std({on or ''})"

    @np.errstate(invalid="ignore", over="ignore")  # with infinity the result is NaN
    def states(self, table: Block, groups: Groups) -> list[pa.Array]:
        """Return the numbers of values and of nulls, the means, the sums of squared deviations."""
        column = self.values(table)
        values = np.asarray(tensor.to_numpy(column), dtype=np.float64)
        ids, kept = groups.ids, values
        if self.ignores_nulls:
            is_known = ~np.isnan(values)
            ids, kept = groups.ids[is_known], values[is_known]
        counts = np.bincount(ids, minlength=groups.num).astype(float)
        means = np.bincount(ids, kept, groups.num) / np.maximum(counts, 1)
        squares = np.bincount(ids, (kept - means[ids]) ** 2, groups.num)
        is_null = np.asarray(column.is_null()) & (not self.ignores_nulls)
        nulls = np.bincount(groups.ids, is_null, groups.num)
        return [pa.array(each) for each in (counts, nulls, means, squares)]

    @np.errstate(invalid="ignore", over="ignore")
    def merged(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Merge: deviations from the common mean are those from the own, and the means' own."""
        counts, nulls, means, squares = (np.asarray(tensor.to_numpy(state)) for state in states)
        ids, num = groups.ids, groups.num
        total = np.bincount(ids, counts, num)
        mean = np.bincount(ids, counts * means, num) / np.maximum(total, 1)
        merged = np.bincount(ids, squares + counts * (means - mean[ids]) ** 2, num)
        return [pa.array(each) for each in (total, np.bincount(ids, nulls, num), mean, merged)]

    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Divide, and take the root."""
        counts, nulls, _, squares = (np.asarray(tensor.to_numpy(state)) for state in states)
        divisor = counts - self._ddof
        enough = divisor > 0
        result = np.sqrt(squares / np.where(enough, divisor, 1))
        return pa.array(np.where(enough, result, np.nan), mask=(counts == 0) | (nulls > 0))


@forms.takes_old_options_in_constructor("ray.data.aggregate.AggregateFn")
class AggregateFn(PythonAggregation):
    """A user's aggregation, made of functions.

    Parameters
    ----------
    init : callable
        ``init(key)`` returns the first state of a group; its key is None here.
    merge : callable
        ``merge(state, state)`` returns one state for two.
    name : str
        Name of the result.
    accumulate_row : callable, optional
        ``accumulate_row(state, row)`` returns the state with a row, a dictionary.
    accumulate_block : callable, optional
        ``accumulate_block(state, block)`` returns the state with a table of rows. Give one of both.
    finalize : callable, optional
        ``finalize(state)`` returns the result. Default: the state.

    Examples
    --------
    The longest word of each group:

    >>> from raycompat.data.aggregate import AggregateFn
    >>> longest = AggregateFn(
    ...     init=lambda key: "",
    ...     accumulate_row=lambda best, row: max(best, row["word"], key=len),
    ...     merge=lambda one, other: max(one, other, key=len),
    ...     name="longest",
    ... )
    >>> rows = [
    ...     {"n": 1, "word": "a"},
    ...     {"n": 1, "word": "long"},
    ...     {"n": 2, "word": "as"},
    ... ]
    >>> ray.data.from_items(rows).groupby("n").aggregate(longest).take_all()
    [{'n': 1, 'longest': 'long'}, {'n': 2, 'longest': 'as'}]

    Notes
    -----
    Ray source: ``ray.data.aggregate.AggregateFn``, 2.60.0. Differs from Ray: ``init`` is given None for
    the key of a group.
    """

    def __init__(
        self,
        init: Callable[[None], Accumulator],
        merge: Callable[[Accumulator, Accumulator], Accumulator],
        name: str,
        accumulate_row: Callable[[Accumulator, Row], Accumulator] | None = None,
        accumulate_block: Callable[[Accumulator, Block], Accumulator] | None = None,
        finalize: Callable[[Accumulator], object] | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("Give one of accumulate_row and accumulate_block, and not both.")
        if not isinstance(name, str):
            raise TypeError(f"name={name!r} is not a str: it names the column of the result.")
        self.name = name
        self._init, self._merge_states, self._finalize = init, merge, finalize
        self._by_row, self._by_block = accumulate_row, accumulate_block

    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""
        state = self._init(None)
        if table is None or not table.num_rows:
            return state
        if self._by_block is not None:
            return self._by_block(state, table)
        assert self._by_row is not None
        for row in block.rows(table):
            state = self._by_row(state, row)
        return state

    def merge(self, left: Accumulator, right: Accumulator) -> Accumulator:
        """Return one state for two."""
        return self._merge_states(left, right)

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return state if self._finalize is None else self._finalize(state)


class AggregateFnV2(PythonAggregation):
    """The base class of your own aggregations.

    Parameters
    ----------
    name : str
        Name of the result.
    zero_factory : callable
        Returns the state of no rows.
    on : str or None
        The column that `aggregate_block` reads.
    ignore_nulls : bool
        Leave out missing values in `on`.

    Examples
    --------
    The range of a column, by two numbers for each block:

    >>> import math
    >>> from raycompat.data.aggregate import AggregateFnV2
    >>> from raycompat.data.block import BlockAccessor
    >>> class Range(AggregateFnV2):
    ...     def __init__(self, on):
    ...         empty = [math.inf, -math.inf]
    ...         super().__init__(
    ...             f"range({on})", lambda: empty, on=on, ignore_nulls=True
    ...         )
    ...
    ...     def aggregate_block(self, block):
    ...         table, column = (
    ...             BlockAccessor.for_block(block),
    ...             self.get_target_column(),
    ...         )
    ...         return [table.min(column, True), table.max(column, True)]
    ...
    ...     def combine(self, one, other):
    ...         return [min(one[0], other[0]), max(one[1], other[1])]
    ...
    ...     def finalize(self, limits):
    ...         return limits[1] - limits[0]
    >>> ray.data.range(10).aggregate(Range("id"))
    {'range(id)': 9}

    Notes
    -----
    Ray source: ``ray.data.aggregate.AggregateFnV2``, 2.60.0. Differs from Ray: `aggregate_block` is
    given a table.
    """

    def __init__(
        self,
        name: str,
        zero_factory: Callable[[], Accumulator],
        *,
        on: str | None,
        ignore_nulls: bool,
    ) -> None:
        self.name = name
        self.column = on
        self._zero = zero_factory
        self.ignores_nulls = ignore_nulls
        # Private names of Ray's class, which subclasses use.
        self._target_col_name, self._ignore_nulls = on, ignore_nulls

    @abc.abstractmethod
    def aggregate_block(self, block: Block) -> Accumulator:
        """Return the state of a table's rows."""

    @abc.abstractmethod
    def combine(self, current_accumulator: Accumulator, new: Accumulator) -> Accumulator:
        """Return one state for two."""

    def finalize(self, accumulator: Accumulator) -> Any:
        """Return the result of a state."""
        return accumulator

    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""
        if table is None:
            return self._zero()
        if self.column is not None:
            column = self.values(table)
            if self.ignores_nulls:
                table = table.filter(without_nan(column).is_valid())
        return (
            self.combine(self._zero(), self.aggregate_block(table))
            if table.num_rows
            else self._zero()
        )

    def merge(self, left: Accumulator, right: Accumulator) -> Accumulator:
        """Return one state for two."""
        return self.combine(left, right)

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return self.finalize(state)


class _Share(Aggregation):
    """The share of values of some kind, in percent."""

    def states(self, table: Block, groups: Groups) -> list[pa.Array]:
        """Return how many are of the kind, and how many are counted."""
        series = self.values(table).to_pandas()
        of_kind, counted = self._which(series)
        return [
            pa.array(np.bincount(groups.ids, np.asarray(each, float), groups.num))
            for each in (of_kind, counted)
        ]

    def merged(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Add."""
        return [groups.reduce(state, "sum") for state in states]

    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Divide."""
        of_kind, counted = (np.asarray(tensor.to_numpy(state)) for state in states)
        share = of_kind / np.maximum(counted, 1) * 100.0
        return pa.array(share, mask=counted == 0)

    @abc.abstractmethod
    def _which(self, series: pd.Series) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Return for each value whether it is of the kind, and whether it is counted."""


class MissingValuePercentage(_Share):
    """The percentage of missing values of a column; NaN counts as missing.

    Parameters
    ----------
    on : str
        The column.
    alias_name : str, optional
        Name of the result. Default: ``missing_pct(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import MissingValuePercentage
    >>> ray.data.from_items([{"x": 1}, {"x": None}]).aggregate(
    ...     MissingValuePercentage("x")
    ... )
    {'missing_pct(x)': 50.0}
    """

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        self.column = on
        self.name = alias_name or f"missing_pct({on})"

    def _which(self, series: pd.Series) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        return pd.isna(series), np.ones(len(series))


class ZeroPercentage(_Share):
    """The percentage of zeros in a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Leave missing values out of the count.
    alias_name : str, optional
        Name of the result. Default: ``zero_pct(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import ZeroPercentage
    >>> ray.data.from_items([0, 1]).aggregate(ZeroPercentage("item"))
    {'zero_pct(item)': 50.0}

    Notes
    -----
    Ray source: ``ray.data.aggregate.ZeroPercentage``, 2.60.0. Differs from Ray: with
    ``ignore_nulls=True`` NaN is left out of the count; there it is not.
    """

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        self.column = on
        self.ignores_nulls = ignore_nulls
        self.name = alias_name or f"zero_pct({on})"

    def _which(self, series: pd.Series) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        counted = ~pd.isna(series) if self.ignores_nulls else np.ones(len(series))
        return series == 0, counted
