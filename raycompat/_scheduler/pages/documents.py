"""The pages as Bokeh documents: bars of what is in use, and tables, new twice a second while shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from bokeh.layouts import column
from bokeh.models.layouts import TabPanel, Tabs
from bokeh.models.ranges import FactorRange, Range1d
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.markups import Div
from bokeh.models.widgets.tables import (
    DataTable,
    HTMLTemplateFormatter,
    NumberFormatter,
    TableColumn,
)
from bokeh.plotting import figure
from dask.utils import format_bytes

from raycompat import _dask_adapter as dask
from raycompat._scheduler.pages import tables
from raycompat._scheduler.pages.logs import Logs

if TYPE_CHECKING:
    from bokeh.document import Document
    from bokeh.models import LayoutDOM

    from raycompat._scheduler.core import Core
    from raycompat._scheduler.pages.tables import Row

#: Milliseconds between two looks at what the scheduler knows.
PERIOD_MS = 500

#: Height of a table's header and of a row, and how many rows are in view without scrolling.
_HEADER, _ROW, _MOST_IN_VIEW = 40, 25, 20

#: Colour of what is in use: Dask's own.
_COLOUR = "#ecb172"

#: A cell with text, escaped, all of which is shown when the pointer rests on it.
_TEXT = '<span title="<%- value %>"><%- value %></span>'

#: The columns of each table: field, title, width; numbers have a format.
_COLUMNS: dict[str, list[tuple[str, str, int, str | None]]] = {
    "running": [
        ("node", "Node", 130, None),
        ("kind", "Kind", 150, None),
        ("name", "Name", 200, None),
        ("resources", "Resources", 150, None),
        ("gpus", "GPUs", 60, None),
        ("caller", "Caller", 250, None),
    ],
    "actors": [
        ("class", "Class", 150, None),
        ("name", "Name", 120, None),
        ("state", "State", 90, None),
        ("node", "Node", 130, None),
        ("pid", "Process", 70, None),
        ("restarts", "Restarts", 60, None),
        ("resources", "Resources", 150, None),
        ("error", "Error", 300, None),
        ("id", "Id", 250, None),
    ],
    "functions": [
        ("name", "Function", 250, None),
        ("waiting", "Waiting", 80, "0,0"),
        ("running", "Running", 80, "0,0"),
        ("done", "Done", 80, "0,0"),
        ("failed", "Failed", 70, "0,0"),
        ("rate", "Per second", 90, "0,0.0"),
        ("median", "Median (s)", 90, "0.0000"),
        ("high", "95 % (s)", 90, "0.0000"),
        ("longest", "Longest (s)", 90, "0.0000"),
    ],
    "stores": [
        ("node", "Node", 150, None),
        ("memory", "In memory", 120, "0.00 ib"),
        ("disk", "Spilled to disk", 120, "0.00 ib"),
        ("total", "Meant for objects", 150, "0.00 ib"),
    ],
    "objects": [
        ("id", "Object", 420, None),
        ("size", "Size", 100, "0.00 ib"),
        ("state", "State", 90, None),
        ("kind", "Kept by", 200, None),
        ("holders", "Processes", 400, None),
    ],
    "waiting": [
        ("name", "First call", 180, None),
        ("count", "Calls", 60, "0,0"),
        ("request", "Asks for", 220, None),
        ("waited", "Seconds", 70, "0.0"),
        ("reason", "Why it waits", 700, None),
    ],
    "groups": [
        ("id", "Id", 280, None),
        ("name", "Name", 120, None),
        ("state", "State", 100, None),
        ("strategy", "Strategy", 120, None),
        ("bundles", "Bundles", 300, None),
        ("nodes", "Nodes", 250, None),
    ],
    "gpus": [
        ("node", "Node", 130, None),
        ("gpu", "GPU", 60, None),
        ("used", "In use", 70, "0.00"),
        ("holders", "Held by", 500, None),
    ],
}


class Table:
    """A table of rows that are read again each time."""

    def __init__(self, core: Core, name: str, read: Callable[[Core], list[Row]]) -> None:
        self._core, self._read = core, read
        self._fields = [field for field, *_ in _COLUMNS[name]]
        self.source = ColumnDataSource({field: [] for field in self._fields}, name=name)
        self._below = Div(text="", name=f"{name}-below")
        columns = [
            TableColumn(
                field=field,
                title=title,
                width=width,
                formatter=NumberFormatter(format=form)
                if form
                else HTMLTemplateFormatter(template=_TEXT),
            )
            for field, title, width, form in _COLUMNS[name]
        ]
        table = DataTable(
            source=self.source,
            columns=columns,
            index_position=None,
            sortable=True,
            reorderable=True,
            sizing_mode="stretch_width",
            height=_HEADER,
        )
        self._table = table
        self.root = column(table, self._below, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        rows = self._read(self._core)
        shown = rows[: tables.MOST_ROWS]
        data = {field: [row[field] for row in shown] for field in self._fields}
        if data != self.source.data:
            self.source.data = data
            self._table.height = _HEADER + _ROW * min(len(shown), _MOST_IN_VIEW)
        text = f"Rows: {len(rows)}" + (f", {len(shown)} shown" if len(shown) < len(rows) else "")
        if text != self._below.text:
            self._below.text = text


class Usage:
    """A bar for each resource of each node: how much of it is in use."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.source = ColumnDataSource({"label": [], "share": [], "text": []}, name="usage")
        self._labels = FactorRange(factors=[])
        self._figure = figure(
            title="In use",
            y_range=self._labels,
            x_range=Range1d(start=0, end=1),
            height=100,
            sizing_mode="stretch_width",
            tools="",
            toolbar_location=None,
        )
        self._figure.hbar(
            y="label", right="share", height=0.7, source=self.source, color=_COLOUR, line_color=None
        )
        self._figure.text(
            x=0.005, y="label", text="text", source=self.source, text_baseline="middle"
        )
        self._figure.xaxis.visible = False
        self._figure.grid.visible = False
        self.root = self._figure

    def update(self) -> None:
        """Show what is in use now."""
        rows = tables.usage(self._core)
        labels = [f"{row['node']}  {row['resource']}" for row in rows]
        data = {
            "label": labels,
            "share": [row["share"] for row in rows],
            "text": [f"{_amount(row, 'used')} of {_amount(row, 'total')}" for row in rows],
        }
        if labels != self.source.data["label"]:
            self._labels.factors = labels[::-1]
            self._figure.height = 60 + 24 * len(labels)
        if data != self.source.data:
            self.source.data = data


