"""The times of calls of an actor or a lease, which are reported to its node regularly, as spans.

Short calls of one method that follow closely form one span, so that a hundred thousand calls a second
need only a few spans.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from raycompat._protocol.spans import Ended, Failure, Phases, Span, pack

#: Seconds between two reports, and the maximum length of a span of several calls.
REPORT_S = 0.25

#: Seconds between two calls of the same span.
_GAP_S = 0.001

#: Characters of a failure's text that are kept.
_MANY_CHARACTERS = 300

#: When a call had its arguments and its function, and when user code has ended; 0 before that.
Marks = tuple[float, float]

#: A call that has ended: the name of its function, its key, its start and end, its failure, its marks.
_Call = tuple[str, str, float, float, Failure | None, Marks]


class Timeline:
    """The calls since the last report. `report` sends their spans, in the thread that adds a call."""

    def __init__(self, report: Callable[[list[Span]], None]) -> None:
        self._report = report
        #: Any thread appends; the one with the lock takes out.
        self._calls: deque[_Call] = deque()
        #: The traceback of the last failed call of each name, since the last report.
        self._tracebacks: dict[str, str] = {}
        self._reported = 0.0
        self._lock = threading.Lock()

    def add(
        self,
        name: str,
        key: str,
        start: float,
        stop: float,
        failure: Failure | None = None,
        marks: Marks = (0.0, 0.0),
    ) -> None:
        """Add a call that has ended."""
        if failure is not None:
            self._tracebacks[name] = failure.traceback
            failure = Failure(failure.type, failure.text[:_MANY_CHARACTERS])
        self._calls.append((name, key, start, stop, failure, marks))
        if stop - self._reported > REPORT_S:
            self._reported = stop
            self.flush()

    def flush(self) -> bool:
        """Report the calls; return False if there are none."""
        if not self._calls:
            return False
        with self._lock:
            calls = [self._calls.popleft() for _ in range(len(self._calls))]
            tracebacks, self._tracebacks = self._tracebacks, {}
        if calls:
            self._report(_with_tracebacks(list(spans_of(calls)), tracebacks))
        return bool(calls)


def _with_tracebacks(spans: list[Span], tracebacks: dict[str, str]) -> list[Span]:
    """Give the last failed span of each name its traceback: one of each is enough, for its size."""
    for number in reversed(range(len(spans))):
        if not tracebacks:
            break
        span = spans[number]
        if span.failure is not None and span.name in tracebacks:
            failure = span.failure._replace(traceback=tracebacks.pop(span.name))
            spans[number] = span._replace(failure=failure)
    return spans


def spans_of(calls: Iterable[_Call]) -> Iterator[Span]:
    """Join each call to those before it if they can be in one span."""
    ended: list[Ended] = []
    marked: list[Marks] = []
    of_span: tuple[str, Failure | None] = ("", None)
    first = last = 0.0
    for name, key, start, stop, failure, marks in calls:
        is_near = start - last < _GAP_S and stop - first < REPORT_S
        if not is_near or of_span != (name, failure):
            if ended:
                yield _span(*of_span, ended, marked, last)
            of_span, ended, marked, first, last = (name, failure), [], [], start, stop
        ended.append((key, start, stop))
        marked.append(marks)
        if stop > last:
            last = stop
    if ended:
        yield _span(*of_span, ended, marked, last)


def _span(
    name: str, failure: Failure | None, ended: list[Ended], marked: list[Marks], stop: float
) -> Span:
    key, start, _ = ended[0]
    of_calls = [
        Phases.between(begun, *marks, end)
        for (_, begun, end), marks in zip(ended, marked, strict=True)
    ]
    phases = Phases(*map(sum, zip(*of_calls, strict=True)))
    return Span(name, key, len(ended), start, stop, failure, pack(ended), phases)
