"""Calls of an actor that must not wait for its methods: readers fetch the tensors that it keeps.

Usually the main thread of an actor reads callers' messages between two calls. Once the actor keeps
tensors, a thread reads them during a call too, and starts calls of `SYSTEM_GROUP` at once.
"""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

from raycompat._executor import threads

if TYPE_CHECKING:
    from raycompat._executor.mailbox import Mailbox


class Beside:
    """A thread that reads while the main thread is busy.

    Only one of the two reads: the main thread changes `_is_busy` while it holds the mailbox's lock, and
    the thread reads only if it finds the main thread busy under that lock. So no call is read after the
    main thread has looked for calls and before it waits for them.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        """Start the thread. Called during a call."""
        self._mailbox = mailbox
        self._is_busy = threading.Event()
        self._is_busy.set()
        self._poll = select.poll()
        self._poll.register(mailbox.fileno(), select.POLLIN)
        threads.start(self._read, "beside")

    def begin(self) -> None:
        """Note that the main thread runs a call."""
        self._is_busy.set()

    def end(self) -> None:
        """Note that the main thread reads again."""
        with self._mailbox.handling:
            self._is_busy.clear()

    def _read(self) -> None:
        while True:
            self._is_busy.wait()
            self._poll.poll()
            self._mailbox.read_arrived_if(self._is_busy.is_set)
