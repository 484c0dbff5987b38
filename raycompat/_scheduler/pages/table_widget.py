"""A table of a page: its columns, and its rows, which are read at each update. `table.js` draws it."""

from __future__ import annotations

import html
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bokeh.layouts import column
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.markups import Div

from raycompat._protocol.plain import Row
from raycompat._scheduler.pages import tables, words

if TYPE_CHECKING:
    from raycompat._scheduler.watched_parts import WatchedParts

#: Tables with figures of callers and nodes; the text below them names those that did not answer.
_SURVEYED = ("nodes", "functions", "calls", "actors", "keepers", "objects")

#: The columns that identify a row of a table; the chosen row is found by them after an update.
_IDENTITY: dict[str, tuple[str, ...]] = {
    "failures": ("kind", "what", "at"),
    "jobs": ("id",),
    "nodes": ("id",),
    "running": ("node", "kind", "name", "caller"),
    "actors": ("id",),
    "functions": ("name",),
    "calls": ("id", "attempt"),
    "stores": ("node",),
    "keepers": ("process",),
    "objects": ("id",),
    "waiting": ("kind", "name", "request"),
    "groups": ("id",),
    "gpus": ("node", "gpu"),
    "trials": ("experiment", "name"),
}

#: The columns of each table: field, title, width, and how its values are shown.
_COLUMNS: dict[str, list[tuple[str, str, int, str]]] = {
    "failures": [
        ("at", "At", 90, "time"),
        ("kind", "What", 120, "word"),
        ("times", "Times", 50, "0,0"),
        ("what", "Of", 250, "text"),
        ("error", "Error", 500, "text"),
        ("log", "More", 60, "link"),
        ("traceback", "The whole error", 0, "detail"),
    ],
    "jobs": [
        ("state", "State", 120, "state"),
        ("program", "Program", 300, "text"),
        ("kind", "Kind", 90, "word"),
        ("start", "Since", 90, "time"),
        ("seconds", "Took so far", 90, "seconds"),
        ("waiting", "Waiting", 80, "0,0"),
        ("holding", "Holding resources", 90, "0,0"),
        ("done", "Done", 80, "0,0"),
        ("failed", "Failed", 80, "0,0"),
        ("message", "Why it failed", 250, "text"),
        ("pid", "Process", 70, "text"),
        ("ip", "Host", 0, "detail"),
        ("metadata", "Metadata", 140, "text"),
        ("only", "Only this job", 60, "link"),
        ("log", "Log", 50, "link"),
        ("id", "Id", 120, "id"),
        ("job", "Job id", 0, "detail"),
    ],
    "nodes": [
        ("name", "Name", 180, "text"),
        ("state", "State", 100, "state"),
        ("cpu", "CPUs in use", 100, "text"),
        ("gpu", "GPUs in use", 100, "text"),
        ("processes", "Processes", 90, "0,0"),
        ("rss", "Their memory", 100, "bytes"),
        ("store", "Objects", 100, "bytes"),
        ("joined", "Since", 90, "time"),
        ("closes", "Closes by", 90, "time"),
        ("left", "Left", 90, "time"),
        ("why", "Why", 160, "text"),
        ("address", "Address", 180, "text"),
        ("pid", "Process", 70, "text"),
        ("labels", "Labels", 200, "text"),
        ("id", "Id", 120, "id"),
    ],
    "running": [
        ("node", "Node", 130, "text"),
        ("kind", "Kind", 150, "word"),
        ("name", "Name", 200, "text"),
        ("resources", "Resources", 150, "text"),
        ("gpus", "GPUs", 60, "text"),
        ("caller", "Caller", 250, "callers"),
    ],
    "actors": [
        ("class", "Class", 150, "text"),
        ("name", "Name", 120, "text"),
        ("state", "State", 120, "state"),
        ("error", "Error", 350, "text"),
        ("node", "Node", 180, "text"),
        ("pid", "Process", 70, "text"),
        ("rss", "Memory", 100, "bytes"),
        ("cpu", "CPU %", 60, "0,0"),
        ("gpu_memory", "GPU memory", 100, "bytes"),
        ("waiting", "Waiting", 70, "0,0"),
        ("running", "Running", 70, "0,0"),
        ("callers", "Unfinished calls of", 110, "callers"),
        ("done", "Done", 70, "0,0"),
        ("failed", "Failed", 60, "0,0"),
        ("rate", "Per second", 95, "0,0.0"),
        ("restarts", "Restarts", 75, "0,0"),
        ("resources", "Resources", 110, "text"),
        ("calls", "Calls", 50, "link"),
        ("log", "Log", 50, "link"),
        ("stack", "Stack", 50, "link"),
        ("profile", "Profile", 50, "link"),
        ("traceback", "The whole error", 0, "detail"),
        ("job", "Job", 0, "detail"),
        ("id", "Id", 220, "id"),
    ],
    "functions": [
        ("name", "Function", 250, "text"),
        ("waiting", "Waiting", 80, "0,0"),
        ("running", "Running", 80, "0,0"),
        ("done", "Done", 80, "0,0"),
        ("failed", "Failed", 70, "0,0"),
        ("rate", "Per second", 90, "0,0.0"),
        ("median", "Median", 90, "seconds"),
        ("high", "95 %", 90, "seconds"),
        ("longest", "Longest", 90, "seconds"),
        ("error", "Last error", 300, "text"),
        ("failed_at", "At", 90, "time"),
        ("calls", "Calls", 50, "link"),
        ("log", "Log", 50, "link"),
        ("traceback", "Its traceback", 0, "detail"),
    ],
    "calls": [
        ("name", "Function", 200, "text"),
        ("state", "State", 120, "state"),
        ("start", "Started", 90, "time"),
        ("end", "Ended", 90, "time"),
        ("seconds", "Took", 90, "seconds"),
        ("attempt", "Failed before", 60, "0,0"),
        ("error", "Error", 400, "text"),
        ("node", "Node", 130, "text"),
        ("pid", "Process", 70, "text"),
        ("log", "Log", 50, "link"),
        ("text", "The whole error", 0, "detail"),
        ("actor", "Actor id", 0, "detail"),
        ("job", "Job", 0, "detail"),
        ("id", "Task id", 160, "id"),
    ],
    "stores": [
        ("node", "Node", 150, "text"),
        ("memory", "In memory", 120, "bytes"),
        ("disk", "Spilled to disk", 120, "bytes"),
        ("total", "Meant for objects", 150, "bytes"),
    ],
    "keepers": [
        ("process", "Process", 300, "callers"),
        ("count", "Objects", 90, "0,0"),
        ("size", "Size of the 200 largest", 180, "bytes"),
    ],
    "objects": [
        ("id", "Object", 420, "id"),
        ("size", "Size", 100, "bytes"),
        ("state", "State", 110, "state"),
        ("made_by", "Made by", 180, "text"),
        ("place", "Line", 200, "text"),
        ("kind", "Kept by", 200, "text"),
        ("holders", "Referred to by", 400, "callers"),
        ("task", "Task id", 0, "detail"),
        ("places", "Lines of the program", 0, "detail"),
    ],
    "waiting": [
        ("kind", "Kind", 110, "word"),
        ("name", "Group or first call", 180, "text"),
        ("count", "Requests", 80, "0,0"),
        ("request", "Asks for", 220, "text"),
        ("waited", "Waits for", 80, "seconds"),
        ("reason", "Why it waits", 700, "text"),
    ],
    "groups": [
        ("id", "Id", 280, "id"),
        ("name", "Name", 120, "text"),
        ("state", "State", 130, "state"),
        ("strategy", "Strategy", 120, "text"),
        ("bundles", "Bundles", 300, "text"),
        ("nodes", "Nodes", 250, "text"),
    ],
    "gpus": [
        ("node", "Node", 130, "text"),
        ("gpu", "GPU", 60, "text"),
        ("used", "In use", 70, "0.00"),
        ("holders", "Held by", 260, "text"),
        ("memory", "Memory", 120, "text"),
        ("busy", "Busy", 60, "text"),
        ("temperature", "Temperature", 90, "text"),
        ("processes", "Processes", 220, "text"),
        ("strangers", "Not given to", 100, "text"),
    ],
    "trials": [
        ("name", "Trial", 220, "text"),
        ("best", "Best", 40, "text"),
        ("experiment", "Experiment", 150, "text"),
        ("state", "State", 125, "state"),
        ("step", "Step", 80, "0,0"),
        ("seconds", "Time", 80, "seconds"),
        ("score", "Figure", 110, "0,0.0000"),
        ("error", "Error", 300, "text"),
        ("parameters", "Parameters", 350, "text"),
        ("figures", "Last figures", 500, "text"),
        ("traceback", "The whole error", 0, "detail"),
    ],
}


