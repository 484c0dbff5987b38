"""``raycompat top``: nodes, functions and actors of a cluster in a terminal, again and again."""

from __future__ import annotations

import bisect
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from raycompat._cli.status import described_nodes, node_name
from raycompat._cli.tables import size
from raycompat._messages.watching import Overview

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from raycompat.util.state.client import StateApiClient

#: Rows of each table at most.
_MOST_ROWS = 15

#: Resources that are bytes, and those that come first.
_BYTES = ("memory", "object_store_memory")
_MAIN = ("CPU", "GPU", "memory")

#: Characters for the name of a node, and for the use of one resource.
_NODE_CHARS, _USE_CHARS = 20, 20

#: Characters that the first column has in any window.
_NAME_CHARS = 12

#: Columns where there is no window: more than any row needs.
_WIDE = 10_000

#: Seconds for the scheduler's answer.
_TIMEOUT_S = 30


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False
    #: The narrowest window, in characters, that shows it.
    from_width: int = 0
    #: Whether its text stays on one line; the text of other columns may be wrapped.
    keeps_words: bool = False


def show(
    client: StateApiClient, *, interval_s: float, num_frames: int | None, with_internal: bool
) -> None:
    """Show the cluster until an interrupt, or for a number of updates."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ModuleNotFoundError:
        raise click.ClickException(
            "`raycompat top` needs the package rich: pip install 'raycompat[watch]'"
        ) from None
    console = Console(width=_width() or _WIDE)
    with client.connected():
        if num_frames == 1:  # as on paper: a window can be scrolled
            console.print(_frame(_asked(client, with_internal)))
            return
        with Live(console=console, auto_refresh=False) as live:
            live.update(_fitting(_asked(client, with_internal), console), refresh=True)
            shown = 1
            while num_frames is None or shown < num_frames:
                time.sleep(interval_s)
                live.update(_fitting(_asked(client, with_internal), console), refresh=True)
                shown += 1


def overview(client: StateApiClient, *, with_internal: bool) -> dict[str, Any]:
    """Return what is shown, for programs."""
    found = _asked(client, with_internal)
    return {
        "nodes": described_nodes(found["state"]),
        "functions": found["functions"],
        "actors": found["actors"],
        "num_internal": found["num_internal"],
    }


def _asked(client: StateApiClient, with_internal: bool) -> dict[str, Any]:
    """Return what the scheduler knows; without rows of raycompat itself that have not failed.

    ``num_internal`` says how many rows of each table were left out.
    """
    found: dict[str, Any] = client.ask(Overview(), _TIMEOUT_S)
    found["num_internal"] = {}
    for what in ("functions", "actors"):
        rows = found[what]
        found[what] = [
            row for row in rows if with_internal or row["is_failed"] or not row["is_internal"]
        ]
        found["num_internal"][what] = len(rows) - len(found[what])
    return found


def _fitting(found: Mapping[str, Any], console: Console) -> Group:
    """Return the tables with as many rows as the window has room for, at least one of each."""
    if not console.is_terminal:
        return _frame(found)

    def is_too_high(most: int) -> bool:
        return len(console.render_lines(_frame(found, most))) >= console.height

    most = bisect.bisect_left(range(1, _MOST_ROWS + 1), x=True, key=is_too_high)
    return _frame(found, max(1, most))


def _frame(found: Mapping[str, Any], most: int = _MOST_ROWS) -> Group:
    from rich.console import Group

    tables = [
        _nodes(found["state"], most),
        _functions(found["functions"], most),
        _actors(found["actors"], most),
    ]
    left_out = found["num_internal"]
    if any(left_out.values()):
        return Group(
            *tables,
            f"Of raycompat itself, not shown: functions: {left_out['functions']:,}, actors: "
            f"{left_out['actors']:,}. Show them with --internal.",
        )
    return Group(*tables)


def _width() -> int | None:
    """Return the columns of the window; None where the output goes to a file or a program."""
    is_window = sys.stdout.isatty() or "COLUMNS" in os.environ
    return get_terminal_size().columns if is_window else None


def _table(
    title: str, columns: Sequence[Column], rows: Iterable[Mapping[str, str]], most: int
) -> Table:
    """Return a table of `most` rows, with the columns for which the window is wide enough."""
    from rich import box
    from rich.table import Table

    width = _width()
    shown = [each for each in columns if width is None or width >= each.from_width]
    rows = list(rows)
    if len(rows) > most:
        title = f"{title} (the first {most})"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, expand=width is not None)
    for at, each in enumerate(shown):
        table.add_column(
            each.title,
            justify="right" if each.is_number else "left",
            min_width=_NAME_CHARS if at == 0 else None,
            no_wrap=each.is_number or each.keeps_words,
            overflow="fold",
        )
    for row in rows[:most]:
        table.add_row(*(row[each.title] for each in shown))
    return table


def _nodes(state: Mapping[str, Any], most: int = _MOST_ROWS) -> Table:
    names = [name for name in sorted(state["total"]) if not name.startswith("node:")]
    names.sort(key=lambda name: name not in _MAIN)
    columns = [
        Column("NODE"),
        *(Column(name, True, _NODE_CHARS + (1 + at) * _USE_CHARS) for at, name in enumerate(names)),
    ]

    def row(node: Mapping[str, Any]) -> dict[str, str]:
        total, free = node["resources"], node["available"]
        cells = {name: _share(name, total.get(name), free.get(name, 0)) for name in names}
        return {"NODE": f"{node_name(node)} ({node['hostname']})", **cells}

    return _table("Nodes", columns, map(row, state["nodes"]), most)


def _share(name: str, total: float | None, free: float) -> str:
    if total is None:
        return ""
    used = total - free
    if name in _BYTES:
        return f"{size(used)} / {size(total)}"
    return f"{used:g} / {total:g}"


def _functions(rows: list[Mapping[str, Any]], most: int = _MOST_ROWS) -> Table:
    columns = [
        Column("FUNCTION"),
        *(Column(title, True) for title in ("WAITING", "RUNNING", "DONE", "FAILED")),
        Column("PER SECOND", True, 92),
        Column("MEDIAN", True, 66),
        Column("95 %", True, 104),
        Column("LONGEST", True, 72),
    ]

    def row(found: Mapping[str, Any]) -> dict[str, str]:
        counts = ("waiting", "running", "done", "failed")
        return {
            "FUNCTION": found["name"],
            **{name.upper(): f"{found[name]:,}" for name in counts},
            "PER SECOND": f"{found['rate']:,.1f}",
            "MEDIAN": duration(found["median"]),
            "95 %": duration(found["high"]),
            "LONGEST": duration(found["longest"]),
        }

    return _table("Functions", columns, map(row, rows), most)


def duration(seconds: float | None) -> str:
    """Return a duration with its unit; nothing for one that is not known."""
    if seconds is None:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _actors(rows: list[Mapping[str, Any]], most: int = _MOST_ROWS) -> Table:
    columns = [
        Column("ACTOR"),
        Column("STATE", keeps_words=True),
        Column("NODE", from_width=110),
        Column("PROCESS", True),
        Column("MEMORY", True),
        Column("CPU %", True, 92),
        Column("WAITING", True, 92),
        Column("DONE", True, 92),
        Column("RESTARTS", True, 100),
        Column("ERROR"),
    ]

    def row(found: Mapping[str, Any]) -> dict[str, str]:
        cells = {each.title: str(found.get(each.title.lower(), "")) for each in columns}
        rss, cpu = found["rss"], found["cpu"]
        return {
            **cells,
            "ACTOR": f"{found['class']} ({found['name']})" if found["name"] else found["class"],
            "PROCESS": str(found["pid"]),
            "MEMORY": size(rss) if rss is not None else "",
            "CPU %": f"{cpu:.0f}" if cpu is not None else "",
        }

    return _table("Actors", columns, map(row, rows), most)
