"""What has ended: the last calls, actors and jobs, and how long the calls of each function took.

Calls of actors and leases come as spans; the scheduler sees the others itself. All tables are bounded.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from raycompat._protocol.spans import Failure, pack, tasks_of, times_of

#: Calls that have ended, and actors and jobs, that are kept: the last ones.
MANY_CALLS, _MANY_ACTORS, _MANY_JOBS = 100_000, 1_000, 1_000

#: Functions of which statistics are kept, and durations of each: the last ones.
_MANY_FUNCTIONS, _MANY_DURATIONS = 1_000, 500

#: Durations that are taken of one span, evenly.
_TAKEN_OF_SPAN = 100

#: Seconds for which the rate is counted.
_RATE_S = 10


@dataclass(slots=True)
class EndedCalls:
    """Calls of one function that have run one after the other in one process."""

    name: str
    #: What Ray calls the kind of task.
    type: str
    job: str
    #: The id of the actor, if it was one, and of the placement group.
    actor: str | None
    group: str | None
    resources: dict[str, float]
    address: str
    pid: int | None
    failure: Failure | None
    count: int
    #: See `_protocol.spans.pack`.
    calls: bytes
    #: The function's own name, if the call was given another.
    function: str = ""


@dataclass(slots=True)
class Function:
    """What is known of the calls of one function or method that have ended."""

    type: str = "NORMAL_TASK"
    num_done: int = 0
    num_failed: int = 0
    #: Seconds that the last calls took.
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_MANY_DURATIONS))
    #: How many have ended in each of the last seconds, by the second.
    _by_second: Counter[int] = field(default_factory=Counter)

    def add(self, ended: EndedCalls, now: float) -> None:
        """Count calls that have ended."""
        self.type = ended.type
        if ended.failure is None:
            self.num_done += ended.count
        else:
            self.num_failed += ended.count
        self.durations.extend(_durations(times_of(ended.calls)))
        self._by_second[int(now)] += ended.count
        if len(self._by_second) > 2 * _RATE_S:
            first = int(now) - _RATE_S
            self._by_second = Counter({s: n for s, n in self._by_second.items() if s >= first})

    def rate(self, now: float) -> float:
        """Return how many calls have ended a second, in the last ten."""
        first = int(now) - _RATE_S
        return sum(count for second, count in self._by_second.items() if second >= first) / _RATE_S

    def quantiles(self) -> tuple[float, float, float]:
        """Return the median, the 95th percentile and the longest of the last durations, in seconds."""
        ordered = sorted(self.durations)
        if not ordered:
            return 0.0, 0.0, 0.0
        last = len(ordered) - 1
        return ordered[last // 2], ordered[-(-last * 95 // 100)], ordered[last]


def _durations(times: array[float]) -> Iterator[float]:
    count = len(times) // 2
    step = -(-count // _TAKEN_OF_SPAN)
    return (times[count + number] - times[number] for number in range(0, count, max(1, step)))


class History:
    """See the module."""

    def __init__(self) -> None:
        self._ended: deque[EndedCalls] = deque()
        self._num_ended = 0
        #: Calls that were dropped from the table.
        self.num_dropped = 0
        #: How many attempts of a task have failed that are in the table, by the task's id.
        self._failures: Counter[bytes] = Counter()
        self._functions: OrderedDict[str, Function] = OrderedDict()
        #: Actors that have been forgotten, and jobs that have ended, described for the state.
        self.actors: deque[dict[str, Any]] = deque(maxlen=_MANY_ACTORS)
        self.jobs: deque[dict[str, Any]] = deque(maxlen=_MANY_JOBS)

    def add(self, ended: EndedCalls) -> None:
        """Enter calls that have ended."""
        self._ended.append(ended)
        self._num_ended += ended.count
        if ended.failure is not None:
            self._failures.update(tasks_of(ended.calls))
        while self._num_ended > MANY_CALLS:
            self._drop(self._ended.popleft())
        function = self._functions.get(ended.name)
        if function is None:
            function = self._functions[ended.name] = Function()
            if len(self._functions) > _MANY_FUNCTIONS:
                self._functions.popitem(last=False)
        else:
            self._functions.move_to_end(ended.name)
        function.add(ended, time.time())

    def add_one(self, key: str, start: float, stop: float, **about: Any) -> None:
        """Enter one call."""
        self.add(EndedCalls(count=1, calls=pack([(key, start, stop)]), **about))

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
        """Return the calls that have ended, the oldest first."""
        return list(self._ended)

    def num_failures(self, task: str) -> int:
        """Return how many attempts of a task have failed that are in the table."""
        return self._failures.get(bytes.fromhex(task), 0) if self._failures else 0

    def finished_among(self, tasks: Iterable[str]) -> set[str]:
        """Return which of these tasks have succeeded."""
        wanted = set(map(bytes.fromhex, tasks))
        if not wanted:
            return set()
        return {
            task.hex()
            for ended in self._ended
            if ended.failure is None
            for task in tasks_of(ended.calls)
            if task in wanted
        }

    @property
    def functions(self) -> dict[str, Function]:
        """The functions and methods whose calls have ended, by name."""
        return self._functions