#: The names of all tables.
TABLES = frozenset(_COLUMNS)

#: The page on which a table is alone or first, where an address can name one of its rows.
_PAGES = {
    "failures": "",  # they leave after minutes
    "running": "cluster",
    "functions": "tasks",
    "keepers": "objects",
    "stores": "objects",
    "trials": "",  # its rows depend on the chosen experiment
}

#: The field that says whether a row is that of a failure, which gets a colour.
_FAILED = "is_failed"

#: The field that says whether a program or a user has ended what the row describes.
_EXPECTED = "is_expected"

#: The field that says whether a row is that of an actor or a method of raycompat: of Train, say.
_INTERNAL = "is_internal"

#: Tables that have such rows; they are shown on demand, and where they have failed.
_WITH_INTERNAL = ("actors", "functions", "calls")

#: The forms of values that a page shows in other words than the rows have, and the addresses of links.
_NOT_AS_SHOWN = ("time", "bytes", "seconds", "link")

#: Seconds after which an update has taken long, and the time until the next one as a multiple of it.
LONG_S, PAUSES = 0.01, 20

#: Bokeh makes the content of a text as narrow as it can be.
_WIDE = ".bk-clearfix { display: block; width: 100%; }"

#: Tables that are read for one job, because their figures depend on it; of the others, its rows are
#: shown.
_READ_OF_JOB = ("functions", "failures")

