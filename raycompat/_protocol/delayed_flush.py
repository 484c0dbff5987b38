"""A flush that is scheduled by the first record of a batch, and survives interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from raycompat._host import interrupts

#: Seconds from the first record of a batch to its message.
PERIOD_S = 1.0


class DelayedFlush:
    """Calls `flush` a second after the first `schedule`; `later(seconds, function)` is a timer."""

    def __init__(
        self, flush: Callable[[], None], later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._flush, self._later = flush, later
        # A finalizer can record a value while this thread holds the lock.
        self._lock = threading.RLock()
        self._is_due = False

    def schedule(self) -> None:
        """Schedule a flush unless one is due. Call it after the record."""
        if self._is_due:
            return
        with interrupts.deferred():
            with self._lock:
                is_first, self._is_due = not self._is_due, True
            if is_first:
                try:
                    self._later(PERIOD_S, self._flush)
                except BaseException:  # no thread can start now, so the next record schedules it
                    self._is_due = False
                    raise

    def begin(self) -> None:
        """Record that a flush begins: later records need another one. Call it before it takes them."""
        self._is_due = False
