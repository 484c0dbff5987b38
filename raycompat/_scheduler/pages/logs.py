"""The output of processes, on the page *Ray*: what was printed last, or that of one process."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from bokeh.layouts import column, row
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.inputs import Checkbox, Select, TextInput
from bokeh.models.widgets.markups import Div, PreText

from raycompat._scheduler.pages import words
from raycompat._scheduler.pages.log_reader import STREAMS, LogReader, Part, errors_of
from raycompat._scheduler.pages.tables import node_name, node_of

if TYPE_CHECKING:
    from raycompat._scheduler.watched_parts import WatchedParts

#: The choices of what a process does now and where its time goes, in place of what it has printed.
_STACK, _PROFILE = "stack", "profile"

#: The place of drivers and the scheduler, which belong to no node.
_NOWHERE = "-"

_ELSEWHERE = "Its output is where it was started. The stream `stack` shows what it does now."

_STREAMS: list[Any] = ["out + err", *STREAMS, _STACK, _PROFILE]

#: The first of the processes to choose from.
_NEWEST = "All: what was printed last"

#: What is shown where there are no lines.
_NOTHING, _NO_LINE = "It has printed nothing.", "No line is as you want it."
_NOTHING_AT_ALL = "Nothing that was printed is in view."

#: Seconds between two looks at the files of all nodes, and at those of one process.
_PAUSE_OF_ALL_S, _PAUSE_S = 2.0, 0.4

#: Lines are added at the end, and the end stays in view unless the user has scrolled away from it.
_AT_THE_END = {
    "display": "flex",
    "flex-direction": "column-reverse",
    "overflow": "auto",
    "max-height": "75vh",
}

#: Long lines are wrapped.
_WRAPPED = ".bk-clearfix { width: 100%; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }"


class Logs:
    """The tab of logs."""

    def __init__(self, parts: WatchedParts) -> None:
        self._parts = parts
        #: The job whose processes are offered, and the function whose lines are shown; empty for all.
        self.job = self.function = ""
        #: The task of the chosen process whose lines are shown; empty for all.
        self.task = ""
        nothing: list[Any] = [""]
        self._process = Select(
            title="Process", name="process", options=nothing, value="", width=360
        )
        self._stream = Select(
            title="Stream", name="stream", options=_STREAMS, value=_STREAMS[0], width=100
        )
        self._search = TextInput(title="Lines with", name="search", value="", width=240)
        self._errors = Checkbox(label="Errors only", name="errors", active=False)
        self._follow = Checkbox(label="Follow", name="follow", active=True)
        self._shown = PreText(
            text="",
            name="logs",
            sizing_mode="stretch_width",
            styles=dict(_AT_THE_END),
            stylesheets=[_WRAPPED],
        )
        #: The browser puts here how many minutes its clock is ahead of UTC, and the name of its zone.
        self._zone = ColumnDataSource(name="zone")
        zone = Div(text="<ray-zone></ray-zone>", tags=[self._zone], disable_math=True)
        self._reader = LogReader(parts, partial(words.say, self._shown), self._clock)
        self._lines: list[Part] = []
        #: What was read last, and when.
        self._read_last: tuple[Any, ...] = ()
        self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._search.on_change("value", lambda attr, old, new: self._show())
        self._errors.on_change("active", lambda attr, old, new: self._show())
        # In a narrow window they stand below each other.
        ticks = column(self._errors, self._follow)
        choices = row(
            self._process, self._stream, self._search, ticks, styles={"flex-wrap": "wrap"}
        )
        self.root = column(choices, self._shown, zone, sizing_mode="stretch_width")

    def _clock(self, moment: float) -> str:
        """Return the time of a moment, in seconds since 1970, where the browser is; with the zone."""
        minutes, zone = self._zone.tags or (0, "UTC")
        there = time.gmtime(moment + 60 * float(minutes))
        return f"{time.strftime('%H:%M:%S', there)} {zone}"

    def _processes(self) -> list[Any]:
        """Return the places and names of all that can be chosen."""
        others = [
            (f"{node_name(address)} {info['pid']}", self._say_node(address, info["pid"]))
            for address, info in self._parts.nodes.info.items()
        ]
        drivers = [
            (f"{_NOWHERE} {pid}", self._say("driver of {job}, pid {pid}", job=job.job, pid=pid))
            for job in self._parts.jobs.open.values()
            if not job.orphaned and self.job in ("", job.job)
            for pid in [job.setup["driver_pid"]]
        ]
        scheduler = self._say("scheduler, pid {pid}", pid=os.getpid())
        return [
            ("", self._say(_NEWEST)),
            *self._reader.submitted(self.job),
            *self._reader.processes(self.job),
            *drivers,
            *others,
            (f"{_NOWHERE} {os.getpid()}", scheduler),
        ]

    def _say_node(self, address: str, pid: int) -> str:
        return self._say("node {node}, pid {pid}", node=node_of(self._parts, address), pid=pid)

    def _say(self, text: str, **values: object) -> str:
        return words.say(self._shown, text, **values)

    def choose_stream(self, stream: str) -> None:
        """Choose what is shown of the process, if there is such a choice."""
        if stream in _STREAMS:
            self._stream.value = stream

    def choose(self, process: str) -> None:
        """Choose a process by its node and pid, or ``job ID``. It may have ended, and not be listed."""
        place, _, pid = process.partition(" ")
        if (place and pid.isdecimal()) or (place == "job" and pid):
            self._process.options = [*self._process.options, process]
            self._process.value = process

    def _offer(self) -> None:
        """Offer the processes to choose from."""
        options: dict[str, str] = dict(self._processes())
        options.setdefault(self._process.value, self._process.value)
        listed: list[Any] = list(options.items())
        if listed != self._process.options:
            self._process.options = listed

    def update(self) -> None:
        """Show the output of the chosen process so far, or what it does now."""
        self._offer()
        wanted = (
            *(self._process.value, self._stream.value, self._errors.active),
            *(self.job, self.function, *self._zone.tags),
        )
        pause_s = _PAUSE_S if self._process.value else _PAUSE_OF_ALL_S
        is_old = time.monotonic() - self._read_at > pause_s
        is_due = wanted != self._read_last or (self._follow.active and is_old)
        if is_due and (self._reading is None or self._reading.done()):
            self._read_last, self._read_at = wanted, time.monotonic()
            self._reading = asyncio.get_running_loop().create_task(self._read())
        self._show()

    def _show(self) -> None:
        """Show those of the lines that the user wants."""
        wanted = self._search.value.lower()
        shown = []
        for title, lines in self._lines:
            found = errors_of(lines) if self._errors.active else lines
            found = [each for each in found if wanted in each.lower()]
            if found:
                shown.append("\n".join([*([f"\u2500\u2500 {title}"] if title else []), *found]))
        text = "\n\n".join(shown) or self._say(_NO_LINE if self._lines else self._nothing())
        if text != self._shown.text:
            self._shown.text = text

    def _nothing(self) -> str:
        """Return what to say where nothing was printed."""
        return _NOTHING if self._process.value else _NOTHING_AT_ALL

    async def _read(self) -> None:
        self._lines = await self._parts_of(self._process.value, self._stream.value)

    async def _parts_of(self, process: str, stream: str) -> list[Part]:
        if not process:
            is_errors = bool(self._errors.active)
            return await self._reader.newest(self.job, self.function, errors_only=is_errors)
        place, _, pid = process.partition(" ")
        if place == "job":
            return await self._reader.of_submitted(pid)
        address = self._reader.address_of(place)
        if stream == _STACK:
            return await self._reader.stack(address, int(pid))
        if stream == _PROFILE:
            return await self._reader.profile(address, int(pid))
        info = self._parts.nodes.info.get(address)
        if info is None or info["pid"] == int(pid):
            return [Part("", [self._say(_ELSEWHERE)])]
        streams = (stream,) if stream in STREAMS else STREAMS
        return await self._reader.of_process(address, int(pid), streams, self.task)
