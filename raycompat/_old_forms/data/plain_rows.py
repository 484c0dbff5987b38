"""Rows that are plain values, as in Ray 1.5 to 2.4: ``ray.data.range(10).map(lambda x: x * 2)``.

A block is a table in any case. Values that are not dictionaries are in a column of their own, and rows
and batches of such a table are the values. This holds only for a program that was written for a Ray
that had it: without a chosen version, a row is a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from raycompat._surface import era, table

#: The column of plain values, and those of the results of a function: one that sorts or groups rows,
#: and one whose values are added up.
COLUMN, KEY, VALUE = "__value__", "__key__", "__on__"

#: The name of the column of plain values in a DataFrame or a table that the program gets.
SHOWN = "value"

#: The words of the row in `raycompat._surface`.
_USE = "ray.data rows that are plain values"


def are_chosen() -> bool:
    """Return whether the program was written for a Ray whose rows could be plain values."""
    row = table.use(_USE)
    return row is not None and era.is_within(row.last)


def column(today: str) -> str:
    """Return the column of values that are not dictionaries; `today` is that of Ray 2.60."""
    return COLUMN if are_chosen() else today


def column_of_text() -> str:
    """Return the column of lines of text; only in Ray 1 they were rows themselves."""
    return COLUMN if are_chosen() and era.is_within("1.13") else "text"


def is_plain(names: Sequence[str]) -> bool:
    """Return whether rows with these columns are plain values."""
    return list(names) == [COLUMN] and are_chosen()


def rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Iterator[Any] | None:
    """Return the rows of columns, values or tuples of them; None where they are dictionaries."""
    if not names or names[0] not in (COLUMN, KEY) or not are_chosen():
        return None
    if len(names) == 1:
        return iter(columns[0])
    if names[0] == KEY or all(name.startswith(COLUMN) for name in names):  # of groupby, and of zip
        return zip(*columns, strict=True)
    return None


def row(value: Any) -> Mapping[str, Any]:
    """Return a row of a table for what a function of rows has returned."""
    return value if isinstance(value, Mapping) else {COLUMN: value}


def batch(value: Any) -> Any:
    """Return a batch of today for what a function of batches has returned."""
    if not are_chosen():
        return value
    if isinstance(value, np.ndarray):
        return {COLUMN: value}
    if isinstance(value, list):
        found = [row(each) for each in value]
        names = dict.fromkeys(name for each in found for name in each)
        return {name: [each.get(name) for each in found] for name in names}
    return value


def in_format(block: pa.Table, batch_format: str | None, formats: Any) -> Any:
    """Return a block as a batch of its time; `formats` has the conversions of today."""
    if not is_plain(block.column_names):
        return formats.to_pandas() if batch_format in ("default", "native") else None
    if batch_format == "numpy":
        return formats.to_numpy(COLUMN)
    if batch_format in ("default", "native"):
        is_array = isinstance(block.schema.field(0).type, pa.BaseExtensionType)
        values = formats.to_numpy(COLUMN)
        return values if is_array else values.tolist()
    return None


def unwrapped(found: Any) -> Any:
    """Return a batch of tensors of its time: without a dictionary if it has plain values alone."""
    return found[COLUMN] if isinstance(found, dict) and is_plain(list(found)) else found


def shown(block: pa.Table) -> pa.Table:
    """Return a block with the names of columns that a program may see."""
    return block.rename_columns([SHOWN]) if is_plain(block.column_names) else block
