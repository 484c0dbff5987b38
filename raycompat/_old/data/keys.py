"""The column of a function's values, by which `_old_forms.data.keys` sorts and groups rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from raycompat._old_forms.data import plain_rows
from raycompat.data import block, tensor
from raycompat.data.block import Block
from raycompat.data.grouped_data import GroupedData
from raycompat.data.plan import Map
from raycompat.data.transform import TableStep, UserFunction


def with_key(dataset: Any, function: Callable[[Any], Any]) -> Any:
    """Return the data set with the values of a function in a column before the others."""
    return _with_column(dataset, function, plain_rows.KEY)


def with_value(data: Any, function: Callable[[Any], Any]) -> Any:
    """Return a data set, or its groups, with the values of a function of rows in a column."""
    if not isinstance(data, GroupedData):
        return _with_column(data, function, plain_rows.VALUE)
    rows = _with_column(data._dataset, function, plain_rows.VALUE)
    return GroupedData(rows, data._keys, data._num_partitions)


def _with_column(dataset: Any, function: Callable[[Any], Any], name: str) -> Any:
    step = TableStep(_keyed, (UserFunction(function), name))
    return dataset._derived(Map(dataset._plan, "Key", (step,)))


def _keyed(table: Block, function: UserFunction, name: str) -> Block:
    own = [each for each in table.column_names if each != plain_rows.KEY]
    values = tensor.from_list([function.function(row) for row in block.rows(table.select(own))])
    return pa.table([values, *table.columns], names=[name, *table.column_names])
