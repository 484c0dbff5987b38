"""Surveys: the scheduler asks drivers and nodes for the state when a page or a program requests it.

The scheduler does not see the calls of leases and actors. So it asks the drivers for their unfinished
calls. It asks the nodes for the calls that run there; each node asks its executors, which make calls
too. Requests that arrive during a survey share its findings. The findings name the processes that did
not answer in time, for example because they are stopped.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raycompat._messages.watching import CallerLooked, Look, NodeLooked
from raycompat._protocol.plain import Row

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground

#: Seconds for nodes and drivers to answer; a node waits one second for its executors.
_ANSWER_S = 3.0

#: The most calls, and objects, that a caller lists: for Ray's API, and for a page.
_MOST, MOST_ON_PAGES = 10_000, 200

#: Seconds for which pages show the same findings.
_FRESH_S = 1.0

#: Seconds that programs wait for figures which are a little newer.
_PROMPT_S = 0.3


@dataclass(slots=True)
class Findings:
    """The answers of nodes and drivers: see `_node.looks` and `_caller.look`."""

    #: By the addresses of nodes.
    nodes: dict[str, Row] = field(default_factory=dict)
    #: By the Dask clients of drivers, and for executors by the address of the node and the pid.
    callers: dict[str, Row] = field(default_factory=dict)
    #: Nodes and drivers that have not answered.
    silent: list[str] = field(default_factory=list)
    #: When they were asked, in seconds since 1970.
    began: float = field(default_factory=time.time)

    def executor(self, address: str | None, pid: int | None) -> Row:
        """Return the description of a process of a node; empty if it does not run."""
        found = self.nodes.get(address or "")
        executors = found["executors"] if found is not None and pid else ()
        return next((each for each in executors if each["pid"] == pid), {})

    @property
    def warning(self) -> str:
        """Return a text that names the processes that did not answer; empty if all did."""
        pids = sorted(pid for found in self.nodes.values() for pid in found["silent"])
        missing = [*self.silent, *(f"process {pid}" for pid in pids)]
        if not missing:
            return ""
        return (
            f"These did not answer in time, so their calls and objects may be missing: "
            f"{', '.join(missing)}. A process that is stopped, or whose code holds Python's "
            "interpreter lock, cannot answer."
        )


class OwnBytes:
    """The bytes that each caller keeps in the memory of its node, and that Dask does not know.

    A caller that does not answer, for example because its code holds Python's interpreter lock, has
    what it had when it last answered.
    """

    def __init__(self) -> None:
        #: By driver or node, and by pid: the node with the memory, and the bytes.
        self._of: dict[str, dict[int, tuple[str | None, int]]] = {}

    def note(self, who: str, callers: list[Row], silent: Sequence[int] = ()) -> None:
        """Take note of the callers of a driver or a node; others than these and `silent` are gone."""
        before = self._of.get(who, {})
        self._of[who] = {pid: before[pid] for pid in silent if pid in before} | {
            each["pid"]: (each["home"], each["own_bytes"]) for each in callers
        }

    def lose(self, who: str) -> None:
        """Forget a driver, or a node with its executors."""
        self._of.pop(who, None)

    def by_node(self) -> Counter[str]:
        """Return the bytes in the memory of each node."""
        sums: Counter[str] = Counter()
        for callers in self._of.values():
            for home, size in callers.values():
                if home is not None:
                    sums[home] += size
        return sums


@dataclass(slots=True)
class _Survey:
    """A survey in progress."""

    expected: set[str]
    findings: Findings
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, who: str) -> None:
        self.expected.discard(who)
        if not self.expected:
            self.is_complete.set()


class Surveys:
    """Asks nodes and drivers for their calls and objects, and keeps the answers."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._dask = ground.dask
        self._tokens = itertools.count()
        self._under_way: dict[int, _Survey] = {}
        #: Surveys in progress, by the number of calls and objects that each caller lists at most.
        self._asking: dict[int, asyncio.Task[Findings]] = {}
        #: The last findings, and the time of their request, by the monotonic clock.
        self.last, self._last_began = Findings(), 0.0
        #: The bytes of callers, and the time of the last request for them.
        self.own, self._asked = OwnBytes(), 0.0

    def refresh(self) -> Findings:
        """Return the last findings, for pages; if they are old, ask again for the next update."""
        if not self._asking.keys() - {0} and time.monotonic() - self._last_began > _FRESH_S:
            self._begin(MOST_ON_PAGES)
        return self.last

    async def renew_own(self) -> None:
        """Ask for the bytes of callers if they are old, for programs that want figures often.

        A process that does not answer at once does not delay them: its last answer counts.
        """
        if not self._asking and time.monotonic() - self._asked > _FRESH_S:
            self._begin(0)
        left_s = self._asked + _PROMPT_S - time.monotonic()
        if self._asking and left_s > 0:
            await asyncio.wait(self._asking.values(), timeout=left_s)

    async def take(self, most: int = _MOST) -> Findings:
        """Ask all nodes and drivers; return their answers after at most three seconds.

        Each caller lists at most so many calls and objects, and counts all.
        """
        # One requester may be cancelled; the others still need the answer.
        return await asyncio.shield(self._begin(most))

    def _begin(self, most: int) -> asyncio.Task[Findings]:
        if most not in self._asking:
            self._asked = time.monotonic()
            self._asking[most] = asyncio.get_running_loop().create_task(self._ask(most))
        return self._asking[most]

    async def _ask(self, most: int) -> Findings:
        token, drivers = next(self._tokens), self._drivers()
        nodes, began = set(self._ground.nodes.info), time.monotonic()
        survey = self._under_way[token] = _Survey(nodes | drivers, Findings())
        try:
            for node in nodes:
                self._dask.notify_node(node, Look(token, most))
            for driver in drivers:
                self._dask.notify_client(driver, Look(token, most))
            if survey.expected:
                async with asyncio.timeout(_ANSWER_S):
                    await survey.is_complete.wait()
        except TimeoutError:
            survey.findings.silent = sorted(survey.expected)
        finally:
            del self._asking[most]
            del self._under_way[token]
        if most and began >= self._last_began:
            self.last, self._last_began = survey.findings, began
        return survey.findings

    def _drivers(self) -> set[str]:
        """Return the clients that are drivers."""
        drivers = {job.client for job in self._ground.jobs.open.values()}
        return {client for client in drivers if client in self._dask.clients()}

    def on_node_report(self, worker: str, message: NodeLooked) -> None:
        """Handle a node's answer: the calls that run there, and the calls of its executors."""
        survey, found = self._under_way.get(message.token), message.found
        if survey is not None:
            callers = found.pop("callers")
            self.own.note(worker, callers, found["silent"])
            for caller in callers:
                survey.findings.callers[f"{worker} {caller['pid']}"] = caller
            survey.findings.nodes[worker] = found
            survey.note(worker)

    def on_caller_report(self, client: str, message: CallerLooked) -> None:
        """Handle a driver's answer: its calls and the objects that it refers to."""
        survey = self._under_way.get(message.token)
        if survey is not None:
            self.own.note(client, [message.found])
            survey.findings.callers[client] = message.found
            survey.note(client)

    def lose(self, who: str) -> None:
        """Stop waiting for a node or driver that is gone."""
        self.own.lose(who)
        for survey in self._under_way.values():
            survey.note(who)
