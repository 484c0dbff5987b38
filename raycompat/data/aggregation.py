"""The computation of aggregations: states of groups in blocks, which are merged and finished.

Each runs in two steps: a *state* of each group in each block, in columns of a table, and states of one
group merged into one, as often as need be; at the end the result is computed from the state.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raycompat.data import block, tensor
from raycompat.data.block import Block, Column

#: What an aggregation keeps of the rows that it has seen: any type, which each aggregation chooses.
Accumulator: TypeAlias = Any


class Groups:
    """Which group each row of a table belongs to.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    keys : sequence of str
        The columns whose values make the groups; none: all rows are one group.
    """

    def __init__(self, table: Block, keys: Sequence[str]) -> None:
        self.keys = list(keys)
        if not self.keys:
            self.ids = np.zeros(table.num_rows, np.int64)
            self.num = 1
            self.table = pa.table({})
            return
        block.require_columns(self.keys, table.column_names, "groupby")
        keyed = pa.table({name: _decoded(table[name]) for name in self.keys})
        numbered = keyed.append_column(_ROW, pa.array(np.arange(table.num_rows)))
        try:
            grouped = numbered.group_by(self.keys, use_threads=False).aggregate([(_ROW, "list")])
            grouped = grouped.sort_by([(name, "ascending") for name in self.keys])
        except (pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise block.unordered(keyed, self.keys, "groupby") from error
        rows = grouped[f"{_ROW}_list"].combine_chunks()
        self.num = grouped.num_rows
        self.ids = np.zeros(table.num_rows, np.int64)
        lengths = np.diff(np.asarray(rows.offsets)) if self.num else np.zeros(0, np.int64)
        self.ids[np.asarray(rows.flatten())] = np.repeat(np.arange(self.num), lengths)
        self.table = grouped.select(self.keys)

    def rows(self) -> list[np.ndarray]:
        """Return the numbers of the rows of each group, in order."""
        order = np.argsort(self.ids, kind="stable")
        return np.split(order, np.searchsorted(self.ids[order], np.arange(1, self.num)))

    def reduce(self, column: Column, function: str, **options: object) -> pa.Array:
        """Aggregate a column in each group, with a function of Arrow's."""
        table = pa.table({_ROW: pa.array(self.ids), "value": column})
        chosen = None
        if options:
            kind = pc.CountOptions if function == "count" else pc.ScalarAggregateOptions
            chosen = kind(**options)
        done = table.group_by(_ROW, use_threads=False).aggregate([("value", function, chosen)])
        values = done[f"value_{function}"].combine_chunks()
        groups = np.asarray(done[_ROW])
        if len(groups) == self.num:
            return values.take(pa.array(np.argsort(groups)))
        at = np.full(self.num, -1)  # no rows at all: one group without a value
        at[groups] = np.arange(len(groups))
        return values.take(pa.array(at, mask=at < 0))


def _decoded(column: Column) -> Column:
    """Return the values of a column of categories: Arrow does not sort categories."""
    is_category = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_category else column


_ROW = "__raycompat_row__"


