"""When the calls of an actor or a lease ran: reported to its node now and then, for Dask's task stream.

Short calls of one method that follow one another closely are one span, so that a hundred thousand calls
a second cost a few spans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

#: Seconds between two reports, and the length at which a span of many calls ends.
REPORT_S = 0.25

#: Seconds between two calls that are shown as one.
_GAP_S = 0.001

#: What is reported of one method or function: name, key of the first call, number of calls, start, end
#: (in seconds since 1970), and whether they failed.
Span = tuple[str, str, int, float, float, bool]


class Timeline:
    """See the module. `report` is called with the spans, in whatever thread adds one."""

    def __init__(self, report: Callable[[list[Span]], None]) -> None:
        self._report = report
        self._spans: list[Span] = []
        self._reported = 0.0
        self._lock = threading.Lock()

    def add(self, name: str, key: str, start: float, stop: float, *, failed: bool = False) -> None:
        """Enter a call that has ended."""
        with self._lock:
            if self._spans:
                last, first_key, count, begun, ended, had_failed = self._spans[-1]
                same = last == name and had_failed == failed
                if same and start - ended < _GAP_S and stop - begun < REPORT_S:
                    self._spans[-1] = (name, first_key, count + 1, begun, max(ended, stop), failed)
                    return
            self._spans.append((name, key, 1, start, stop, failed))
        if stop - self._reported > REPORT_S:
            self._reported = stop
            self.flush()

    def flush(self) -> bool:
        """Report what there is; False when there is nothing."""
        with self._lock:
            spans, self._spans = self._spans, []
        if spans:
            self._report(spans)
        return bool(spans)
