"""The history: the last ended calls, actors and jobs, and the durations of each function's calls.

Calls of actors and leases arrive as spans; the scheduler sees all others itself. All tables are
bounded.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from raycompat._protocol import failures
from raycompat._protocol.plain import Row
from raycompat._protocol.spans import Failure, pack, tasks_of, times_of

#: The numbers of ended calls, spans, actors and jobs that are kept. Consecutive calls of one function
#: in one process form one span; a span takes about 500 bytes in all tables.
MANY_CALLS, MANY_SPANS, _MANY_ACTORS, _MANY_JOBS = 100_000, 20_000, 1_000, 1_000

#: The number of functions with statistics, and the number of durations of each.
_MANY_FUNCTIONS, _MANY_DURATIONS = 1_000, 500

#: The number of durations that are taken from one span, evenly.
_TAKEN_OF_SPAN = 100

#: Seconds over which the rate is computed.
_RATE_S = 10

#: Seconds within which a process reports the end of a call.
_LATE_S = 120.0


_Key = TypeVar("_Key", str, tuple[str, str])


@dataclass(slots=True)
class EndedCalls:
    """Consecutive calls of one function in one process."""

    name: str
    #: Ray's name for the kind of task.
    type: str
    job: str
    #: The id of the actor, if there was one, and of the placement group.
    actor: str | None
    group: str | None
    resources: dict[str, float]
    address: str
    pid: int | None
    failure: Failure | None
    count: int
    #: The calls, as `_protocol.spans.pack` encodes them.
    calls: bytes
    #: The name of the function, if the call had another name.
    function: str = ""
    #: Whether they are of an actor that raycompat's own code has made.
    is_internal: bool = False
    #: When the scheduler got to know it, in seconds since 1970.
    reported: float = field(default_factory=time.time)


@dataclass(slots=True)
class Function:
    """The statistics of the ended calls of one function or method."""

    type: str = "NORMAL_TASK"
    num_done: int = 0
    num_failed: int = 0
    #: Whether all calls are of actors that raycompat's own code has made.
    is_internal: bool = True
    #: The type and the text of the last error; empty if no call has failed. That a program has
    #: cancelled a call or ended an actor counts as an error here only if there is no other one.
    last_error: str = ""
    #: The end of the traceback of the last error that had one.
    last_traceback: str = ""
    #: When the last such call ended, in seconds since 1970; 0 if there was none.
    failed_at: float = 0.0
    #: The durations of the last calls, in seconds.
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_MANY_DURATIONS))
    #: The number of calls that ended in each of the last seconds.
    _by_second: Counter[int] = field(default_factory=Counter)
    #: When the first call ended.
    _since: float | None = None
    #: What `quantiles` has returned since the last call ended.
    _quantiles: tuple[float, float, float] | None = None

    def add(self, ended: EndedCalls, now: float) -> None:
        """Add ended calls."""
        self.type = ended.type
        self.is_internal &= ended.is_internal
        self._since = now if self._since is None else self._since
        if ended.failure is None:
            self.num_done += ended.count
        else:
            self.num_failed += ended.count
            is_on_purpose = failures.is_on_purpose(ended.failure)
            if not is_on_purpose:
                # The process reports it later, and its clock may be wrong. Dask may know no time.
                stop = max(times_of(ended.calls)[ended.count :]) or now
                self.failed_at = min(now, max(stop, now - _LATE_S))
            if not is_on_purpose or not self.failed_at:
                self.last_error = failures.line_of(ended.failure)
                self.last_traceback = ended.failure.traceback or self.last_traceback
        # Calls that have failed before they ran have no duration.
        self.durations.extend(each for each in _durations(times_of(ended.calls)) if each)
        self._quantiles = None
        self._by_second[int(now)] += ended.count
        if len(self._by_second) > 2 * _RATE_S:
            first = int(now) - _RATE_S
            self._by_second = Counter({s: n for s, n in self._by_second.items() if s >= first})

    def rate(self, now: float) -> float:
        """Return the number of calls that ended per second, over the last ten seconds at most."""
        if self._since is None:
            return 0.0
        first, seconds = int(now) - _RATE_S, min(_RATE_S, max(1.0, now - self._since))
        ended = sum(count for second, count in self._by_second.items() if second >= first)
        return ended / seconds

    def quantiles(self) -> tuple[float, float, float] | None:
        """Return the median, the 95th percentile and the maximum of the last durations, in seconds.

        Return None if no call has run.
        """
        if self._quantiles is None and self.durations:
            ordered = sorted(self.durations)
            last = len(ordered) - 1
            self._quantiles = ordered[last // 2], ordered[-(-last * 95 // 100)], ordered[last]
        return self._quantiles


def _durations(times: array[float]) -> Iterator[float]:
    count = len(times) // 2
    step = -(-count // _TAKEN_OF_SPAN)
    return (times[count + number] - times[number] for number in range(0, count, max(1, step)))


class History:
    """Bounded tables of ended calls, actors and jobs."""

    def __init__(self) -> None:
        self._ended: deque[EndedCalls] = deque()
        self._num_ended = 0
        #: All calls that have failed, and by job the calls that have succeeded and failed.
        self.num_failed = 0
        self.by_job: OrderedDict[str, list[int]] = OrderedDict()
        #: The number of calls that were dropped from the table.
        self.num_dropped = 0
        #: The number of failed attempts of each task in the table, by the task's id.
        self._failures: Counter[bytes] = Counter()
        #: The functions by name, and by job and name.
        self._functions: OrderedDict[str, Function] = OrderedDict()
        self._of_jobs: OrderedDict[tuple[str, str], Function] = OrderedDict()
        #: Descriptions of forgotten actors and ended jobs, for the state API.
        self.actors: deque[Row] = deque(maxlen=_MANY_ACTORS)
        self.jobs: deque[Row] = deque(maxlen=_MANY_JOBS)

    def add(self, ended: EndedCalls) -> None:
        """Add ended calls."""
        self._count(ended)
        now = time.time()
        _function(self._functions, ended.name).add(ended, now)
        _function(self._of_jobs, (ended.job, ended.name)).add(ended, now)
        if ended.failure is not None and ended.failure.traceback:  # the function has it, once
            ended.failure = ended.failure._replace(traceback="")
        self._ended.append(ended)
        self._num_ended += ended.count
        if ended.failure is not None:
            self._failures.update(tasks_of(ended.calls))
        while self._num_ended > MANY_CALLS or len(self._ended) > MANY_SPANS:
            self._drop(self._ended.popleft())

    def _count(self, ended: EndedCalls) -> None:
        has_failed = ended.failure is not None
        self.num_failed += ended.count * has_failed
        self.by_job.setdefault(ended.job, [0, 0])[has_failed] += ended.count
        self.by_job.move_to_end(ended.job)
        if len(self.by_job) > _MANY_JOBS:
            self.by_job.popitem(last=False)

    def add_one(self, key: str, start: float, stop: float, **about: Any) -> None:
        """Add one call."""
        self.add(EndedCalls(count=1, calls=pack([(key, start, stop)]), **about))

    def was_internal(self, actor: str) -> bool:
        """Return whether raycompat's own code has made an actor that was forgotten, by its id."""
        found = (each for each in self.actors if each["actor_id"] == actor)
        return any(each["is_internal"] for each in found)

    def __len__(self) -> int:
        return self._num_ended

    def _drop(self, oldest: EndedCalls) -> None:
        self._num_ended -= oldest.count
        self.num_dropped += oldest.count
        if oldest.failure is not None:
            for task in tasks_of(oldest.calls):
                self._failures[task] -= 1
                if not self._failures[task]:
                    del self._failures[task]

    def calls(self) -> list[EndedCalls]:
        """Return the ended calls, the oldest first."""
        return list(self._ended)

    def num_failures(self, task: str) -> int:
        """Return the number of failed attempts of a task in the table."""
        return self._failures.get(bytes.fromhex(task), 0) if self._failures else 0

    def finished_among(self, tasks: Iterable[str], since: float) -> set[str]:
        """Return those of these tasks that have succeeded, as was reported since a time."""
        wanted = set(map(bytes.fromhex, tasks))
        if not wanted:
            return set()
        found: set[str] = set()
        for ended in reversed(self._ended):
            if ended.reported < since:
                break
            if ended.failure is None:
                found.update(each.hex() for each in tasks_of(ended.calls) if each in wanted)
        return found

    @property
    def functions(self) -> dict[str, Function]:
        """The functions and methods with ended calls, by name."""
        return self._functions

    def functions_of(self, job: str) -> dict[str, Function]:
        """Return the functions and methods with ended calls of a job, by name."""
        return {name: each for (of, name), each in self._of_jobs.items() if of == job}


def _function(table: OrderedDict[_Key, Function], key: _Key) -> Function:
    """Return a function of a bounded table, which it is moved to the end of or added to."""
    function = table.get(key)
    if function is None:
        function = table[key] = Function()
        if len(table) > _MANY_FUNCTIONS:
            table.popitem(last=False)
    else:
        table.move_to_end(key)
    return function
