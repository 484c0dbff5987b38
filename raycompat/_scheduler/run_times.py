"""The times of calls, for Dask's task stream, its progress bars, and the timeline of the program.

Actors and leases report their calls in batches; Dask reports the calls that the scheduler has sent.
The calls of an actor or a lease count in the progress until the actor or lease ends. Tasks count until
Dask forgets them.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from raycompat._protocol import ids
from raycompat._protocol.spans import Ran, Span
from raycompat._scheduler.history import MANY_SPANS

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler


#: The most names of one actor or lease that count in the progress: Dask stores 3 KB for each.
_MANY_NAMES = 200


class RunTimes:
    """Records the times of calls for Dask's pages and for `timeline`."""

    def __init__(self, dask: DaskScheduler, note_end: Callable[[str], None]) -> None:
        """`note_end` is called with each name whose calls do not count any more."""
        self._dask = dask
        self._note_end = note_end
        #: The number of calls by actor or lease, then by name and Dask's state.
        self._counted: dict[str, Counter[tuple[str, str]]] = {}
        self._spans: deque[Ran] = deque(maxlen=MANY_SPANS)
        #: The number of all spans so far, with those that were dropped.
        self._num_spans = 0

    def show(self, worker: str, key: str, pid: int, spans: list[Span], job: str) -> None:
        """Add spans of calls of an actor or a lease of a job."""
        self._dask.show_in_task_stream(worker, pid, spans)
        for span in spans:
            task, failed = ids.task_hex(span.key), span.failure is not None
            times = (span.num_calls, span.start, span.stop, failed, span.phases, job)
            self.ran(Ran(worker, pid, span.name, task, *times))
        if not self._dask.known(key):
            return
        counted = self._counted.setdefault(key, Counter())
        for span in spans:
            name, count = span.name, span.num_calls
            state = "erred" if span.failure is not None else "released"
            if (name, state) not in counted and len(counted) >= _MANY_NAMES:
                continue  # a program may give each call a different name
            counted[name, state] += count
            self._dask.count_in_progress(name, state, count)

    def ran(self, ran: Ran) -> None:
        """Add calls that have ended."""
        self._spans.append(ran)
        self._num_spans += 1

    def since(self, num_seen: int, most: int) -> tuple[list[Ran], int]:
        """Return the spans after the first `num_seen`, at most `most`; and the number of all spans."""
        num_new = min(most, self._num_spans - num_seen, len(self._spans))
        last = list(itertools.islice(reversed(self._spans), num_new))
        return last[::-1], self._num_spans

    async def timeline(self) -> list[Ran]:
        """Return the times of the last calls, in the order of the reports."""
        return list(self._spans)

    def forget(self, key: str) -> None:
        """Remove the calls of an actor or a lease from the progress: it has ended."""
        for (name, state), count in self._counted.pop(key, {}).items():
            self._dask.count_in_progress(name, state, -count)
            self._note_end(name)
