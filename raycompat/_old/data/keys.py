"""The column of a function's values, by which `_old_forms.data.keys` sorts and groups rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from raycompat._old_forms.data import plain_rows
from raycompat.data import block, tensor
from raycompat.data.block import Block
from raycompat.data.plan import Map
from raycompat.data.transform import TableStep, UserFunction


def with_key(dataset: Any, function: Callable[[Any], Any]) -> Any:
    """Return the data set with the values of a function in a column before the others."""
    step = TableStep(_keyed, (UserFunction(function),))
    return dataset._derived(Map(dataset._plan, "Key", (step,)))


def _keyed(table: Block, function: UserFunction) -> Block:
    values = tensor.from_list([function.function(row) for row in block.rows(table)])
    return pa.table([values, *table.columns], names=[plain_rows.KEY, *table.column_names])
