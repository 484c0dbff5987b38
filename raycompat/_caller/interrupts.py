"""Interrupts (Ctrl-C) put off while an operation of several steps is under way.

A step that has told the scheduler, or a table of this process, of something is followed by one that
relies on it. An exception between the two would leave half of it: a name that is taken for an actor
that never comes. So the steps run `deferred`, and what waits in between is `allowed` to be interrupted.

Only the main thread is ever interrupted. Python calls a signal's handler there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: The signal that interrupts: an executor has another one, for the cancellation of a call.
_number: int = signal.SIGINT

#: The handler that counts while interrupts are put off; None while they are not.
_handler: Callable[[int, FrameType | None], Any] | int | None = None
_has_come = False


def listen_to(number: int) -> None:
    """Choose another signal as the one that interrupts this process."""
    global _number
    _number = number


def _note(*_: object) -> None:
    global _has_come
    _has_come = True


def _deliver() -> None:
    """Call the handler for an interrupt that has been put off."""
    global _has_come
    if not _has_come:
        return
    _has_come = False
    handler = signal.getsignal(_number)
    if callable(handler):
        handler(_number, None)
    elif handler == signal.SIG_DFL:
        signal.raise_signal(_number)


@contextmanager
def deferred() -> Iterator[None]:
    """Put off interrupts until the end of the block; the outermost block counts."""
    global _handler
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or _handler is not None or signal.getsignal(_number) is None:
        yield
        return
    _handler = handler = signal.signal(_number, _note)
    try:
        yield
    finally:
        _handler = None
        signal.signal(_number, handler)
        _deliver()


class allowed:  # noqa: N801 - used like `deferred`
    """Within `deferred`: let interrupts come again, those too that have come meanwhile.

    A class, because a generator that is suspended at its ``yield`` when an interrupt comes would put
    interrupts off again at some later time, when it is collected.
    """

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        global _handler
        self._outer = None
        if threading.current_thread() is not threading.main_thread() or _handler is None:
            return
        self._outer, _handler = _handler, None
        try:
            signal.signal(_number, self._outer)
            _deliver()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        global _handler
        if self._outer is not None:
            _handler, self._outer = self._outer, None
            signal.signal(_number, _note)


def _forget_in_fork() -> None:
    """Leave the operation to the parent, which goes on with it."""
    global _handler, _has_come
    if _handler is not None:
        signal.signal(_number, _handler)
    _handler, _has_come = None, False


__all__ = ["allowed", "deferred", "listen_to"]
