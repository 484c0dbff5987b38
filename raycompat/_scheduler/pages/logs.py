"""The output of processes, on the page *Ray*: the last lines of the process that the user chooses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bokeh.layouts import column, row
from bokeh.models.widgets.inputs import Select, TextInput
from bokeh.models.widgets.markups import PreText

from raycompat._protocol.operations import Request
from raycompat._protocol.output_marks import without_marks
from raycompat._scheduler.pages.tables import classes_of_processes

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

#: Lines that are shown.
_MANY_LINES = 500

_STREAMS: list[Any] = ["out", "err"]

#: The text that is shown before the user chooses a process.
_HINT = "Choose a process."


class Logs:
    """The tab of logs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._process = Select(
            title="Process", name="process", options=["", *self._processes()], value="", width=360
        )
        self._stream = Select(title="Stream", options=_STREAMS, value="out", width=90)
        self._search = TextInput(title="Lines with", name="search", value="", width=240)
        self._shown = PreText(text=_HINT, name="logs", sizing_mode="stretch_width")
        self._lines: list[str] = []
        self._reading: asyncio.Task[None] | None = None
        choices = row(self._process, self._stream, self._search)
        self.root = column(choices, self._shown, sizing_mode="stretch_width")

    def _processes(self) -> list[Any]:
        """Return the processes by node, from the last survey."""
        actors = classes_of_processes(self._parts)
        findings = self._parts.surveys.refresh()
        return [
            f"{address.rpartition('/')[2]} {each['pid']} {actors.get(each['pid'], '')}".strip()
            for address, found in findings.nodes.items()
            for each in (*found["executors"], *found["ended"])
        ]

    def update(self) -> None:
        """Show the output of the chosen process so far."""
        options = ["", *self._processes()]
        if options != self._process.options:
            self._process.options = options
        if self._process.value and (self._reading is None or self._reading.done()):
            reading = self._read(self._process.value, self._stream.value)
            self._reading = asyncio.get_running_loop().create_task(reading)
        text = "\n".join(each for each in self._lines if self._search.value in each) or _HINT
        if text != self._shown.text:
            self._shown.text = text

    async def _read(self, process: str, stream: str) -> None:
        place, pid, *_ = process.split()
        node = next(
            (
                info["node_id"]
                for address, info in self._parts.nodes.info.items()
                if address.rpartition("/")[2] == place
            ),
            "",
        )
        pattern = f"worker-*-{pid}.{stream}"
        found = await self._ask(node, Request.LOG_NAMES, pattern=pattern)
        names = found.get("names", [])
        if not names:
            self._lines = [found.get("error", "It has printed nothing.")]
            return
        question = {"name": names[0], "position": -1, "tail": _MANY_LINES}
        found = await self._ask(node, Request.LOG_READ, **question)
        printed = without_marks(found["data"]) if "data" in found else found["error"].encode()
        self._lines = printed.decode(errors="replace").splitlines()

    async def _ask(self, node: str, request: Request, **question: Any) -> dict[str, Any]:
        try:
            return await self._parts.logs.of_node(node, request, **question)
        except OSError as error:
            return {"error": f"The node does not answer: {error}"}
