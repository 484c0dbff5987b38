"""Waiting until one of many descriptors is ready, or until another thread ends the wait."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Final

#: Events of a descriptor; the last is reported also where it is not registered.
READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
HUNG_UP: Final = select.EPOLLHUP | select.EPOLLERR


class Poller:
    """The descriptors that are registered, and `wake_descriptor`, which `wake` makes readable.

    The methods that take a descriptor are those of ``select.epoll`` themselves: some callers are on the
    path of every call.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        #: Ready when `wake` was called.
        self.wake_descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._is_closed = False
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        #: Waits for at most so many seconds; returns pairs of a descriptor and its events.
        self.poll = self._epoll.poll
        #: Returns a descriptor that is readable when a registered one is ready.
        self.fileno = self._epoll.fileno
        self.register(self.wake_descriptor, READABLE)

    def wake(self) -> None:
        """End a `poll`, the current one or the next, from any thread."""
        with self._lock:
            if not self._is_closed:
                os.eventfd_write(self.wake_descriptor, 1)

    def rest(self) -> None:
        """Take back all calls of `wake`."""
        with contextlib.suppress(BlockingIOError):  # another thread was quicker
            os.eventfd_read(self.wake_descriptor)

    def close(self) -> None:
        """Close the descriptors of this object; `wake` does nothing from now on."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._epoll.close()
                os.close(self.wake_descriptor)


def is_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Wait until a descriptor is readable; return whether it is, in time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))
