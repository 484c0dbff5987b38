"""What the tab of logs shows: lines of the files of nodes, stacks, and the names of processes."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from raycompat._messages.logs import LogNames, ReadLog
from raycompat._messages.watching import ListStacks
from raycompat._protocol import output_marks, submission
from raycompat._protocol.plain import Row
from raycompat._scheduler.notices import Say
from raycompat._scheduler.pages.tables import actor_name, node_name, node_of

if TYPE_CHECKING:
    from raycompat._scheduler.watched_parts import WatchedParts

#: Lines of one file that are read; for one function or task many more, because others print between
#: them.
_MANY_LINES, _MANY_MORE_LINES = 500, 20_000

#: Files that are shown together, and the last lines of each.
_MANY_FILES, _FEW_LINES = 12, 15

#: Files that are read to find those of one function or with errors; and nodes that are asked.
_MANY_LOOKED_AT, _MANY_NODES = 40, 32

#: Samples of one update of a profile, and seconds between them.
_MANY_SAMPLES, _BETWEEN_SAMPLES_S = 5, 0.05

#: A function in a stack of Python, and in one of py-spy.
_FRAME = re.compile(
    r'\s*(?:File "(?P<file>.*)", line \d+, in (?P<name>.*)|(?P<spied>\S.* \(.*):\d+\))'
)

#: Executors that are offered to choose from.
_MANY_OFFERED = 1_000

#: The streams of a process: the ends of the names of its files.
STREAMS = ("out", "err")

#: The files of executors and of submitted jobs; older parts of a file have other ends.
_OF_EXECUTOR = re.compile(r"worker-[^-]*-(?P<job>[^-]*)-(?P<pid>\d+)\.(?P<stream>out|err)")
_OF_SUBMITTED = re.compile(r"job-driver-(?P<id>.*)\.log")

#: Lines about errors, and the first line of a traceback.
_ERROR = re.compile(
    r"\b(error|critical|fatal|failed|exception)\b|\w(Error|Exception)\b", re.IGNORECASE
)
_TRACEBACK = re.compile(r"\s*(\|\s*)?Traceback \(most recent call last\)")


class Part(NamedTuple):
    """Lines of one file, and what they are of; nothing where that is chosen already."""

    title: str
    lines: list[str]


class _File(NamedTuple):
    changed: float
    address: str
    name: str


def errors_of(lines: Iterable[str]) -> list[str]:
    """Return the lines about errors, and whole tracebacks."""
    found, is_inside = [], False
    for line in lines:
        if _TRACEBACK.match(line):
            is_inside = True
        elif is_inside and line[:1] not in (" ", "\t", "|", "+", ""):
            is_inside = False  # this line has the type and the text of the error
            found.append(line)
            continue
        if is_inside or _ERROR.search(line):
            found.append(line)
    return found


def functions_of(stack: Iterable[str]) -> set[str]:
    """Return the functions of a stack with their files, each once."""
    frames = filter(None, (_FRAME.fullmatch(line) for line in stack))
    return {
        f"{each['name']} ({each['file']})" if each["name"] else f"{each['spied']})"
        for each in frames
    }


class LogReader:
    """Reads the files of nodes.

    `say` returns a text in the language of the page, and `clock` the time of a moment for its reader.
    """

    def __init__(self, parts: WatchedParts, say: Say, clock: Callable[[float], str]) -> None:
        self._parts, self._say, self._clock = parts, say, clock
        #: The process of the profile, how many samples had each function, and all samples.
        self._sampled, self._num_samples = ("", 0), 0
        self._times: Counter[str] = Counter()

    # --- names ----------------------------------------------------------------------------------

    def processes(self, job: str) -> list[tuple[str, str]]:
        """Return the processes of all jobs or of one, the newest first: a place and pid, and a name."""
        findings, actors = self._parts.surveys.refresh(), self._actors()
        executors = sorted(
            (-each["started"], address, each["pid"])
            for address, found in findings.nodes.items()
            for each in (*found["executors"], *found["ended"])
            if not job or each["job"] == job
        )
        return [
            (f"{node_name(address)} {pid}", self._name(address, pid, actors))
            for _, address, pid in executors[:_MANY_OFFERED]
        ]

    def _actors(self) -> dict[tuple[str | None, int | None], str]:
        """Return the names of actors by the addresses of their nodes and their pids."""
        rows = self._parts.actors.rows.values()
        return {(row.address, row.pid): actor_name(row) for row in rows}

    def submitted(self, job: str) -> list[tuple[str, str]]:
        """Return the submitted jobs, the newest first, in the same form."""
        submissions = [
            each
            for each in reversed(self._parts.submissions.by_id.values())
            if not job or (each.driver or {}).get("id") == job
        ]
        return [(f"job {each.id}", self._of_submitted(each.id)) for each in submissions]

    def _of_submitted(self, id: str) -> str:
        return self._say("output of the job {id}", id=id)

    def _name(
        self, address: str, pid: int, actors: Mapping[tuple[str | None, int | None], str]
    ) -> str:
        """Return the name of an executor."""
        node, actor = node_of(self._parts, address), actors.get((address, pid))
        if actor is None:
            return self._say("worker, node {node}, pid {pid}", node=node, pid=pid)
        return self._say("actor {actor}, node {node}, pid {pid}", actor=actor, node=node, pid=pid)

    def address_of(self, place: str) -> str:
        """Return the address of the node at a host and port; empty if there is none."""
        return next((each for each in self._parts.nodes.info if node_name(each) == place), "")

    # --- lines ----------------------------------------------------------------------------------

    async def newest(self, job: str, function: str, *, errors_only: bool) -> list[Part]:
        """Return the last lines of the files that have changed last; the newest are last.

        With `function`, only what its calls have printed.
        """
        addresses = list(self._parts.nodes.info)[:_MANY_NODES]
        listed = await asyncio.gather(*(self._files(each, job) for each in addresses))
        files = sorted((each for found in listed for each in found), reverse=True)
        parts: list[Part] = []
        actors = self._actors()
        for file in files[: _MANY_LOOKED_AT if function or errors_only else _MANY_FILES]:
            lines = await self._lines(file.address, file.name, function)
            lines = errors_of(lines) if errors_only else lines
            if lines and len(parts) < _MANY_FILES:
                parts.append(Part(self._title(file, actors), lines[-_FEW_LINES:]))
        return parts[::-1]

    async def _files(self, address: str, job: str) -> list[_File]:
        """Return the files of a node with output of all jobs, or of one."""
        listing = await self._ask(LogNames(self._parts.nodes.info[address]["node_id"], "*"))
        submissions = self._parts.submissions.by_id
        files = []
        for name, changed in listing.get("changed", {}).items():
            if of := _OF_EXECUTOR.fullmatch(name):
                is_wanted = job in ("", of["job"])
            else:
                known = {submission.log_name(each.id): each for each in submissions.values()}
                driver = known[name].driver if name in known else None
                is_wanted = _OF_SUBMITTED.fullmatch(name) is not None and (
                    not job or (driver or {}).get("id") == job
                )
            if is_wanted:
                files.append(_File(changed, address, name))
        return files

    def _title(self, file: _File, actors: Mapping[tuple[str | None, int | None], str]) -> str:
        clock = self._clock(file.changed)
        if of := _OF_EXECUTOR.fullmatch(file.name):
            name = self._name(file.address, int(of["pid"]), actors)
            return f"{name}, {of['stream']}, {clock}"
        of = _OF_SUBMITTED.fullmatch(file.name)
        assert of is not None
        return f"{self._of_submitted(of['id'])}, {clock}"

    async def of_process(
        self, address: str, pid: int, streams: Iterable[str], task: str
    ) -> list[Part]:
        """Return the last lines of the output of an executor, or those of one of its tasks."""
        node = self._parts.nodes.info[address]["node_id"]
        parts = []
        for stream in streams:
            listing = await self._ask(LogNames(node, f"worker-*-{pid}.{stream}"))
            lines = [listing["error"]] if "error" in listing else []
            for name in listing.get("names", ())[:1]:
                lines = await self._lines(address, name, task=task)
            if lines:
                parts.append(Part(stream, lines))
        return parts

    async def of_submitted(self, id: str) -> list[Part]:
        """Return the last lines that the command of a submitted job has printed."""
        job = self._parts.submissions.by_id.get(id)
        address = (
            self._parts.ground.nodes.address_of(job.node_id or "") if job is not None else None
        )
        if address is None:
            return []
        return [Part("", await self._lines(address, submission.log_name(id)))]

    async def _lines(
        self, address: str, name: str, function: str = "", task: str = ""
    ) -> list[str]:
        tail = _MANY_MORE_LINES if function or task else _MANY_LINES
        node = self._parts.nodes.info.get(address)
        if node is None:  # it has left meanwhile
            return []
        asked = ReadLog(node["node_id"], name, position=-1, tail=tail, task=task)
        answer = await self._ask(asked)
        data = answer["data"] if "data" in answer else answer["error"].encode()
        if function:
            data = output_marks.of_name(data, function)
        return output_marks.without_marks(data).decode(errors="replace").splitlines()

    async def profile(self, address: str, pid: int) -> list[Part]:
        """Take some samples of a process, and return how often each function was in those so far."""
        if self._sampled != (address, pid):
            self._sampled, self._times, self._num_samples = (address, pid), Counter(), 0
        for _ in range(_MANY_SAMPLES):
            await asyncio.sleep(_BETWEEN_SAMPLES_S)
            ((_, lines),) = await self.stack(address, pid)
            self._times.update(functions_of(lines))
            self._num_samples += 1
        text = self._say(
            "{count} samples; the share of those in which each function ran, or what it called",
            count=self._num_samples,
        )
        shares = [
            f"{times / self._num_samples:6.1%}  {name}" for name, times in self._times.most_common()
        ]
        return [Part(text, shares or [self._say("It runs no code of users.")])]

    async def stack(self, address: str, pid: int) -> list[Part]:
        """Return what a process does now; one without a node is a driver or the scheduler."""
        if address:
            answer = await self._ask(ListStacks(self._parts.nodes.info[address]["node_id"], pid))
        else:
            answer = await self._parts.state.others.show(pid)
        shown = [each["stack"] for each in answer.get("processes", ())]
        text = "\n".join(shown or [answer.get("error", self._say("It does not run."))])
        return [Part("", text.splitlines())]

    async def _ask(self, request: LogNames | ReadLog | ListStacks) -> Row:
        try:
            return await self._parts.logs.of_node(request)
        except OSError as error:
            return {"error": f"The node does not answer: {error}"}
