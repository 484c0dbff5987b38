"""When the calls of an actor or a lease ran: reported to its node now and then, as spans.

Short calls of one method that follow one another closely are one span, so that a hundred thousand calls
a second cost a few spans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from raycompat._protocol.spans import Ended, Failure, Span, pack

#: Seconds between two reports, and the length at which a span of many calls ends.
REPORT_S = 0.25

#: Seconds between two calls that are shown as one.
_GAP_S = 0.001

#: Characters of what is said of a failure.
_MANY_CHARACTERS = 300


@dataclass(slots=True)
class _OpenSpan:
    """A span that may get more calls; these are given by their keys."""

    name: str
    failure: Failure | None
    start: float
    stop: float
    calls: list[Ended]

    def close(self) -> Span:
        calls = self.calls
        return Span(
            self.name, calls[0][0], len(calls), self.start, self.stop, self.failure, pack(calls)
        )


class Timeline:
    """See the module. `report` is called with the spans, in whatever thread adds one."""

    def __init__(self, report: Callable[[list[Span]], None]) -> None:
        self._report = report
        self._spans: list[_OpenSpan] = []
        self._reported = 0.0
        self._lock = threading.Lock()

    def add(
        self, name: str, key: str, start: float, stop: float, failure: Failure | None = None
    ) -> None:
        """Enter a call that has ended."""
        if failure is not None:
            failure = Failure(failure.type, failure.text[:_MANY_CHARACTERS])
        with self._lock:
            if self._spans:
                last = self._spans[-1]
                same = last.name == name and last.failure == failure
                if same and start - last.stop < _GAP_S and stop - last.start < REPORT_S:
                    last.calls.append((key, start, stop))
                    last.stop = max(last.stop, stop)
                    return
            self._spans.append(_OpenSpan(name, failure, start, stop, [(key, start, stop)]))
        if stop - self._reported > REPORT_S:
            self._reported = stop
            self.flush()

    def flush(self) -> bool:
        """Report what there is; False when there is nothing."""
        with self._lock:
            spans, self._spans = self._spans, []
        if spans:
            self._report([span.close() for span in spans])
        return bool(spans)