def _amount(row: Row, name: str) -> str:
    if row["is_bytes"]:
        return str(format_bytes(int(row[name])))
    return f"{row[name]:g}"


class Cluster:
    """The bars of all nodes, and below them what runs there."""

    def __init__(self, core: Core) -> None:
        self._usage, self._running = Usage(core), Table(core, "running", tables.running)
        self.root = column(self._usage.root, self._running.root, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        self._usage.update()
        self._running.update()


class Objects:
    """The bytes that each node stores, and below them the largest objects."""

    def __init__(self, core: Core) -> None:
        self._stores = Table(core, "stores", tables.stores)
        self._objects = Table(core, "objects", tables.objects)
        self.root = column(self._stores.root, self._objects.root, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        self._stores.update()
        self._objects.update()


#: The parts of the page: a name for addresses, the title of its tab, and what makes it.
PARTS: dict[str, tuple[str, Callable[[Core], Any]]] = {
    "cluster": ("Cluster", Cluster),
    "tasks": ("Tasks", partial(Table, name="functions", read=tables.functions)),
    "actors": ("Actors", partial(Table, name="actors", read=tables.actors)),
    "waiting": ("Why is it waiting?", partial(Table, name="waiting", read=tables.waiting)),
    "groups": ("Placement groups", partial(Table, name="groups", read=tables.groups)),
    "objects": ("Objects", Objects),
    "logs": ("Logs", Logs),
    "gpus": ("GPUs", partial(Table, name="gpus", read=tables.gpus)),
}


def _show(doc: Document, title: str, root: LayoutDOM, parts: list[Any], extra: Any) -> None:
    for part in parts:
        part.update()

    def update() -> None:
        for part in parts:
            part.update()

    doc.title = title
    doc.add_root(root)
    doc.add_periodic_callback(update, PERIOD_MS)
    dask.style_page(doc, extra)


def page(core: Core, _server: Any, extra: Any, doc: Document) -> None:
    """Make the page with all parts, a tab for each."""
    parts = [make(core) for _, make in PARTS.values()]
    panels = [
        TabPanel(child=part.root, title=title)
        for part, (title, _) in zip(parts, PARTS.values(), strict=True)
    ]
    _show(doc, "Ray", Tabs(tabs=panels, sizing_mode="stretch_width"), parts, extra)


def single(core: Core, name: str, _server: Any, extra: Any, doc: Document) -> None:
    """Make the page with one part."""
    title, make = PARTS[name]
    part = make(core)
    _show(doc, f"Ray: {title}", part.root, [part], extra)


def applications(core: Core) -> dict[str, Callable[..., None]]:
    """Return what makes each page, by its address: the page with all, and one for each part."""
    singles = {f"/individual-ray-{name}": partial(single, core, name) for name in PARTS}
    return {"/ray": partial(page, core), **singles}
