"""The output of processes, on the page *Ray*: the last lines of the process that the user chooses."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from bokeh.layouts import column, row
from bokeh.models.widgets.inputs import Select, TextInput
from bokeh.models.widgets.markups import PreText

from raycompat._messages.logs import LogNames, ReadLog
from raycompat._messages.watching import ListStacks
from raycompat._protocol.output_marks import without_marks
from raycompat._scheduler.pages import words
from raycompat._scheduler.pages.tables import classes_of_processes

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

#: The choice of what a process does now, in place of what it has printed.
_STACK = "stack"

#: Lines that are shown.
_MANY_LINES = 500

#: The place of drivers and the scheduler, which belong to no node.
_NOWHERE = "-"

_ELSEWHERE = "Its output is where it was started. The stream `stack` shows what it does now."

_STREAMS: list[Any] = ["out", "err", _STACK]

#: The text that is shown before the user chooses a process.
_HINT = "Choose a process."


class Logs:
    """The tab of logs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: The job whose processes are offered; empty for all.
        self.job = ""
        self._process = Select(
            title="Process", name="process", options=["", *self._processes()], value="", width=360
        )
        self._stream = Select(
            title="Stream", name="stream", options=_STREAMS, value="out", width=90
        )
        self._search = TextInput(title="Lines with", name="search", value="", width=240)
        self._shown = PreText(text=_HINT, name="logs", sizing_mode="stretch_width")
        self._lines: list[str] = []
        #: The process that a link has chosen; empty for none.
        self._linked = ""
        self._reading: asyncio.Task[None] | None = None
        # In a narrow window they stand below each other.
        choices = row(self._process, self._stream, self._search, styles={"flex-wrap": "wrap"})
        self.root = column(choices, self._shown, sizing_mode="stretch_width")

    def _processes(self) -> list[Any]:
        """Return the processes by node, from the last survey."""
        actors = classes_of_processes(self._parts)
        findings = self._parts.surveys.refresh()
        return [
            f"{address.rpartition('/')[2]} {each['pid']} {actors.get(each['pid'], '')}".strip()
            for address, found in findings.nodes.items()
            for each in (*found["executors"], *found["ended"])
            if not self.job or each["job"] == self.job
        ] + self._others()

    def _others(self) -> list[Any]:
        """Return the processes that run no calls: nodes, drivers and the scheduler."""
        nodes = [
            f"{address.rpartition('/')[2]} {info['pid']} (node)"
            for address, info in self._parts.nodes.info.items()
        ]
        drivers = [
            f"{_NOWHERE} {job.setup['driver_pid']} (driver of {job.job})"
            for job in self._parts.jobs.open.values()
            if not job.orphaned and self.job in ("", job.job)
        ]
        return [*drivers, *nodes, f"{_NOWHERE} {os.getpid()} (scheduler)"]

    def choose_stream(self, stream: str) -> None:
        """Choose what is shown of the process, if there is such a choice."""
        if stream in _STREAMS:
            self._stream.value = stream

    def choose(self, process: str) -> None:
        """Choose a process, given by its node and its pid. It may have ended, and not be listed."""
        place, _, pid = process.partition(" ")
        if place and pid.isdecimal():
            self._linked = process
            self._process.options = [*self._process.options, process]
            self._process.value = process

    def _offer(self) -> None:
        """Offer the processes to choose from."""
        listed = self._processes()
        linked = next(
            (each for each in listed if each.split()[:2] == self._linked.split()), self._linked
        )
        options: list[Any] = ["", *dict.fromkeys([*listed, *filter(None, [linked])])]
        if options != self._process.options:
            self._process.options = options
        if self._process.value == self._linked:
            self._process.value = linked

    def update(self) -> None:
        """Show the output of the chosen process so far, or what it does now."""
        self._offer()
        if self._process.value and (self._reading is None or self._reading.done()):
            reading = self._read(self._process.value, self._stream.value)
            self._reading = asyncio.get_running_loop().create_task(reading)
        text = "\n".join(each for each in self._lines if self._search.value in each) or words.say(
            self._shown, _HINT
        )
        if text != self._shown.text:
            self._shown.text = text

    async def _read(self, process: str, stream: str) -> None:
        place, pid, *rest = process.split()
        node = next(
            (
                info["node_id"]
                for address, info in self._parts.nodes.info.items()
                if address.rpartition("/")[2] == place
            ),
            "",
        )
        if stream == _STACK:
            found = await self._stack(node, int(pid))
            shown = [each["stack"] for each in found.get("processes", ())]
            self._lines = "\n".join(shown or [found.get("error", "It does not run.")]).splitlines()
            return
        if rest and rest[0].startswith("("):
            self._lines = [words.say(self._shown, _ELSEWHERE)]
            return
        pattern = f"worker-*-{pid}.{stream}"
        found = await self._ask(LogNames(node, pattern))
        names = found.get("names", [])
        if not names:
            self._lines = [found.get("error") or words.say(self._shown, "It has printed nothing.")]
            return
        found = await self._ask(ReadLog(node, names[0], position=-1, tail=_MANY_LINES))
        printed = without_marks(found["data"]) if "data" in found else found["error"].encode()
        self._lines = printed.decode(errors="replace").splitlines()

    async def _stack(self, node: str, pid: int) -> dict[str, Any]:
        if node:
            return await self._ask(ListStacks(node, pid))
        return await self._parts.state.others.show(pid)

    async def _ask(self, request: LogNames | ReadLog | ListStacks) -> dict[str, Any]:
        try:
            return await self._parts.logs.of_node(request)
        except OSError as error:
            return {"error": f"The node does not answer: {error}"}
