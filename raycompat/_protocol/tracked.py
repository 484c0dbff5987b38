"""What a program reports of its experiments, for the dashboard: each process sends it once a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from raycompat._protocol.delayed_flush import DelayedFlush

#: Records of one message. Further reports of figures are not sent; the next message has later ones.
_MANY_RECORDS = 10_000

#: The kinds of records, each with its fields: EXPERIMENT (id, name, kind, metric, mode, job), TRIAL
#: (id, trial, state, parameters, error), FIGURES (id, trial, step, figures, time in seconds since
#: 1970), END (id).
EXPERIMENT, TRIAL, FIGURES, END = "experiment", "trial", "figures", "end"


class Tracker:
    """The records of one process; `send` sends them, `later(seconds, function)` is a timer."""

    def __init__(
        self,
        send: Callable[[list[Any]], None],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._send = send
        # A finalizer can record while this thread holds the lock.
        self._lock = threading.RLock()
        self._records: list[tuple[Any, ...]] = []
        self._delayed = DelayedFlush(self.flush, later)

    def note(self, *record: object) -> None:
        """Send a record within a second."""
        with self._lock:
            if len(self._records) >= _MANY_RECORDS and record[0] == FIGURES:
                return
            self._records.append(record)
        self._delayed.schedule()

    def flush(self) -> None:
        """Send the records that there are."""
        self._delayed.begin()
        with self._lock:
            records, self._records = self._records, []
        if records:
            self._send(records)
