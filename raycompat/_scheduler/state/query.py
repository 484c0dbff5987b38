"""Which rows match, and which of their fields are returned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from raycompat.util.state.common import StateSchema

#: A row: a value for each field; fields that are missing are None.
Row: TypeAlias = dict[str, Any]

#: Whether rows with these fields, and others that are not known yet, may match.
MayMatch: TypeAlias = Callable[[Row], bool]


class Absent(NamedTuple):
    """Rows that a source does not give: because none of them matches, or because they are forgotten."""

    num_rows: int
    is_forgotten: bool


#: Rows as a source gives them. A text among them is a warning: something may be missing.
Rows: TypeAlias = AsyncIterator[Row | str | Absent]

#: Rows that are looked at before others have their turn in the scheduler.
_AT_ONCE = 2_000


class Query:
    """A list of rows that is asked for.

    Raises
    ------
    ValueError
        When a filter names a field that there is not, or a value that the field cannot have.
    """

    def __init__(
        self, schema: type[StateSchema], filters: Sequence[Any], limit: int, *, detail: bool
    ) -> None:
        self._key = schema.list_columns()[0]
        self._columns = schema.list_columns(detail=detail)
        self._limit = limit
        self._filters = [_checked(schema, *each) for each in filters]

    def may_match(self, known: Row) -> bool:
        """Whether rows with these fields, and any others, may match."""
        return all(
            field not in known or _matches(known[field], *rest) for field, *rest in self._filters
        )

    async def run(self, rows: Rows) -> dict[str, Any]:
        """Return what matches, ordered by id, with the numbers of all that there is."""
        found: list[Row] = []
        warnings: list[str] = []
        num_rows = num_dropped = looked_at = 0
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
            looked_at += 1
            if looked_at % _AT_ONCE == 0:
                await asyncio.sleep(0)
        found.sort(key=lambda row: str(row[self._key] or ""))
        return {
            "result": [
                {name: row.get(name) for name in self._columns} for row in found[: self._limit]
            ],
            "total": num_rows + num_dropped,
            "num_after_truncation": num_rows,
            "num_filtered": len(found),
            "warnings": warnings,
        }


def _checked(
    schema: type[StateSchema], field: str, predicate: str, value: Any
) -> tuple[str, bool, Any]:
    """Return a filter: the field, whether it must be equal, and the value."""
    name, known = field.lower(), schema.filterable_columns()
    if name not in known:
        raise ValueError(
            f"The filter column {field!r} is not supported for {schema.__name__}. Supported filter "
            f"columns: {', '.join(sorted(known))}."
        )
    return name, predicate == "=", value


def _matches(found: Any, is_wanted: bool, value: Any) -> bool:
    """Whether a field has a value; texts are equal whatever their case, as in Ray."""
    if isinstance(value, str) and isinstance(found, str):
        return (found.lower() == value.lower()) is is_wanted
    if isinstance(value, str) and found is not None:
        return (_read_as(type(found), value) == found) is is_wanted
    return (found == value) is is_wanted


def _read_as(kind: type, value: str) -> Any:
    """Return what a text says as a boolean or number; the text itself if it says none."""
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    try:
        return kind(value)
    except (TypeError, ValueError):
        return value
