"""Tasks: unfinished calls, as the scheduler, callers and nodes know them, and the history of others.

An ended call is in the history, unless its last attempt has failed and it is retried. Callers report
the unfinished calls of leases and actors, and executors report which of these run. The scheduler knows
all others.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from raycompat._protocol import ids
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.spans import milliseconds, unpack
from raycompat._scheduler.actor_directory import constructor_of
from raycompat._scheduler.call_table import group_of
from raycompat._scheduler.state import summaries
from raycompat._scheduler.state.query import Absent, MayMatch, Rows

if TYPE_CHECKING:
    from raycompat._scheduler.call_table import Call
    from raycompat._scheduler.history import EndedCalls
    from raycompat._scheduler.parts import Parts
    from raycompat._scheduler.survey import Findings

#: The most calls in lines that are listed.
_MOST_IN_LINES = 10_000

#: Seconds by which the report of a call's end may be earlier than the result that its caller gets.
_EARLY_S = 10.0

#: Ray's names for the states of a Dask task that is a call.
_STATES = {
    "released": "PENDING_ARGS_AVAIL",
    "waiting": "PENDING_ARGS_AVAIL",
    "no-worker": "PENDING_NODE_ASSIGNMENT",
    "queued": "PENDING_NODE_ASSIGNMENT",
    "processing": "RUNNING",
}


class _Running(NamedTuple):
    """A running call of an actor or a lease, as its node reports it."""

    address: str = ""
    pid: int | None = None
    start: float = 0.0
    #: Key of the actor or the lease.
    party: str = ""
    name: str = ""


#: That of a call that does not run.
_NOT_RUNNING = _Running()


class Tasks:
    """The rows of tasks."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def rows(self, may_match: MayMatch) -> Rows:
        """Iterate over the tasks that may match; the ended ones come first."""
        findings = await self._parts.surveys.take()
        if findings.warning:
            yield findings.warning
        history = self._parts.history
        yield Absent(history.num_dropped, is_forgotten=True)
        failed: Counter[str] = Counter()
        for ended in history.calls():
            about = self._ended(ended)
            if not may_match(about):
                yield Absent(ended.count, is_forgotten=False)
                continue
            for task, start, stop in unpack(ended.calls):
                attempt = history.num_failures(task)
                if ended.failure is not None:
                    attempt = failed[task]
                    failed[task] += 1
                times = {"start_time_ms": milliseconds(start), "end_time_ms": milliseconds(stop)}
                yield {**about, **times, "task_id": task, "attempt_number": attempt}
        unfinished = self.unfinished(findings)
        yield Absent(num_unlisted(findings, unfinished), is_forgotten=True)
        for row in unfinished:
            yield {**row, "attempt_number": history.num_failures(row["task_id"])}

    async def summary(self) -> dict[str, object]:
        """Return the counts of all tasks, by name and state."""
        findings, history = await self._parts.surveys.take(), self._parts.history
        counted = [(self._ended(ended), ended.count) for ended in history.calls()]
        unfinished = self.unfinished(findings)
        counted += [(row, 1) for row in unfinished]
        num_rows = sum(number for _, number in counted)
        return {
            "result": summaries.of_tasks(counted),
            "total": num_rows + history.num_dropped + num_unlisted(findings, unfinished),
            "num_after_truncation": num_rows,
            "num_filtered": num_rows,
            "warnings": [findings.warning] if findings.warning else [],
        }

    def unfinished(self, findings: Findings, most_in_lines: int = _MOST_IN_LINES) -> list[Row]:
        """Return the unfinished tasks, without those that ended while nodes were asked.

        Of those that only the scheduler knows, `most_in_lines` are listed.
        """
        rows = self._named(findings, most_in_lines)
        history, tasks = self._parts.history, [row["task_id"] for row in rows]
        # Its end may have been reported before its caller got the result, and answered.
        ended = history.finished_among(tasks, findings.began - _EARLY_S)
        return [row for row in rows if row["task_id"] not in ended]

    def _ended(self, ended: EndedCalls) -> Row:
        """Return the common fields of ended calls of one function."""
        failure, node = ended.failure, self._parts.ground.nodes.id_of(ended.address)
        return {
            "name": ended.name,
            "state": "FINISHED" if failure is None else "FAILED",
            "job_id": ended.job,
            "actor_id": ended.actor,
            "type": ended.type,
            "func_or_class_name": ended.function or ended.name,
            "node_id": node,
            "worker_id": ids.worker_id(ended.pid, ended.job, node) if ended.pid else None,
            "worker_pid": ended.pid,
            "error_type": failure.type if failure is not None else None,
            "language": "PYTHON",
            "required_resources": ended.resources,
            "placement_group_id": ended.group,
            "error_message": failure.text if failure is not None else None,
            "is_debugger_paused": False,
        }

    def _named(self, findings: Findings, most_in_lines: int) -> list[Row]:
        """Return the unfinished tasks, as the scheduler, callers and nodes know them."""
        running, granted = self._running(findings), _granted(findings)
        rows: dict[str, Row] = {}
        for found in findings.callers.values():
            for call in found["calls"]:
                row = self._of_caller(call, found, running, granted)
                if row is not None:
                    rows[row["task_id"]] = row
        if _are_many(findings):
            for key, each in running.items():  # its caller may not have listed it
                self._add_running(key, each, rows)
        for key in self._held_or_in_line(most_in_lines):
            call = self._parts.calls.by_key[key]
            state = _STATES.get(self._parts.ground.dask.state_of(key))
            pid = granted.get(key)
            if call.spec["kind"] == "task" and state is not None:
                rows.setdefault(ids.task_hex(key), self._of_scheduler(key, call, state, pid))
        for key in self._parts.actors.rows:
            self._add_constructor(key, rows)
        return list(rows.values())

    def _held_or_in_line(self, most: int) -> Iterator[str]:
        """Iterate over the scheduler's calls, also those of callers that did not answer."""
        yield from self._parts.calls.holding
        lines = self._parts.dispatcher.lines()
        yield from itertools.islice((key for line in lines for key in line.keys), most)

    def _running(self, findings: Findings) -> dict[str, _Running]:
        """Return the running calls of actors and leases, by key."""
        return {
            key: _Running(address, pid, start, party, name)
            for address, found in findings.nodes.items()
            for party, key, name, start, pid in found["running"]
        }

    def _add_running(self, key: str, run: _Running, rows: dict[str, Row]) -> None:
        """Add a running call that its caller has not listed among its many calls."""
        party = self._parts.calls.by_key.get(run.party)
        if party is not None and ids.task_hex(key) not in rows:
            is_method = party.spec["kind"] == "actor"
            call = {
                "name": run.name,
                "party": run.party,
                "is_method": is_method,
                "resources": {} if is_method else party.request.units(),
                "parent": None,
            }
            row = self._of_party(key, call, party.spec["job"], run)
            rows[row["task_id"]] = {**row, "state": "RUNNING"}

    def _of_caller(
        self,
        call: Row,
        caller: Row,
        running: dict[str, _Running],
        granted: dict[str, int],
    ) -> Row | None:
        """Describe a call that its caller has reported; None if the scheduler knows more."""
        key = call["key"]
        if call["state"] is None:
            known = self._parts.calls.by_key.get(key)
            state = _STATES.get(self._parts.ground.dask.state_of(key))
            if known is None or known.spec["kind"] != "task" or state is None:
                return None
            row = self._of_scheduler(key, known, state, granted.get(key))
            return {**row, "parent_task_id": call["parent"]}
        run = running.get(key, _NOT_RUNNING)
        party = self._parts.calls.by_key.get(call["party"] or "")
        if not run.address and party is not None and call["state"] == "SUBMITTED_TO_WORKER":
            run = run._replace(address=party.address or "")
        row = self._of_party(key, call, caller["job"], run)
        return {**row, "state": "RUNNING" if key in running else call["state"]}

    def _of_party(self, key: str, call: Row, job: str, run: _Running) -> Row:
        """Describe a call of an actor or a lease."""
        is_method, party = call["is_method"], self._parts.calls.by_key.get(call["party"] or "")
        return {
            **self._row(key, call["name"], job, run.address, run.pid),
            "actor_id": call["party"].rpartition("-")[2] if is_method else None,
            "type": "ACTOR_TASK" if is_method else "NORMAL_TASK",
            "func_or_class_name": call["name"] if is_method else key.rpartition("-")[0],
            "parent_task_id": call["parent"],
            "required_resources": ResourceSet.from_units(call["resources"]).amounts(),
            "placement_group_id": group_of(party),
            "start_time_ms": milliseconds(run.start),
        }

    def _of_scheduler(self, key: str, call: Call, state: str, pid: int | None) -> Row:
        start = call.started if state == "RUNNING" else 0.0
        return {
            **self._row(key, call.spec["name"], call.spec["job"], call.address, call.pid or pid),
            "state": state,
            "type": "NORMAL_TASK",
            "func_or_class_name": key.rpartition("-")[0],
            "required_resources": call.request.amounts(),
            "placement_group_id": group_of(call),
            "start_time_ms": milliseconds(start),
        }

    def _add_constructor(self, key: str, rows: dict[str, Row]) -> None:
        actor, call = self._parts.actors.rows[key], self._parts.calls.by_key.get(key)
        state = _STATES.get(self._parts.ground.dask.state_of(key))
        if call is None or state is None or actor.state not in ("PENDING", "RESTARTING"):
            return
        name = constructor_of(actor)
        task = ids.task_hex(key).ljust(2 * ids.TASK_ID_BYTES, "0")
        rows[task] = {
            **self._row(key, name, actor.job, call.address, None),
            "task_id": task,
            "state": state,
            "actor_id": key.rpartition("-")[2],
            "type": "ACTOR_CREATION_TASK",
            "func_or_class_name": name,
            "required_resources": ResourceSet.from_units(call.spec["keep"]).amounts(),
            "placement_group_id": group_of(call),
            "start_time_ms": milliseconds(call.started if state == "RUNNING" else 0.0),
        }

    def _row(self, key: str, name: str, job: str, address: str | None, pid: int | None) -> Row:
        node = self._parts.ground.nodes.id_of(address)
        return {
            "task_id": ids.task_hex(key),
            "name": name,
            "job_id": job,
            "node_id": node,
            "worker_id": ids.worker_id(pid, job, node) if pid else None,
            "worker_pid": pid,
            "language": "PYTHON",
            "is_debugger_paused": False,
        }


def num_unlisted(findings: Findings, unfinished: list[Row]) -> int:
    """Return how many calls are not among the unfinished ones, because a caller has too many."""
    if not _are_many(findings):
        return 0
    num_calls: int = sum(found["num_calls"] for found in findings.callers.values())
    num_listed: int = sum(row["type"] != "ACTOR_CREATION_TASK" for row in unfinished)
    return max(0, num_calls - num_listed)


def _granted(findings: Findings) -> dict[str, int]:
    """Return the processes that run the scheduler's calls, by key."""
    return {key: pid for found in findings.nodes.values() for key, pid in found["granted"].items()}


def _are_many(findings: Findings) -> bool:
    """Return whether a caller has more calls than it has listed."""
    return any(found["num_calls"] > len(found["calls"]) for found in findings.callers.values())
