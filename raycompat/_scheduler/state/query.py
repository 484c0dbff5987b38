"""Queries: the rows that match, and the fields that are returned."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from raycompat._messages.state import StateSchema
from raycompat._protocol.plain import Row

#: Returns whether rows with these fields, and unknown others, may match.
MayMatch: TypeAlias = Callable[[Row], bool]


class Absent(NamedTuple):
    """The number of rows that a source omits: none of them matches, or they were dropped."""

    num_rows: int
    is_forgotten: bool


#: Rows from a source. A string among them is a warning that rows may be missing.
Rows: TypeAlias = AsyncIterator[Row | str | Absent]

#: Rows that are checked before the scheduler's event loop gets a turn: a few milliseconds.
_AT_ONCE = 500


class Query:
    """A request for a list of rows.

    Raises
    ------
    ValueError
        When a filter names an unknown field, or a value that the field cannot have.
    """

    def __init__(
        self,
        schema: type[StateSchema],
        filters: Sequence[Any],
        limit: int,
        *,
        detail: bool,
        key: str | None = None,
        keeps_last: bool = False,
    ) -> None:
        """`keeps_last`: of too many rows the last ones are kept, not the first ones."""
        self._keeps_last = keeps_last
        self._key = key or schema.list_columns()[0]
        self._columns = schema.list_columns(detail=detail)
        self._limit = limit
        self._filters = [_checked(schema, *each) for each in filters]

    def may_match(self, known: Row) -> bool:
        """Return whether rows with these fields, and any others, may match."""
        return all(
            field not in known or _matches(known[field], *rest) for field, *rest in self._filters
        )

    async def run(self, rows: Rows) -> Row:
        """Return the matching rows, ordered by id, with the total numbers."""
        found: list[Row] = []
        warnings: list[str] = []
        num_rows = num_found = num_dropped = looked_at = 0
        async for row in rows:
            if isinstance(row, str):
                warnings.append(row)
            elif isinstance(row, Absent):
                num_dropped += row.num_rows if row.is_forgotten else 0
                num_rows += 0 if row.is_forgotten else row.num_rows
            else:
                num_rows += 1
                if all(_matches(row.get(field), *rest) for field, *rest in self._filters):
                    found.append(row)
                    num_found += 1
            if len(found) >= 2 * self._limit + _AT_ONCE:
                self._shorten(found)
            looked_at += 1
            if looked_at % _AT_ONCE == 0:
                await asyncio.sleep(0)
        self._shorten(found)
        return {
            "result": [{name: row.get(name) for name in self._columns} for row in found],
            "total": num_rows + num_dropped,
            "num_after_truncation": num_rows,
            "num_filtered": num_found,
            "warnings": warnings,
        }

    def _shorten(self, found: list[Row]) -> None:
        """Keep the first rows by id, or the last ones, up to the limit."""
        found.sort(key=lambda row: str(row[self._key] or ""))
        if self._keeps_last:
            del found[: max(0, len(found) - self._limit)]
        else:
            del found[self._limit :]


async def first_rows(
    rows: Iterable[Row], arrange: Callable[[list[Row]], list[Row]], most: int
) -> list[Row]:
    """Return the first `most` rows in the order that `arrange` makes, in slices as in a `Query`."""
    first: list[Row] = []
    every = iter(rows)
    while few := list(itertools.islice(every, _AT_ONCE)):
        first = arrange([*first, *few])[:most]
        await asyncio.sleep(0)
    return first


def _checked(
    schema: type[StateSchema], field: str, predicate: str, value: object
) -> tuple[str, bool, Any]:
    """Return a filter: the field, whether it must be equal, and the value."""
    name, known = field.lower(), schema.filterable_columns()
    if name not in known:
        raise ValueError(
            f"The filter column {field!r} is not supported for {schema.__name__}. Supported filter "
            f"columns: {', '.join(sorted(known))}."
        )
    return name, predicate == "=", value


def _matches(found: object, is_wanted: bool, value: object) -> bool:
    """Return whether a field has a value; strings are compared without case, as in Ray."""
    if isinstance(value, str) and isinstance(found, str):
        return (found.lower() == value.lower()) is is_wanted
    if isinstance(value, str) and found is not None:
        return (_read_as(type(found), value) == found) is is_wanted
    return (found == value) is is_wanted


def _read_as(kind: type, value: str) -> object:
    """Return the boolean or number that a string contains; otherwise the string itself."""
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    try:
        return kind(value)
    except (TypeError, ValueError):
        return value