class Aggregation(abc.ABC):
    """Base class of all aggregations: a name, and functions that make, merge and finish states."""

    name: str
    #: The column that is read; None for aggregations of whole rows.
    column: str | None = None

    @abc.abstractmethod
    def states(self, table: Block, groups: Groups) -> list[pa.Array]:
        """Return the columns of the groups' states."""

    @abc.abstractmethod
    def merged(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the columns of the states of the groups that rows of states belong to."""

    @abc.abstractmethod
    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the results of groups with these states."""

    def get_agg_name(self) -> str:
        """Return the name without the column: "sum" of ``sum(price)``."""
        return self.name.partition("(")[0]

    def get_target_column(self) -> str | None:
        """Return the column that is read."""
        return self.column

    def aggregate_block(self, block: Block) -> Accumulator:
        """Return the state of a table's rows: a value, or a list of values."""
        return _state([each[0].as_py() for each in self.states(block, Groups(block, []))])

    def combine(self, current_accumulator: Accumulator, new: Accumulator) -> Accumulator:
        """Return one state for two."""
        pairs = zip(_columns(current_accumulator), _columns(new), strict=True)
        states = [pa.array(pair) for pair in pairs]
        groups = Groups(pa.table({"state": states[0]}), [])
        return _state([each[0].as_py() for each in self.merged(states, groups)])

    def finalize(self, accumulator: Accumulator) -> Any:
        """Return the result of a state."""
        return self.finished([pa.array([each]) for each in _columns(accumulator)])[0].as_py()

    def values(self, table: Block) -> pa.ChunkedArray:
        """Return the column that is read."""
        assert self.column is not None
        block.require_columns([self.column], table.column_names, self.name)
        return table[self.column]


def _state(columns: list[object]) -> Accumulator:
    return columns[0] if len(columns) == 1 else columns


def _columns(state: Accumulator) -> list[object]:
    return state if isinstance(state, list) else [state]


class ArrowAggregation(Aggregation):
    """An aggregation whose states Arrow computes: functions for blocks, and for merging."""

    first: tuple[str, ...]
    then: tuple[str, ...]
    default_name: str

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        self.column = on
        self.ignores_nulls = ignore_nulls
        self.name = alias_name or f"{self.default_name}({on or ''})"

    def options(self, function: str) -> dict[str, object]:
        """Return the options of a function of Arrow's."""
        return {"skip_nulls": self.ignores_nulls, "min_count": 1}

    def states(self, table: Block, groups: Groups) -> list[pa.Array]:
        """Return the columns of the groups' states."""
        values = without_nan(self.values(table)) if self.ignores_nulls else self.values(table)
        return [self._reduced(values, each, groups) for each in self.first]

    def merged(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the merged states."""
        return [
            self._reduced(state, each, groups)
            for state, each in zip(states, self.then, strict=True)
        ]

    def _reduced(self, column: Column, function: str, groups: Groups) -> pa.Array:
        if function == "sum" and _overflows(column, groups):
            raise OverflowError(
                f"{self.name}: a sum is too large for the type {column.type} of the column "
                f"{self.column!r}. Convert the column to float64 first: "
                f"map_batches(lambda batch: {{**batch, {self.column!r}: "
                f"batch[{self.column!r}].astype(float)}})."
            )
        try:
            return groups.reduce(column, function, **self.options(function))
        except (pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise self._not_numbers(column.type, "no such aggregation") from error

    def _not_numbers(self, kind: pa.DataType, lacks: str) -> TypeError:
        """Return the error for a column of a type that lacks what the aggregation needs."""
        return TypeError(
            f"{self.name}: the column {self.column!r} has {block.described(kind)}, which has {lacks}. "
            "Convert it to numbers of one type first, with map_batches for example."
        )

    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the state."""
        return states[0]


def _overflows(column: Column, groups: Groups) -> bool:
    """Return whether the sum of integers in a group does not fit into 64 bits."""
    if not pa.types.is_integer(column.type):
        return False
    is_signed = pa.types.is_signed_integer(column.type)
    ends = pc.min_max(column).as_py()
    if ends["max"] is None:
        return False
    if max(-ends["min"], ends["max"]) * len(column) < 2 ** (63 if is_signed else 64):
        return False
    filled = column.fill_null(0)  # in halves, whose sums fit
    upper = groups.reduce(pc.shift_right(filled, pa.scalar(32, filled.type)), "sum")
    lower = groups.reduce(pc.bit_wise_and(filled, pa.scalar(2**32 - 1, filled.type)), "sum")
    high = np.asarray(upper.fill_null(0)).astype(np.int64)
    high += (np.asarray(lower.fill_null(0)) >> 32).astype(np.int64)
    least, limit = (-(2**31), 2**31) if is_signed else (0, 2**32)
    return bool(((high < least) | (high >= limit)).any())


def without_nan(column: Column) -> Column:
    """Return a column in which NaN is missing."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


class PythonAggregation(Aggregation):
    """An aggregation whose states are Python objects, made one by one."""

    def states(self, table: Block, groups: Groups) -> list[pa.Array]:
        """Make a state of each group's rows."""
        return [tensor.pickled([self.state(table.take(pa.array(rows))) for rows in groups.rows()])]

    def merged(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Merge the states of each group, one after the other."""
        values = tensor.to_list(states[0])
        made = []
        for rows in groups.rows():
            own = [values[row] for row in rows] or [self.state(None)]
            state = own[0]
            for each in own[1:]:
                state = self.merge(state, each)
            made.append(state)
        return [tensor.pickled(made)]

    def finished(self, states: Sequence[pa.Array]) -> pa.Array:
        """Compute the results one by one."""
        return tensor.from_list([self.result(state) for state in tensor.to_list(states[0])])

    def aggregate_block(self, block: Block) -> Accumulator:
        """Return the state of a table's rows."""
        return self.state(block)

    def combine(self, current_accumulator: Accumulator, new: Accumulator) -> Accumulator:
        """Return one state for two."""
        return self.merge(current_accumulator, new)

    def finalize(self, accumulator: Accumulator) -> Any:
        """Return the result of a state."""
        return self.result(accumulator)

    @abc.abstractmethod
    def state(self, table: Block | None) -> Accumulator:
        """Return the state of rows; None: of no rows."""

    @abc.abstractmethod
    def merge(self, left: Accumulator, right: Accumulator) -> Accumulator:
        """Return one state for two."""

    @abc.abstractmethod
    def result(self, state: Accumulator) -> object:
        """Return the result of a state."""
