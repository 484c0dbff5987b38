"""What the steps after a read use of it, so that readers can leave out columns and groups of rows.

A reader may leave them out, and need not: the steps still run, so the rows that remain are the same.
A step raises no error about a row that was left out. For example, a filter that divides by ``a`` meets
no zero in a group of rows that the next filter, ``a > 3``, leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Condition:
    """A condition of rows.

    Parameters
    ----------
    text : str
        How a plan shows it.
    columns : frozenset of str
        The columns that it is about.
    expression : pyarrow.compute.Expression
        It is true for all rows that are kept.
    """

    text: str
    columns: frozenset[str]
    expression: pc.Expression

    def excludes(self, values: Mapping[str, object]) -> bool:
        """Return whether no row with these values in its columns is kept."""
        if not self.columns or not self.columns <= values.keys():
            return False
        row = pa.table({name: [values[name]] for name in self.columns})
        try:
            return not row.filter(self.expression).num_rows
        except (pa.ArrowException, TypeError):
            return False  # the step that filters raises the error


@dataclass(frozen=True)
class Uses:
    """What is used of the rows before steps that drop some of them, and change nothing.

    Parameters
    ----------
    columns : tuple of str
        The columns that are used.
    drops_others : bool
        Whether the other columns are dropped.
    conditions : tuple of Condition
        A row is dropped unless all are true for it.
    """

    columns: tuple[str, ...] = ()
    drops_others: bool = False
    conditions: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.wanted or self.conditions)

    def __str__(self) -> str:
        parts = [f"columns={list(self.wanted)}"] if self.wanted else []
        parts += [f"rows={each.text}" for each in self.conditions]
        return ", ".join(parts)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that are enough; none: all may be used."""
        return tuple(dict.fromkeys(self.columns)) if self.drops_others else ()

    def enough(self, names: Iterable[str], folders: Iterable[str]) -> list[str] | None:
        """Return which columns of a file are enough; None: all may be used.

        Parameters
        ----------
        names : iterable of str
            The columns of the file.
        folders : iterable of str
            The columns that the file's folders give.
        """
        present = [*names]
        if not {*self.wanted} <= {*present, *folders}:
            return None  # a step raises an error, which names all columns
        return [name for name in self.wanted if name in present] or None


def membership(column: str, values: pa.Array) -> pc.Expression | None:
    """Return the expression by which readers leave out groups of rows without any of the values.

    None for values with NaN, which the least and greatest values of a group of rows do not count, and
    for booleans, which are 0.0 and 1.0 in a column of floats.
    """
    items = values.to_pylist()
    if pa.types.is_boolean(values.type) or any(item != item for item in items):
        return None
    field = pc.field(column)
    if pa.types.is_floating(values.type):
        # Rows are compared in the type of the column, and the least and greatest values are not.
        values = pa.array([*items, *_rounded([item for item in items if item is not None])])
    is_one = field.isin(values)
    if 0 in items:
        # Parquet writes a least value of 0.0 as -0.0. A membership tells the two apart, == does not.
        return is_one | (field == 0)
    return is_one


def _rounded(values: Sequence[float]) -> list[float]:
    """Return what values are in columns of shorter floats."""
    with np.errstate(over="ignore"):
        shorter = [np.array(values, dtype) for dtype in (np.float32, np.float16)]
    return [float(value) for each in shorter for value in each]


#: The use of a read whose next steps are not known.
EVERYTHING = Uses()


def uses_of(steps: Iterable[object]) -> Uses:
    """Return what the first steps after a read use, as far as these only drop rows and columns."""
    total = EVERYTHING
    for step in steps:
        uses: Uses | None = getattr(step, "uses", None)
        if uses is None or total.drops_others:
            break
        total = Uses(
            total.columns + uses.columns, uses.drops_others, total.conditions + uses.conditions
        )
    return total
