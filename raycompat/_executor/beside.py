"""Calls of an actor that must not wait for its methods: readers fetch the tensors that it keeps.

Usually the main thread of an actor reads callers' messages between two calls. Once the actor keeps
tensors, a thread reads them during a call too, and starts calls of `SYSTEM_GROUP` at once.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable

from raycompat._executor import threads


class Beside:
    """A thread that reads while the main thread is busy.

    Only one of the two reads: the main thread changes `_is_busy` while it holds the mailbox's lock, and
    the thread reads only if it finds the main thread busy under that lock. So no call is read after the
    main thread has looked for calls and before it waits for them.

    Parameters
    ----------
    descriptor : int
        Where messages arrive.
    lock : Lock
        The mailbox's, which it holds while it reads.
    read_if : callable
        Reads what has arrived if a condition holds under that lock.
    """

    def __init__(
        self,
        descriptor: int,
        lock: threading.Lock,
        read_if: Callable[[Callable[[], bool]], object],
    ) -> None:
        """Start the thread. Called during a call."""
        self._lock, self._read_if = lock, read_if
        self._is_busy = threading.Event()
        self._is_busy.set()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        threads.start(self._read, "beside")

    def begin(self) -> None:
        """Note that the main thread runs a call."""
        self._is_busy.set()

    def end(self) -> None:
        """Note that the main thread reads again."""
        with self._lock:
            self._is_busy.clear()

    def _read(self) -> None:
        while True:
            self._is_busy.wait()
            self._poll.poll()
            self._read_if(self._is_busy.is_set)