#: Tables whose rows have sentences in the language of the page.
_SAID = ("waiting",)

#: The titles of tables that share a page with others.
_TITLES = {
    "failures": "What has failed in the last minutes",
    "running": "What holds resources",
    "stores": "Memory for objects on each node",
    "keepers": "Processes that refer to objects",
    "objects": "The largest objects",
}

#: What is said of a table that has no rows.
_EMPTY = {
    "failures": "Nothing has failed in the last minutes.",
    "jobs": "No program uses the cluster.",
    "nodes": "The cluster has no nodes.",
    "running": "Nothing holds resources.",
    "actors": "There are no actors.",
    "functions": "No call has been made.",
    "calls": "No call has been made.",
    "stores": "The cluster has no nodes.",
    "keepers": "No process refers to objects.",
    "objects": "No process refers to objects.",
    "waiting": "Nothing waits.",
    "groups": "There are no placement groups.",
    "gpus": "No node has a GPU.",
    "trials": "No trial has been reported.",
}

#: What is said of a table as long as no row has a value in a column.
_HINTS = {
    "objects": (
        "place",
        (
            "The lines of the program that made the objects are shown if processes start with "
            "RAY_record_ref_creation_sites=1 in their environment."
        ),
    )
}

_WORDS = {
    "search": "Search all rows",
    "links": "Links",
    "address": "Address",
    "row": "this row, for a link or a bookmark",
    "internal": "also raycompat's own",
}


class Selection(NamedTuple):
    """The rows that a table shows, and how many there are, were found, are not meant, and not known."""

    rows: list[Row]
    num_all: int
    num_found: int
    num_internal: int = 0
    num_unlisted: int = 0


