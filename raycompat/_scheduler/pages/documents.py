"""The pages as Bokeh documents, updated twice a second while they are shown."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bokeh.layouts import column
from bokeh.models.layouts import TabPanel, Tabs
from bokeh.models.ranges import FactorRange, Range1d
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.markups import Div
from bokeh.plotting import figure
from dask.utils import format_bytes

from raycompat._dask import pages as adapter
from raycompat._protocol.plain import Row
from raycompat._scheduler.pages import tables, words
from raycompat._scheduler.pages.calls import Calls
from raycompat._scheduler.pages.experiments import Experiments
from raycompat._scheduler.pages.logs import Logs
from raycompat._scheduler.pages.overview import LastHour, Summary
from raycompat._scheduler.pages.sliced_table import Actors
from raycompat._scheduler.pages.table_widget import TABLES, Table
from raycompat._scheduler.pages.timeline import Timeline

if TYPE_CHECKING:
    from bokeh.document import Document
    from bokeh.models import LayoutDOM

    from raycompat._scheduler.watched_parts import WatchedParts

#: The element that draws tables, in the browser.
_SCRIPT = Path(__file__).with_name("table.js")

#: Milliseconds between two updates of a page.
PERIOD_MS = 500

#: Dask's colour, for resources in use.
_COLOUR = "#ecb172"


class Usage:
    """A bar for each resource of each node: how much of it is in use."""

    def __init__(self, parts: WatchedParts) -> None:
        self._parts = parts
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
            x=0.005,
            y="label",
            text="text",
            source=self.source,
            text_baseline="middle",
            x_offset=4,
            text_font_size="13px",
        )
        self._figure.xaxis.visible = False
        self._figure.grid.visible = False
        self.root = self._figure

    def update(self) -> None:
        """Show the resources in use now."""
        rows = tables.usage(self._parts)
        name = partial(words.word, self._figure)
        nodes = {row["node"] for row in rows}
        labels = [
            f"{row['node'] if len(nodes) > 1 else ''}  {name(row['resource'])}".strip()
            for row in rows
        ]
        data = {
            "label": labels,
            "share": [row["share"] for row in rows],
            "text": [
                words.say(
                    self._figure,
                    "{used} of {total}",
                    used=_amount(row, "used"),
                    total=_amount(row, "total"),
                )
                for row in rows
            ],
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
    """Whether the cluster is well, the bars of all nodes, the last hour, and the running calls."""

    def __init__(self, parts: WatchedParts) -> None:
        running = Table(parts, "running", tables.running)
        self._shown = (Summary(parts), Usage(parts), LastHour(parts), running)
        self.root = column(*(each.root for each in self._shown), sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        for each in self._shown:
            each.update()


class Tasks:
    """The calls of each function, and below them the timeline of the processes."""

    def __init__(self, parts: WatchedParts) -> None:
        self._functions = Table(parts, "functions", tables.functions)
        self.timeline = Timeline(parts)
        self.root = column(self._functions.root, self.timeline.root, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        self._functions.update()
        self.timeline.update()


class Objects:
    """The bytes that each node stores, the processes that refer to objects, the largest objects."""

    def __init__(self, parts: WatchedParts) -> None:
        self._stores = Table(parts, "stores", tables.stores)
        self._keepers = Table(parts, "keepers", tables.keepers)
        self._objects = Table(parts, "objects", tables.objects)
        tables_shown = self._stores.root, self._keepers.root, self._objects.root
        self.root = column(*tables_shown, sizing_mode="stretch_width")

    def update(self) -> None:
        """Show what is there now."""
        self._stores.update()
        self._keepers.update()
        self._objects.update()


#: The tabs of the page: a name for addresses, the title, and the function that makes the content.
TABS: dict[str, tuple[str, Callable[[WatchedParts], Any]]] = {
    "cluster": ("Overview", Cluster),
    "jobs": ("Jobs", partial(Table, name="jobs", read=tables.jobs)),
    "tasks": ("Tasks", Tasks),
    "calls": ("Calls", Calls),
    "actors": ("Actors", Actors),
    "waiting": ("Why is it waiting?", partial(Table, name="waiting", read=tables.waiting)),
    "groups": ("Placement groups", partial(Table, name="groups", read=tables.groups)),
    "objects": ("Objects", Objects),
    "nodes": ("Nodes", partial(Table, name="nodes", read=tables.nodes)),
    "experiments": ("Experiments", Experiments),
    "logs": ("Logs", Logs),
    "gpus": ("GPUs", partial(Table, name="gpus", read=tables.gpus)),
}


def _show(
    doc: Document, title: str, root: LayoutDOM, update: Callable[[], None], extra: Any
) -> None:
    doc.title = title
    doc.add_root(root)
    words.translate(doc)
    update()
    doc.add_periodic_callback(update, PERIOD_MS)
    script = words.script(doc) + _SCRIPT.read_text(encoding="utf-8")
    adapter.style_page(doc, {**extra, "script": script})


def page(parts: WatchedParts, _server: object, extra: object, doc: Document) -> None:
    """Make the page with all tabs; only the tab that is open follows the cluster."""
    made = [make(parts) for _, make in TABS.values()]
    panels = [
        TabPanel(child=each.root, title=title)
        for each, (title, _) in zip(made, TABS.values(), strict=True)
    ]
    asked = _asked(doc)
    tabs = Tabs(tabs=panels, sizing_mode="stretch_width", name="tabs")
    if asked.get("tab") in TABS:
        tabs.active = list(TABS).index(asked["tab"])
    if job := asked.get("job"):
        for each in made:
            show_job(each, job)
        doc.add_root(line := Div(name="only", disable_math=True, sizing_mode="stretch_width"))
        line.styles = {"font-size": "14px", "padding": "4px"}
        line.text = _only(parts, job, line)

    def update() -> None:
        made[tabs.active].update()

    tabs.on_change("active", lambda attr, old, new: update())
    _show(doc, "Ray", tabs, update, extra)


def _only(parts: WatchedParts, job: str, line: Div) -> str:
    """Return the line that says of which job a page is."""
    programs = [each["program"] for each in tables.jobs(parts) if each["job"] == job]
    said = words.say(line, "Only the job {job}", job=job)
    text = f"{said}{': ' if programs else ''}{''.join(programs[:1])}."
    return f'{html.escape(text)} <a href="ray">{words.say(line, "Show all jobs")}</a>'


def single(parts: WatchedParts, name: str, _server: object, extra: object, doc: Document) -> None:
    """Make the page with the content of one tab."""
    title, make = TABS[name]
    shown = make(parts)
    show_asked(shown, _asked(doc))
    _show(doc, f"Ray: {title}", shown.root, shown.update, extra)


def _asked(doc: Document) -> dict[str, str]:
    """Return the first value of each argument in the address of a page, and choose its language."""
    context: Any = doc.session_context
    request = context.request if context is not None else None
    if request is not None:
        headers = {name.lower(): value for name, value in (request.headers or {}).items()}
        words.choose(doc, headers.get("accept-language", ""))
    asked = request.arguments if request is not None else {}
    return {name: values[0].decode(errors="replace") for name, values in asked.items()}


def show_job(shown: Any, job: str) -> None:
    """Show only what belongs to a job."""
    for each in (shown, getattr(shown, "timeline", None)):
        if isinstance(each, Logs | Experiments | Timeline):
            each.job = job
    for source in shown.root.select({"type": ColumnDataSource}):
        if source.name in TABLES:
            source.tags = [{"job": job}]


def show_asked(shown: Any, asked: Mapping[str, str]) -> None:
    """Show what an address asks for.

    `actors=a` searches a table, `actors.id=1` names a row exactly, and `job=1` is for all tables.
    """
    if job := asked.get("job"):
        show_job(shown, job)
    if isinstance(shown, Logs):
        _show_lines(shown, asked)
        return
    wishes: dict[str, Row] = {}
    for name, value in asked.items():
        table, _, field = name.partition(".")
        wish = wishes.setdefault(table, {"search": "", "exact": {}, "open": True})
        if field:
            wish["exact"][field] = value
        else:
            wish["search"] = value
    for table, wish in wishes.items():
        source = shown.root.select_one({"name": table})
        if isinstance(source, ColumnDataSource):
            source.tags = [{**wish, "job": job}]


def _show_lines(logs: Logs, asked: Mapping[str, str]) -> None:
    """Show the lines that an address asks for: those of a process, a function, or a task."""
    if process := asked.get("process"):
        logs.choose(process)
    if stream := asked.get("stream"):
        logs.choose_stream(stream)
    logs.function = asked.get("function", "")
    logs.task = asked.get("task", "")


def applications(parts: WatchedParts) -> dict[str, Callable[..., None]]:
    """Return the function for each page, by address: the page with all tabs, and one for each tab."""
    singles = {f"/individual-ray-{name}": partial(single, parts, name) for name in TABS}
    return {"/ray": partial(page, parts), **singles}
