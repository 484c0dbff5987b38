"""A table of a page: its rows, which are read at each update, and below them the chosen row in full."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bokeh.layouts import column
from bokeh.models.callbacks import CustomJS
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.markups import Div
from bokeh.models.widgets.tables import (
    DataTable,
    HTMLTemplateFormatter,
    NumberFormatter,
    TableColumn,
)

from raycompat._scheduler.pages import tables

if TYPE_CHECKING:
    from raycompat._scheduler.pages.tables import Row
    from raycompat._scheduler.parts import Parts

#: Height of a table's header and of a row, and how many rows are in view without scrolling.
_HEADER, _ROW, _MOST_IN_VIEW = 40, 25, 20

#: The share of their widths that columns keep in a narrow window, where the page scrolls sideways.
_LEAST_WIDTH = 0.7

#: Tables with figures of callers and nodes; the text below them names those that did not answer.
_SURVEYED = ("functions", "actors", "keepers", "objects")

#: A cell with bytes.
_BYTES = """<%
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let amount = Math.max(0, value), unit = 0;
  while (amount >= 1024 && unit < 4) { amount /= 1024; unit += 1; }
%><%- value === null || value < 0 ? "" : amount.toFixed(unit ? 1 : 0) + " " + units[unit] %>"""

#: A cell with seconds.
_SECONDS = """<%
  const [factor, unit] = value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  const number = factor * value;
%><%- value === null ? "" : number.toFixed(number < 10 ? 1 : 0) + " " + unit %>"""

#: Units of seconds, with the factors by which seconds are multiplied.
_SECOND_UNITS = ((1, "s"), (1e3, "ms"), (1e6, "µs"))

#: Bokeh 3.9 draws a table again only if the number of its rows has changed.
_DRAW_AGAIN_JS = "table.view.change.emit()"

#: A cell with escaped text; the whole text is shown when the pointer rests on it.
_TEXT = '<span title="<%- value %>"><%- value %></span>'

#: A cell with a state: a mark of a colour and a shape, and the word. The colours are those of Okabe and
#: Ito, which also people who do not see all colours tell apart, on light and dark pages.
_STATE = """<%
  const failed = ["\\u25a0", "#d55e00"], waits = ["\\u25b2", "#e69f00"], good = ["\\u25cf", "#009e73"];
  const marks = {
    DEAD: failed, ERROR: failed, FAILED: failed, LOST: failed, RESTARTING: failed,
    PENDING: waits, PENDING_CREATION: waits, RESERVED: waits, RESCHEDULING: waits, PAUSED: waits,
    ALIVE: good, CREATED: good, RUNNING: good, FINISHED: good, TERMINATED: good,
  };
  const [mark, color] = marks[String(value).toUpperCase()] || ["", "inherit"];
