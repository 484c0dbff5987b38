"""``raycompat top``: nodes, functions and actors of a cluster in a terminal, again and again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raycompat._cli.tables import size
from raycompat._protocol.operations import Request

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from raycompat.util.state.client import StateApiClient

#: Rows of each table.
_MOST_ROWS = 15

#: Resources that are bytes.
_BYTES = ("memory", "object_store_memory")


def show(client: StateApiClient, *, interval_s: float, num_frames: int | None) -> None:
    """Show the cluster until an interrupt, or for a number of updates."""
    try:
        from rich.live import Live
    except ModuleNotFoundError:
        raise click.ClickException(
            "`raycompat top` needs the package rich: pip install 'raycompat[watch]'"
        ) from None
    with client.connected(), Live(_frame(client), auto_refresh=False) as live:
        shown = 1
        while num_frames is None or shown < num_frames:
            time.sleep(interval_s)
            live.update(_frame(client), refresh=True)
            shown += 1


def _frame(client: StateApiClient) -> Group:
    from rich.console import Group

    found = client.ask(Request.OVERVIEW, 30)
    return Group(_nodes(found["state"]), _functions(found["functions"]), _actors(found["actors"]))


def _table(title: str, *columns: tuple[str, bool]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, expand=True)
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    return table


def _nodes(state: Mapping[str, Any]) -> Table:
    resources = [name for name in sorted(state["total"]) if not name.startswith("node:")]
    table = _table("Nodes", ("NODE", False), *((name, True) for name in resources))
    for node in state["nodes"][:_MOST_ROWS]:
        total, free = node["resources"], node["available"]
        used = {name: total[name] - free.get(name, 0) for name in total}
        cells = [
            _share(name, used[name], total[name]) if name in total else "" for name in resources
        ]
        table.add_row(f"{node['ip']} ({node['hostname']})", *cells)
    return table


def _share(name: str, used: float, total: float) -> str:
    if name in _BYTES:
        return f"{size(used)} / {size(total)}"
    return f"{used:g} / {total:g}"


def _functions(rows: list[Mapping[str, Any]]) -> Table:
    names = ("WAITING", "RUNNING", "DONE", "FAILED", "PER SECOND", "MEDIAN", "95 %", "LONGEST")
    table = _table("Functions", ("FUNCTION", False), *((name, True) for name in names))
    for row in rows[:_MOST_ROWS]:
        counts = [f"{row[name]:,}" for name in ("waiting", "running", "done", "failed")]
        times = [duration(row[name]) for name in ("median", "high", "longest")]
        table.add_row(row["name"], *counts, f"{row['rate']:,.1f}", *times)
    return table


def duration(seconds: float | None) -> str:
    """Return a duration with its unit; nothing for one that is not known."""
    if seconds is None:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _actors(rows: list[Mapping[str, Any]]) -> Table:
    texts, numbers = ("class", "name", "state", "node"), ("pid", "waiting", "done", "restarts")
    titles = ("PROCESS", "WAITING", "DONE", "RESTARTS")
    columns = [*((name.upper(), False) for name in texts), *((title, True) for title in titles)]
    table = _table("Actors", *columns, ("ERROR", False))
    for row in rows[:_MOST_ROWS]:
        table.add_row(*(str(row[name]) for name in (*texts, *numbers)), row["error"])
    return table
