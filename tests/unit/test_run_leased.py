"""The thread that looks after a leased executor's calls."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace

from raycompat._executor.run_leased import Lease


class OverMeanwhile(threading.Event):
    """Report to a waiting thread that the lease continues, but end it before the thread reads that."""

    def __init__(self, is_busy: threading.Event) -> None:
        super().__init__()
        self._is_busy = is_busy

    def wait(self, timeout: float | None = None) -> bool:
        was_set = self.is_set()
        self.set()
        self._is_busy.set()
        return was_set


def test_the_watch_ends_when_the_lease_is_over_while_it_looks():
    lease = object.__new__(Lease)
    lease._lock, lease._is_busy = threading.Lock(), threading.Event()
    lease._is_over = OverMeanwhile(lease._is_busy)
    lease._running, lease._num_begun = None, 1
    lease._mailbox = SimpleNamespace(calls=deque())
    lease._is_busy.set()
    watch = threading.Thread(target=lease._watch, daemon=True)
    watch.start()
    watch.join(10)
    assert not watch.is_alive()
