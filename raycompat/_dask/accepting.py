"""How the listeners of a scheduler or node accept connections: floods must not shut out others.

A process has a limit of open files, and each connection takes one. So a connection must identify itself
within seconds, only some may be in that state at a time, and a listener that cannot open a file pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from tornado.ioloop import IOLoop

from raycompat._host import open_files
from raycompat._host.open_files import NO_FILE_IS_LEFT, PAUSE_S

logger = logging.getLogger(__name__)

#: Seconds for a new connection to identify itself, which takes milliseconds.
IDENTIFY_S = 10.0

#: A timer that is so many seconds late shows that the event loop was busy, and has read nothing.
_HELD_UP_S = 0.5

#: The most connections that have not identified themselves, and the share of all files for them.
_MANY_UNIDENTIFIED, _SHARE = 512, 4

#: Connections that are accepted in one round of the event loop.
_AT_ONCE = 128

#: The functions that close the connections that have not identified themselves, the oldest first.
_unidentified: dict[object, Callable[[], None]] = {}


@contextlib.contextmanager
def identifying(close: Callable[[], None]) -> Iterator[None]:
    """Let a new connection identify itself in this block; call `close` if that takes too long.

    `close` is also called when there are many later ones that have not done so.
    """
    token, loop = object(), asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look_later() -> None:
        nonlocal timer
        timer = loop.call_later(IDENTIFY_S, look, time.monotonic() + IDENTIFY_S)

    def look(due: float) -> None:
        if time.monotonic() - due > _HELD_UP_S:
            look_later()
        else:
            close()

    look_later()
    _unidentified[token] = close
    if len(_unidentified) > _most():
        _unidentified.pop(next(iter(_unidentified)))()
    try:
        yield
    finally:
        timer.cancel()
        _unidentified.pop(token, None)


def _most() -> int:
    limit = open_files.limit()
    return _MANY_UNIDENTIFIED if limit is None else min(_MANY_UNIDENTIFIED, limit // _SHARE)


def add_accept_handler(
    sock: socket.socket, callback: Callable[[socket.socket, object], None]
) -> Callable[[], None]:
    """Call `callback` with each connection that a listener accepts, and its address.

    Return the function that stops this. It has the interface of tornado's function of this name.
    """
    door = _Door(sock, callback)
    door.open()
    return door.close


class _Door:
    """A listener in the event loop."""

    def __init__(
        self, listener: socket.socket, callback: Callable[[socket.socket, Any], None]
    ) -> None:
        self._listener, self._callback = listener, callback
        self._loop = IOLoop.current()
        self._is_closed = False

    def open(self) -> None:
        """Accept connections from now on."""
        if not self._is_closed:
            self._loop.add_handler(self._listener, self._accept_some, IOLoop.READ)

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        self._loop.remove_handler(self._listener)

    def _accept_some(self, *_event: object) -> None:
        for _ in range(_AT_ONCE):
            if self._is_closed:
                return
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:  # it was closed while it waited
                continue
            except OSError as error:
                if error.errno not in NO_FILE_IS_LEFT:
                    raise
                self._pause(error)
                return
            self._callback(connection, address)

    def _pause(self, error: OSError) -> None:
        logger.error("A new connection waits %.1f s, because: %s", PAUSE_S, error)
        self._loop.remove_handler(self._listener)
        self._loop.call_later(PAUSE_S, self.open)