class Table:
    """A table: what `read` returns, searched and sorted as the user wants; `most` rows are shown."""

    def __init__(
        self,
        parts: WatchedParts,
        name: str,
        read: Callable[..., list[Row]],
        most: int = tables.MOST_ROWS,
    ) -> None:
        self._parts, self._read, self._most = parts, read, most
        self._fields = [field for field, *_ in _COLUMNS[name]]
        self._page, self._empty = _PAGES.get(name, name), _EMPTY[name]
        self._hint = _HINTS.get(name, ("", ""))
        self._searched = [(field, form) for field, _, _, form in _COLUMNS[name]]
        empty: dict[str, list[Any]] = {field: [] for field in (*self._fields, _FAILED, _EXPECTED)}
        self.source = ColumnDataSource(empty, name=name)
        self.source.on_change("tags", lambda attr, old, new: self._changed())
        #: When an update is due, on the monotonic clock.
        self._due = 0.0
        about = {
            "table": name,
            "page": self._page,
            "identity": _IDENTITY[name],
            "failed": _FAILED,
            "expected": _EXPECTED,
            "hides": name in _WITH_INTERNAL,
            "words": _WORDS,
            "heading": _TITLES.get(name, ""),
            "columns": [
                {"field": field, "title": title, "width": width, "form": form}
                for field, title, width, form in _COLUMNS[name]
            ],
        }
        element = f'<ray-table data-about="{html.escape(json.dumps(about))}"></ray-table>'
        # The tags are a reference: without one, the source is no part of the document.
        table = Div(
            text=element,
            tags=[self.source],
            disable_math=True,
            sizing_mode="stretch_width",
            stylesheets=[_WIDE],
        )
        self._below = Div(text="", name=f"{name}-below", disable_math=True)
        self.root = column(table, self._below, sizing_mode="stretch_width")

    def _rows(self, job: str) -> list[Row]:
        """Return the rows of all jobs, or of one. Rows without a job are in both."""
        if self.source.name in _READ_OF_JOB:
            return self._read(self._parts, job)
        if self.source.name in _SAID:
            rows = self._read(self._parts, partial(words.say, self._below))
        else:
            rows = self._read(self._parts)
        if not job:
            return rows
        return [row for row in rows if job in row.get("jobs", (row.get("job", job),))]

    def select(self, wish: Mapping[str, object]) -> Selection:
        """Return the rows that are wanted."""
        every = self._rows(str(wish.get("job") or ""))
        num_meant, found = self._chosen(every, wish)
        rows = self._arrange(found, wish)[: self._most]
        return Selection(rows, num_meant, len(found), len(every) - num_meant)

    def _chosen(self, every: list[Row], wish: Mapping[str, Any]) -> tuple[int, list[Row]]:
        """Return how many rows are meant, and those among them that are wanted."""
        exact = wish.get("exact") or {}
        rows = [row for row in every if is_meant(row, wish)]
        named = [row for row in rows if has(row, exact)] if exact else rows
        return len(rows), searched(named, self._searched, str(wish.get("search") or ""))

    def _arrange(self, rows: list[Row], wish: Mapping[str, object]) -> list[Row]:
        """Return rows in the order that is wanted."""
        if (field := wish.get("sort")) not in self._fields:
            return rows
        return arranged(rows, str(field), is_descending=bool(wish.get("down")))

    def wish(self) -> Row:
        """Return what the user wants to see."""
        return next(iter(self.source.tags), {})

    def _changed(self) -> None:
        """Show what the user wants now."""
        self._due = 0.0
        self.update()

    def update(self) -> None:
        """Show what is there now. An update that has taken long is not repeated soon."""
        if (began := time.monotonic()) < self._due:
            return
        self.show(self.select(self.wish()))
        took_s = time.monotonic() - began
        if took_s > LONG_S:
            self._due = began + PAUSES * took_s

    def show(self, selection: Selection) -> None:
        """Show rows, and below them how many there are."""
        shown = selection.rows
        data = {field: [row.get(field) for row in shown] for field in self.source.data}
        if data != self.source.data:
            self.source.data = data
        text = self._counts(selection)
        column, hint = self._hint
        if hint and shown and not any(row.get(column) for row in shown):
            text += f" {words.say(self._below, hint)}"
        if self.wish().get("exact"):
            all_rows = words.say(self._below, "Show all rows")
            text += f' <a href="individual-ray-{self._page}">{all_rows}</a>.'
        if self.source.name in _SURVEYED:
            text = f"{text} {html.escape(self._parts.surveys.last.warning)}"
        if text != self._below.text:
            self._below.text = text

    def _counts(self, selection: Selection) -> str:
        """Return the sentences on how many rows there are, and how many of them are shown."""
        shown, num_all, num_found, num_internal, num_unlisted = selection
        say = partial(words.say, self._below)
        text = say("Rows: {count:,}", count=num_all) if num_all else ""
        if num_found < num_all:
            text += say(", ") + say("{count:,} found", count=num_found)
        if len(shown) < num_found:
            text += say(", ") + say("{count} shown: search to see others", count=len(shown))
        if num_all:
            text += say(". ") + (say("Click on a row to read all of it.") if shown else "")
        else:
            text = say(self._empty)
        if num_internal:
            text += " " + say("Of raycompat itself: {count:,}, not shown.", count=num_internal)
        if num_unlisted:
            text += " " + say("Not listed of the calls that wait: {count:,}.", count=num_unlisted)
        return text


def searched(rows: list[Row], columns: Sequence[tuple[str, str]], wanted: str) -> list[Row]:
    """Return the rows that contain all of some words, in any columns and in any case.

    `columns` are fields and how their values are shown. Times, bytes and durations are shown in other
    words than they have here, so they are not searched.
    """
    parts = wanted.lower().split()
    if not parts:
        return rows
    fields = [field for field, form in columns if form not in _NOT_AS_SHOWN]
    found = []
    for row in rows:
        values = (row.get(field) for field in fields)
        text = "\n".join(str(value) for value in values if not _is_missing(value)).lower()
        if all(word in text for word in parts):
            found.append(row)
    return found


def arranged(rows: list[Row], field: str, *, is_descending: bool) -> list[Row]:
    """Return rows sorted by a field; those without a value are last."""
    there = [row for row in rows if not _is_missing(row.get(field))]
    without = [row for row in rows if _is_missing(row.get(field))]

    def key(row: Row) -> tuple[bool, Any]:
        value = row[field]
        return isinstance(value, str), value.lower() if isinstance(value, str) else value

    return [*sorted(there, key=key, reverse=is_descending), *without]


def is_meant(row: Mapping[str, object], wish: Mapping[str, object]) -> bool:
    """Return whether a row is not of raycompat itself, has failed, or is wanted all the same."""
    return not row.get(_INTERNAL) or bool(
        row.get(_FAILED) or wish.get("internal") or wish.get("exact")
    )


def has(row: Row, exact: Mapping[str, str]) -> bool:
    """Return whether some fields of a row have exactly some values, which are texts of an address."""
    return all(
        str("" if row.get(field) is None else row[field]) == value for field, value in exact.items()
    )


def _is_missing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))
