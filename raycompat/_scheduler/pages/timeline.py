"""The timeline of the last calls, on the tab *Tasks* of the page *Ray*: a bar for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bokeh.models.formatters import CustomJSTickFormatter
from bokeh.models.ranges import DataRange1d, FactorRange
from bokeh.models.sources import ColumnDataSource
from bokeh.models.tools import CustomJSHover, HoverTool
from bokeh.plotting import figure

from raycompat._dask import pages as adapter
from raycompat._scheduler.pages.tables import classes_of_processes, node_of

if TYPE_CHECKING:
    from raycompat._scheduler.watched_parts import WatchedParts

#: Bars that are kept, and milliseconds that are in view until you zoom.
_MANY_BARS, _IN_VIEW_MS = 3_000, 30_000

#: Processes that are shown: those whose calls have ended last.
_MANY_PROCESSES = 40

#: Pixels of the row of a process, and of the frame around all rows.
_ROW, _FRAME = 22, 110

#: The least rows of the drawing, so that the buttons beside it have room.
_LEAST_ROWS = 6

#: Colour of calls that have failed: Dask's own.
_FAILED = "black"

_HINT = """
<div><b>@name</b> @about</div><div>@process</div><div>@length{0,0.000} ms, until @right{custom}</div>
"""

#: Local times of the browser, which Bokeh's own formatters do not know. The first tick has the zone.
_TIME_JS = """
const two = (number) => String(number).padStart(2, "0");
const clock = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
const parts = (at) => "." + String(at.getMilliseconds()).padStart(3, "0");
"""
_TICK_JS = """
const time = new Date(tick), is_fine = ticks.length > 1 && ticks[1] - ticks[0] < 1000;
const text = clock(time) + (is_fine ? parts(time) : "");
const day = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
const zone = time.toTimeString().split(" ")[1];
return index ? text : `${text}\\n${day} ${zone}`;
"""
_HOVER_JS = "const time = new Date(value); return clock(time) + parts(time);"


class Timeline:
    """The timeline. An update sends only the calls that have ended since the last update."""

    def __init__(self, parts: WatchedParts) -> None:
        self._parts = parts
        self._num_seen = 0
        #: The job whose calls are shown; empty for all.
        self.job = ""
        #: The label of each process with bars, by its node and number.
        self._labels: dict[tuple[str, int], str] = {}
        fields = ("process", "left", "right", "length", "name", "about", "colour")
        self.source = ColumnDataSource({field: [] for field in fields}, name="timeline")
        self._processes = FactorRange(factors=[], name="processes")
        self._figure = figure(
            title="Calls by process",
            x_axis_type="datetime",
            x_range=DataRange1d(
                follow="end",
                follow_interval=_IN_VIEW_MS,
                default_span=_IN_VIEW_MS,
                range_padding=0,
            ),
            y_range=self._processes,
            height=_FRAME + _ROW * _LEAST_ROWS,
            sizing_mode="stretch_width",
            tools="xwheel_zoom,xpan,xzoom_in,xzoom_out,reset",
            active_scroll=None,
        )
        bars = self._figure.hbar(
            y="process",
            left="left",
            right="right",
            height=0.8,
            color="colour",
            source=self.source,
        )
        hint = HoverTool(
            renderers=[bars],
            tooltips=_HINT,
            formatters={"@right": CustomJSHover(code=_TIME_JS + _HOVER_JS)},
            point_policy="follow_mouse",
        )
        self._figure.add_tools(hint)
        self._figure.grid.visible = False
        self._figure.xaxis.formatter = CustomJSTickFormatter(code=_TIME_JS + _TICK_JS)
        self.root = self._figure

    def update(self) -> None:
        """Add the calls that have ended since the last time."""
        spans, self._num_seen = self._parts.run_times.since(self._num_seen, _MANY_BARS)
        if not spans:
            return
        bars: dict[str, Any] = {field: [] for field in self.source.data}
        actors = classes_of_processes(self._parts)
        for ran in spans:
            if self.job and ran.job != self.job:
                continue
            pid = ran.process
            node = node_of(self._parts, ran.worker) if len(self._parts.nodes.info) > 1 else ""
            label = f"{node}  {pid}  {actors.get(pid, '')}".strip()
            bars["process"].append(self._labels.setdefault((ran.worker, pid), label))
            bars["left"].append(1e3 * ran.start)
            bars["right"].append(1e3 * ran.stop)
            bars["length"].append(1e3 * (ran.stop - ran.start))
            bars["name"].append(ran.name)
            bars["about"].append(_about(ran.num_calls, has_failed=ran.is_failed))
            bars["colour"].append(_FAILED if ran.is_failed else adapter.colour_of(ran.name))
        self.source.stream(bars, rollover=_MANY_BARS)
        self._show_processes()

    def _show_processes(self) -> None:
        last = dict.fromkeys(reversed(self.source.data["process"]))
        self._labels = {place: label for place, label in self._labels.items() if label in last}
        shown = sorted(list(last)[:_MANY_PROCESSES], reverse=True)
        if shown != self._processes.factors:
            self._processes.factors = shown
            self._figure.height = _FRAME + _ROW * max(_LEAST_ROWS, len(shown))


def _about(count: int, *, has_failed: bool) -> str:
    number = f"{count:,} calls" if count > 1 else ""
    return ", ".join(each for each in (number, "failed" if has_failed else "") if each)
