"""Answers from the tables of the pages, for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._scheduler.pages import tables
from raycompat._scheduler.state.query import first_rows
from raycompat._scheduler.survey import MOST_ON_PAGES

if TYPE_CHECKING:
    from raycompat._scheduler.watched_parts import WatchedParts


async def overview(parts: WatchedParts) -> dict[str, object]:
    """Return the data for ``raycompat top``: nodes, functions, actors, running calls, and bytes."""
    most = tables.MOST_ROWS
    await parts.surveys.take(MOST_ON_PAGES)  # the tables need no more than its counts
    return {
        "actors": await first_rows(tables.living_actors(parts), tables.ranked, most),
        "running": await first_rows(tables.each_running(parts), tables.by_node, most),
        "state": parts.nodes.state(),
        "functions": tables.functions(parts)[:most],
        "stores": tables.stores(parts),
    }


async def count_calls(parts: WatchedParts, name: str) -> dict[str, int]:
    """Return the numbers of calls of one function or method; nothing if there are none."""
    await parts.surveys.take(MOST_ON_PAGES)
    counts = ("waiting", "running", "done", "failed")
    return next(
        (
            {each: row[each] for each in counts}
            for row in tables.functions(parts)
            if row["name"] == name
        ),
        {},
    )
