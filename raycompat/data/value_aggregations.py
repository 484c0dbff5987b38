"""Aggregations that need all values of a group: quantiles, different values, lists and counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raycompat.data import tensor
from raycompat.data.aggregation import PythonAggregation, without_nan
from raycompat.data.block import Block

if TYPE_CHECKING:
    from raycompat.data.aggregation import Accumulator


class _OfValues(PythonAggregation):
    """An aggregation that needs all values of a group."""

    default_name: str
    ignores_nulls = True

    def __init__(self, on: str | None, alias_name: str | None) -> None:
        self.column = on
        self.name = alias_name or f"{self.default_name}({on or ''})"

    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""
        if table is None or not table.num_columns:
            return []
        values = self.values(table)
        if self.ignores_nulls:
            values = without_nan(values).drop_null()
        return tensor.to_list(values)

    def merge(self, left: Accumulator, right: Accumulator) -> Accumulator:
        """Return one state for two."""
        return [*left, *right]


class Quantile(_OfValues):
    """A quantile of a column, interpolated linearly between its neighbours.

    Parameters
    ----------
    on : str
        The column.
    q : float, default 0.5
        Which, from 0 to 1; 0.5 is the median.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``quantile(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import Quantile
    >>> ray.data.range(5).aggregate(Quantile("id", q=0.5))
    {'quantile(id)': 2.0}

    Notes
    -----
    Ray source: ``ray.data.aggregate.Quantile``, 2.60.0. Differs from Ray: with
    ``ignore_nulls=False`` NaN makes the result NaN; there it is left out.
    """

    default_name = "quantile"

    def __init__(
        self,
        on: str | None = None,
        q: float = 0.5,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, alias_name)
        if not 0 <= q <= 1:
            raise ValueError(f"q={q!r} is not a quantile: give a number from 0 to 1.")
        self._q = q
        self.ignores_nulls = ignore_nulls

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        if not state or any(value is None for value in state):
            return None
        return float(np.quantile(np.asarray(state, dtype=float), self._q))


class Unique(_OfValues):
    """The different values of a column, as a list.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default False
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``unique(column)``.
    encode_lists : bool, optional
        Take the items of lists one by one. Default: no.

    Examples
    --------
    >>> from raycompat.data.aggregate import Unique
    >>> sorted(
    ...     ray.data.from_items([1, 2, 1]).aggregate(Unique("item"))["unique(item)"]
    ... )
    [1, 2]

    Notes
    -----
    Ray source: ``ray.data.aggregate.Unique``, 2.60.0. Differs from Ray: values are in the order in
    which they are first met; with ``ignore_nulls=True`` NaN is left out; there it is kept.
    """

    default_name = "unique"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: bool | None = None,
    ) -> None:
        super().__init__(on, alias_name)
        self.ignores_nulls = ignore_nulls
        self._encodes_lists = bool(encode_lists)

    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""
        values = super().state(table)
        if self._encodes_lists:
            values = _items(values)
        return list(dict.fromkeys(map(_hashable, values)))

    def merge(self, left: Accumulator, right: Accumulator) -> Accumulator:
        """Return one state for two."""
        return list(dict.fromkeys(map(_hashable, [*left, *right])))

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return list(state)


def _items(values: list[object]) -> list[object]:
    """Return the items of lists one by one, and the values that are not lists."""
    return [item for each in values for item in (each if isinstance(each, list) else [each])]


def _hashable(value: object) -> object:
    if isinstance(value, float) and value != value:
        return math.nan  # one object, which a dictionary finds by its identity
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


class CountDistinct(Unique):
    """Number of different values of a column.

    Parameters
    ----------
    on : str
        The column.
    ignore_nulls : bool, default True
        Ignore missing values.
    alias_name : str, optional
        Name of the result. Default: ``count_distinct(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import CountDistinct
    >>> ray.data.from_items([1, 2, 1]).aggregate(CountDistinct("item"))
    {'count_distinct(item)': 2}

    Notes
    -----
    Ray source: ``ray.data.aggregate.CountDistinct``, 2.60.0. Differs from Ray: with
    ``ignore_nulls=True`` NaN is left out; there it is counted.
    """

    default_name = "count_distinct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return len(state)


class AsList(_OfValues):
    """All values of a column, as a list.

    Parameters
    ----------
    on : str
        The column.
    alias_name : str, optional
        Name of the result. Default: ``list(column)``.
    ignore_nulls : bool, default False
        Ignore missing values.

    Examples
    --------
    >>> from raycompat.data.aggregate import AsList
    >>> sorted(ray.data.range(3).aggregate(AsList("id"))["list(id)"])
    [0, 1, 2]

    Notes
    -----
    Ray source: ``ray.data.aggregate.AsList``, 2.60.0. Differs from Ray: with ``ignore_nulls=True``
    NaN is left out; there it is kept.
    """

    default_name = "list"

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False) -> None:
        super().__init__(on, alias_name)
        self.ignores_nulls = ignore_nulls

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return state


class ApproximateQuantile(_OfValues):
    """Quantiles of a column, each a value that is there.

    Parameters
    ----------
    on : str
        A column of numbers.
    quantiles : list of float
        Which, from 0 to 1.
    quantile_precision : int, default 800
        Has no effect.
    alias_name : str, optional
        Name of the result, a list. Default: ``approx_quantile(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import ApproximateQuantile
    >>> ray.data.range(101).aggregate(
    ...     ApproximateQuantile(on="id", quantiles=[0.1, 0.5])
    ... )
    {'approx_quantile(id)': [10.0, 50.0]}

    Notes
    -----
    Ray source: ``ray.data.aggregate.ApproximateQuantile``, 2.60.0. Differs from Ray: the quantiles are
    exact, and need memory for all values of a group.
    """

    default_name = "approx_quantile"

    def __init__(
        self,
        on: str,
        quantiles: Sequence[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, alias_name)
        if not all(0 <= each <= 1 for each in quantiles):
            raise ValueError(f"quantiles={quantiles!r}: give numbers from 0 to 1.")
        self._quantiles = list(quantiles)

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        if not state:
            return []
        values = np.asarray(state, dtype=float)
        return np.quantile(values, self._quantiles, method="inverted_cdf").tolist()


class ValueCounter(_OfValues):
    """The number of times each value of a column occurs: ``{"values": [...], "counts": [...]}``.

    Parameters
    ----------
    on : str
        The column; a missing value is counted as None.
    alias_name : str, optional
        Name of the result. Default: ``value_counter(column)``.

    Examples
    --------
    >>> from raycompat.data.aggregate import ValueCounter
    >>> words = ray.data.from_items([{"word": word} for word in "a b a".split()])
    >>> words.aggregate(ValueCounter(on="word"))
    {'value_counter(word)': {'values': ['a', 'b'], 'counts': [2, 1]}}

    Notes
    -----
    Ray source: ``ray.data.aggregate.ValueCounter``, 2.60.0. Differs from Ray: values are in the
    order in which they are first met.
    """

    default_name = "value_counter"
    ignores_nulls = False

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__(on, alias_name)

    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""
        return Counter(map(_hashable, super().state(table)))

    def merge(self, left: Accumulator, right: Accumulator) -> Accumulator:
        """Return one state for two."""
        merged: Counter[object] = Counter()
        for value, count in (*left.items(), *right.items()):
            merged[_hashable(value)] += count
        return merged

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return {"values": list(state), "counts": list(state.values())}


class ApproximateTopK(ValueCounter):
    """The most frequent values of a column, with their numbers: ``[{column: value, "count": number}]``.

    Parameters
    ----------
    on : str
        The column; missing values are left out.
    k : int
        How many.
    log_capacity : int, default 15
        Has no effect.
    alias_name : str, optional
        Name of the result. Default: ``approx_topk(column)``.
    encode_lists : bool, default False
        Count the items of lists one by one.

    Examples
    --------
    >>> from raycompat.data.aggregate import ApproximateTopK
    >>> words = ray.data.from_items(
    ...     [{"word": word} for word in "a b a c a b".split()]
    ... )
    >>> words.aggregate(ApproximateTopK(on="word", k=2))
    {'approx_topk(word)': [{'word': 'a', 'count': 3}, {'word': 'b', 'count': 2}]}

    Notes
    -----
    Ray source: ``ray.data.aggregate.ApproximateTopK``, 2.60.0. Differs from Ray: the numbers are
    exact, and need memory for all different values of a group; NaN is left out; there it is
    counted.
    """

    default_name = "approx_topk"
    ignores_nulls = True

    def __init__(
        self,
        on: str,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ) -> None:
        super().__init__(on, alias_name)
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k={k!r} is not a number of values: give 1 or more.")
        self._k = k
        self._encodes_lists = encode_lists

    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""
        values = _OfValues.state(self, table)
        if self._encodes_lists:
            values = _items(values)
        return Counter(_hashable(each) for each in values if each is not None)

    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
        return [{self.column: value, "count": count} for value, count in state.most_common(self._k)]