%><span style="color: <%- color %>"><%- mark %></span> <span title="<%- value %>"><%- value %></span>"""

#: The columns that identify a row of a table; the chosen row is found by them after an update.
_IDENTITY: dict[str, tuple[str, ...]] = {
    "running": ("node", "kind", "name", "caller"),
    "actors": ("id",),
    "functions": ("name",),
    "stores": ("node",),
    "keepers": ("process",),
    "objects": ("id",),
    "waiting": ("name", "request"),
    "groups": ("id",),
    "gpus": ("node", "gpu"),
    "trials": ("name",),
}

#: How a cell shows its value; numbers without a template have a format.
_TEMPLATES = {"text": _TEXT, "state": _STATE, "bytes": _BYTES, "seconds": _SECONDS}

#: The columns of each table: field, title, width, and how its values are shown.
_COLUMNS: dict[str, list[tuple[str, str, int, str]]] = {
    "running": [
        ("node", "Node", 130, "text"),
        ("kind", "Kind", 150, "text"),
        ("name", "Name", 200, "text"),
        ("resources", "Resources", 150, "text"),
        ("gpus", "GPUs", 60, "text"),
        ("caller", "Caller", 250, "text"),
    ],
    "actors": [
        ("class", "Class", 150, "text"),
        ("name", "Name", 120, "text"),
        ("state", "State", 120, "state"),
        ("node", "Node", 130, "text"),
        ("pid", "Process", 70, "text"),
        ("rss", "Memory", 100, "bytes"),
        ("cpu", "CPU %", 60, "0,0"),
        ("waiting", "Waiting", 70, "0,0"),
        ("running", "Running", 70, "0,0"),
        ("done", "Done", 70, "0,0"),
        ("failed", "Failed", 60, "0,0"),
        ("rate", "Per second", 95, "0,0.0"),
        ("restarts", "Restarts", 75, "0,0"),
        ("resources", "Resources", 110, "text"),
        ("error", "Error", 300, "text"),
        ("id", "Id", 220, "text"),
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
    ],
    "stores": [
        ("node", "Node", 150, "text"),
        ("memory", "In memory", 120, "bytes"),
        ("disk", "Spilled to disk", 120, "bytes"),
        ("total", "Meant for objects", 150, "bytes"),
    ],
    "keepers": [
        ("process", "Process that refers to objects", 300, "text"),
        ("count", "Objects", 90, "0,0"),
        ("size", "Size of the 200 largest", 180, "bytes"),
    ],
    "objects": [
        ("id", "Object", 420, "text"),
        ("size", "Size", 100, "bytes"),
        ("state", "State", 110, "state"),
        ("kind", "Kept by", 200, "text"),
        ("holders", "Processes", 400, "text"),
    ],
    "waiting": [
        ("name", "First call", 180, "text"),
        ("count", "Calls", 60, "0,0"),
        ("request", "Asks for", 220, "text"),
        ("waited", "Seconds", 70, "0.0"),
        ("reason", "Why it waits", 700, "text"),
    ],
    "groups": [
        ("id", "Id", 280, "text"),
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
        ("state", "State", 125, "state"),
        ("step", "Step", 80, "0,0"),
        ("seconds", "Time", 80, "seconds"),
        ("score", "Figure", 110, "0,0.0000"),
        ("parameters", "Parameters", 350, "text"),
        ("figures", "Last figures", 500, "text"),
    ],
}


class Table:
    """A table. `count` returns the number of all rows, if `read` does not return all.

    `link` returns HTML that stands below the chosen row.
    """

    def __init__(
        self,
        parts: Parts,
        name: str,
        read: Callable[[Parts], list[Row]],
        count: Callable[[], int] | None = None,
        link: Callable[[Row], str] | None = None,
    ) -> None:
        self._parts, self._read, self._count, self._link = parts, read, count, link
        self._titles = {field: title for field, title, *_ in _COLUMNS[name]}
        self._forms = {field: form for field, _, _, form in _COLUMNS[name]}
        empty: dict[str, list[Any]] = {field: [] for field in self._titles}
        self.source = ColumnDataSource(empty, name=name)
        self.source.selected.on_change("indices", lambda attr, old, new: self._show_chosen())
        self._below = Div(text="", name=f"{name}-below")
        self._chosen = Div(text="", name=f"{name}-chosen", sizing_mode="stretch_width")
        columns = [
            TableColumn(field=field, title=title, width=width, formatter=_formatter(form))
            for field, title, width, form in _COLUMNS[name]
        ]
        table = DataTable(
            source=self.source,
            columns=columns,
            index_position=None,
            sortable=True,
            reorderable=False,  # it would need jQuery UI
            sizing_mode="stretch_width",
            min_width=int(_LEAST_WIDTH * sum(width for _, _, width, _ in _COLUMNS[name])),
            height=_HEADER,
        )
        self.source.js_on_change("data", CustomJS(args={"table": table}, code=_DRAW_AGAIN_JS))
        self._table = table
        self.root = column(table, self._below, self._chosen, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        rows = self._read(self._parts)
        shown = rows[: tables.MOST_ROWS]
        data = {field: [row[field] for row in shown] for field in self._titles}
        if data != self.source.data:
            self._replace(data)
            self._table.height = _HEADER + _ROW * min(len(shown), _MOST_IN_VIEW)
            self._show_chosen()
        total = len(rows) if self._count is None else self._count()
        text = f"Rows: {total}" + (f", {len(shown)} shown" if len(shown) < total else "")
        text += ". Click on a row to read all of it." if rows else ""
        if self.source.name in _SURVEYED:
            text = f"{text} {html.escape(self._parts.surveys.last.warning)}"
        if text != self._below.text:
            self._below.text = text

    def _replace(self, data: dict[str, list[Any]]) -> None:
        """Show other rows. The row that was chosen stays chosen, wherever it is now."""
        identity = _IDENTITY[str(self.source.name)]
        before = list(zip(*(self.source.data[field] for field in identity), strict=True))
        after = list(zip(*(data[field] for field in identity), strict=True))
        chosen = [
            before[index] for index in self.source.selected.indices[:1] if index < len(before)
        ]
        indices = [after.index(row) for row in chosen if row in after]
        # The browser refuses the index of a row that is not there, or is not there yet.
        if len(after) < len(before):
            self.source.selected.indices = indices
        self.source.data = data
        self.source.selected.indices = indices

    def _show_chosen(self) -> None:
        lines = []
        for index in self.source.selected.indices[:1]:
            if index < len(self.source.data[next(iter(self._titles))]):
                row = {field: self.source.data[field][index] for field in self._titles}
                lines = [
                    f"<b>{title}</b>: {html.escape(_as_text(row[field], self._forms[field]))}"
                    for field, title in self._titles.items()
                ]
                lines += [self._link(row)] if self._link is not None else []
        text = "<br>".join(lines)
        if text != self._chosen.text:
            self._chosen.text = text


def _as_text(value: Any, form: str) -> str:
    """Return a value as its cell shows it, but whole."""
    if value is None:
        return ""
    if form == "seconds":
        factor, unit = next((f, u) for f, u in _SECOND_UNITS if value * f >= 1 or u == "µs")
        return f"{factor * value:.3g} {unit}" if factor > 1 else f"{value:,.1f} s"
    if form == "bytes":
        return f"{value:,} B" if value >= 0 else ""
    if form.startswith("0"):
        return f"{value:,.{len(form.partition('.')[2])}f}"
    return str(value)


def _formatter(form: str) -> NumberFormatter | HTMLTemplateFormatter:
    template = _TEMPLATES.get(form)
    if template is not None:
        return HTMLTemplateFormatter(template=template)
    return NumberFormatter(format=form, null_format="")
