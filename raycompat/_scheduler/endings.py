"""Records of ended calls, actors and jobs, in the history and on Dask's pages."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from raycompat._messages.calls import FailedCall
from raycompat._messages.watching import Spans
from raycompat._protocol import failures, ids
from raycompat._protocol.plain import Row
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.spans import Failure, Ran, Span
from raycompat._scheduler.actor_directory import ActorRow, constructor_of
from raycompat._scheduler.call_table import group_of
from raycompat._scheduler.history import EndedCalls, Function, History
from raycompat._scheduler.watcher import Watcher

if TYPE_CHECKING:
    from raycompat._scheduler.call_table import Call
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.job_table import Job
    from raycompat._scheduler.metrics import Metrics
    from raycompat._scheduler.run_times import RunTimes
    from raycompat._scheduler.state import State

#: Actors that have died, for the page: it shows those of the last minutes.
_MANY_DEATHS = 200


class Endings(Watcher):
    """Records the calls, actors and jobs that have ended."""

    def __init__(
        self, ground: Ground, history: History, run_times: RunTimes, state: State, metrics: Metrics
    ) -> None:
        self._ground = ground
        self._run_times = run_times
        self._state = state
        self._metrics = metrics
        self.history = history
        #: The last actors that have died and were not ended by their programs, and when.
        self.deaths: deque[tuple[float, ActorRow]] = deque(maxlen=_MANY_DEATHS)
        #: The calls of each actor that have ended, by its key, until it is forgotten.
        self.calls_of_actors: dict[str, Function] = {}

    def on_spans(self, worker: str, message: Spans) -> None:
        """Record ended calls of an actor or a lease, as its process reports them."""
        key, pid = message.key, message.pid
        ended = [Span.from_wire(each) for each in message.spans]
        self._run_times.show(worker, key, pid, ended, message.job)
        party = self._ground.calls.by_key.get(key)
        is_actor = ids.is_of_actor(key)
        resources: dict[str, float] = {}
        if party is not None and not is_actor:
            resources = party.request.amounts()
        is_internal = is_actor and self._is_internal(key)
        of_actor = None
        if key in self._ground.actors.rows:
            of_actor = self.calls_of_actors.get(key)
            if of_actor is None:  # its page shows no durations
                of_actor = self.calls_of_actors[key] = Function(durations=deque(maxlen=0))
        for span in ended:
            function = span.key.rpartition("-")[0]
            calls = EndedCalls(
                name=span.name,
                type="ACTOR_TASK" if is_actor else "NORMAL_TASK",
                job=message.job,
                actor=key.rpartition("-")[2] if is_actor else None,
                group=group_of(party),
                resources=resources,
                address=worker,
                pid=pid,
                failure=span.failure,
                count=span.num_calls,
                calls=span.calls,
                function="" if is_actor or function == span.name else function,
                is_internal=is_internal,
            )
            self.history.add(calls)
            if of_actor is not None:
                of_actor.add(calls, time.time())

    def on_failed_call(self, client: str, message: FailedCall) -> None:
        """Record a failed call that only its caller knows of."""
        key, name, party = message.key, message.name, message.party
        group = message.group
        if party is not None:
            group = group_of(self._ground.calls.by_key.get(party))
        now = time.time()
        function = key.rpartition("-")[0]
        self.history.add_one(
            key,
            now,
            now,
            name=name,
            type="NORMAL_TASK" if party is None else "ACTOR_TASK",
            job=message.job,
            actor=None if party is None else party.rpartition("-")[2],
            group=group,
            resources=ResourceSet.from_units(message.resources).amounts(),
            address="",
            pid=None,
            failure=Failure(*message.failure),
            function="" if party is not None or function == name else function,
            is_internal=party is not None and self._is_internal(party),
        )

    def _is_internal(self, actor: str) -> bool:
        """Return whether raycompat's own code has made an actor, which may be forgotten."""
        row = self._ground.actors.rows.get(actor)
        if row is None:  # its process reports its last calls later
            return self.history.was_internal(actor.rpartition("-")[2])
        return row.is_internal

    def ran(
        self,
        key: str,
        *,
        failed: bool,
        startstops: list[Row] | None,
        worker: str,
        thread: int = 0,
        **_: object,
    ) -> None:
        """Record a call that the scheduler sent to a node: Dask reports when and where it ran."""
        call = self._ground.calls.by_key.get(key)
        if call is None or call.spec["kind"] != "task" or call.results is not None:
            return  # a call that its owner has run is in a span
        name = call.spec["name"]
        times = [each for each in startstops or [] if each["action"] == "compute"]
        start, stop = (times[-1]["start"], times[-1]["stop"]) if times else (0.0, 0.0)
        if times:
            about = (worker, call.pid or thread, name, ids.task_hex(key), 1)
            ran = Ran(*about, start, stop, failed, call.phases, call.spec["job"])
            self._run_times.ran(ran)
        failure = self._why(key) if failed else None
        self._add(key, call, start, stop, worker, call.pid, failure)

    def failed(self, key: str) -> None:
        """Record a call that failed before it ran: it was cancelled, or an argument failed."""
        call = self._ground.calls.by_key.get(key)
        if call is not None and call.spec["kind"] == "task":
            now = time.time()
            self._add(key, call, now, now, "", None, self._why(key))

    def tried(self, key: str, worker: str, failure: Failure) -> None:
        """Record a failed try of a call, which its node tries again."""
        call = self._ground.calls.by_key.get(key)
        if call is not None:
            now = time.time()
            self._add(key, call, call.started or now, now, worker, None, failure)

    def _why(self, key: str) -> Failure:
        error = self._ground.owners.errors.get(key)
        return failures.failure_of(error) if error is not None else Failure("", "")

    def _add(
        self,
        key: str,
        call: Call,
        start: float,
        stop: float,
        worker: str,
        pid: int | None,
        failure: Failure | None,
    ) -> None:
        self.history.add_one(
            key,
            start,
            stop,
            name=call.spec["name"],
            type="NORMAL_TASK",
            job=call.spec["job"],
            actor=None,
            group=group_of(call),
            resources=call.request.amounts(),
            address=worker,
            pid=pid,
            failure=failure,
            function=key.rpartition("-")[0],
        )

    def actor_came(self, row: ActorRow, call: Call) -> None:
        """Record that the constructor of an actor has ended: the actor accepts calls now."""
        now = time.time()
        self._add_constructor(row, call.started or now, now, call, None)

    def actor_died(self, row: ActorRow, error: bytes) -> None:
        """Record an actor that has died, unless its program has ended it."""
        if not failures.is_expected(error):
            name = f"{row.class_name} ({row.name})" if row.name else row.class_name
            text = f"The actor {name} has died: {failures.last_line(failures.text_of(error))}"
            actor_id = row.key.rpartition("-")[2]
            self._ground.events.note("ERROR", "GCS", text, actor_id=actor_id, job_id=row.job)
            self.deaths.append(
                (
                    time.time(),
                    replace(row, about=b"", watchers=set(), error=failures.for_pages(error)),
                )
            )

    def actor_left(self, row: ActorRow) -> None:
        """Record an actor that is about to be forgotten, as the state API describes it."""
        is_expected = row.error is None or failures.is_expected(row.error)
        described = self._state.actors.describe(row)
        is_internal = row.is_internal
        self.history.actors.append(
            {**described, "is_expected": is_expected, "is_internal": is_internal}
        )
        self.calls_of_actors.pop(row.key, None)

    def actor_failed(self, row: ActorRow, call: Call, error: bytes) -> None:
        """Record that an actor died before it accepted calls."""
        now = time.time()
        failure = failures.failure_of(error)._replace(type="ACTOR_CREATION_FAILED")
        self._add_constructor(row, call.started or now, now, call, failure)

    def _add_constructor(
        self, row: ActorRow, start: float, stop: float, call: Call, failure: Failure | None
    ) -> None:
        # The task of a constructor has the id of its actor, filled with zeros.
        task = ids.task_hex(row.key).ljust(2 * ids.TASK_ID_BYTES, "0")
        name = constructor_of(row)
        self.history.add_one(
            f"{name}-{task}",
            start,
            stop,
            name=name,
            type="ACTOR_CREATION_TASK",
            job=row.job,
            actor=row.key.rpartition("-")[2],
            group=group_of(call),
            resources=ResourceSet.from_units(call.spec["keep"]).amounts(),
            address=row.address or "",
            pid=row.pid,
            failure=failure,
            is_internal=row.is_internal,
        )

    def forgotten(self, key: str) -> None:
        """Forget what counts in Dask's progress."""
        self._run_times.forget(key)

    def process_left(self, who: str) -> None:
        """Note that the processes of a node or client have ended."""
        self._metrics.lose(who)

    def job_left(self, job: Job) -> None:
        """Record a job that has ended, as the state API describes it, if it has a row."""
        if not self._state.cluster.has_row(job):
            return
        self.history.jobs.append(self._state.cluster.describe_job(job))
