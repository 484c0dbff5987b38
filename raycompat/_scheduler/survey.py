"""Surveys: what the scheduler asks nodes and callers when a page or a program wants the state.

The scheduler does not see the calls of leases and actors. So it asks their callers for the calls that
are not finished, and the nodes for those that run. Questions that come during a survey share its
findings. The findings name the processes that did not answer in time, for example because they are
stopped.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol.operations import ToCaller, ToNode

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core

#: Seconds that nodes and callers have to answer; a node waits one for its executors.
_ANSWER_S = 3.0

#: Seconds for which pages show what was found.
_FRESH_S = 1.0


@dataclass(slots=True)
class Findings:
    """What nodes and callers have answered: see `_node.looks` and `_caller.look`."""

    #: By the addresses of nodes, and by the Dask clients that callers are.
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    callers: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Nodes and callers that have not answered.
    silent: list[str] = field(default_factory=list)

    @property
    def warning(self) -> str:
        """Say who has not answered; empty if all have."""
        pids = sorted(pid for found in self.nodes.values() for pid in found["silent"])
        missing = [*self.silent, *(f"process {pid}" for pid in pids)]
        if not missing:
            return ""
        return (
            f"These did not answer in time, so their calls and objects may be missing: "
            f"{', '.join(missing)}. A process that is stopped, or whose code holds Python's "
            "interpreter lock, cannot answer."
        )


@dataclass(slots=True)
class _Survey:
    """A survey that is under way."""

    expected: set[str]
    findings: Findings
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, who: str) -> None:
        self.expected.discard(who)
        if not self.expected:
            self.is_complete.set()


class Surveys:
    """See the module."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scheduler = core.scheduler
        self._tokens = itertools.count()
        self._under_way: dict[int, _Survey] = {}
        self._asking: asyncio.Task[Findings] | None = None
        #: What was found last, and when that was asked for, by the monotonic clock.
        self.last, self._asked = Findings(), 0.0

    def look_again(self) -> Findings:
        """Return what was found last; if that is old, ask again, for the next look."""
        if self._asking is None and time.monotonic() - self._asked > _FRESH_S:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return self.last

    async def take(self) -> Findings:
        """Ask all nodes and callers; return what they have answered, in three seconds at most."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        # Whoever asks may leave; the others still want the answer.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Findings:
        token, callers = next(self._tokens), self._callers()
        self._asked = time.monotonic()
        nodes = set(self._core.nodes.info)
        survey = self._under_way[token] = _Survey(nodes | callers, Findings())
        try:
            for node in nodes:
                dask.tell_worker(self._scheduler, node, {"op": ToNode.LOOK, "token": token})
            for caller in callers:
                dask.tell_client(self._scheduler, caller, {"op": ToCaller.LOOK, "token": token})
            if survey.expected:
                async with asyncio.timeout(_ANSWER_S):
                    await survey.is_complete.wait()
        except TimeoutError:
            survey.findings.silent = sorted(survey.expected)
        finally:
            self._asking = None
            del self._under_way[token]
        self.last = survey.findings
        return survey.findings

    def _callers(self) -> set[str]:
        """Return the clients that may have called something, or refer to objects."""
        core = self._core
        callers = {job.client for job in core.jobs.open.values()}
        callers.update(core.calls.owners())
        for row in core.actors.rows.values():
            callers |= row.watchers
        return {client for client in callers if client in self._scheduler.clients}

    def hear_node(self, worker: str, token: int, found: dict[str, Any]) -> None:
        """Hear what runs on a node."""
        survey = self._under_way.get(token)
        if survey is not None:
            survey.findings.nodes[worker] = found
            survey.note(worker)

    def hear_caller(self, client: str, token: int, found: dict[str, Any]) -> None:
        """Hear what a caller has called, and what it refers to."""
        survey = self._under_way.get(token)
        if survey is not None:
            survey.findings.callers[client] = found
            survey.note(client)

    def lose(self, who: str) -> None:
        """Expect no answer of a node or caller that is gone."""
        for survey in self._under_way.values():
            survey.note(who)
