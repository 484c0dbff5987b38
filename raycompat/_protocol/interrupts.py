"""Delaying interrupts (Ctrl-C) while an operation of several steps is in progress.

Some steps change the state of the scheduler, or of a table in this process, and the next step relies on
the change. An exception between them would leave half of the operation: for example, a name that is
reserved for an actor that is never created. So the steps run `deferred`, and inside them, waits are
`allowed` to be interrupted.

Only the main thread is interrupted: Python calls signal handlers there.
"""

from __future__ import annotations

# The functions of `signal` without the conversion to enumerations: a tenth of the time.
import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

#: The signal that interrupts. An executor uses another one, to cancel a call.
_number: int = signal.SIGINT

#: The handler to call after the deferral; None while interrupts are not deferred.
_handler: Callable[[int, FrameType | None], Any] | int | None = None
_has_come = False


def listen_to(number: int) -> None:
    """Set the signal that interrupts this process."""
    global _number
    _number = number


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _note(*_: object) -> None:
    global _has_come
    _has_come = True


def _deliver() -> None:
    """Call the handler for an interrupt that was deferred."""
    global _has_come
    if not _has_come:
        return
    _has_come = False
    handler = signal.getsignal(_number)
    if callable(handler):
        handler(_number, None)
    elif handler == signal.SIG_DFL:
        signal.raise_signal(_number)


class deferred:  # noqa: N801 - used like a function
    """Defer interrupts until the block ends; with nested blocks, until the outermost one ends."""

    __slots__ = ("_is_outermost",)

    def __enter__(self) -> None:
        global _handler
        self._is_outermost = False
        if not _is_main_thread() or _handler is not None:
            return
        if (
            _signal.getsignal(_number) is None
        ):  # a handler that is not Python's could not be restored
            return
        _handler = _signal.signal(_number, _note)
        self._is_outermost = True

    def __exit__(self, *_: object) -> None:
        global _handler
        if self._is_outermost and _handler is not None:  # None: in a forked child
            handler, _handler = _handler, None
            _signal.signal(_number, handler)
            _deliver()


class allowed:  # noqa: N801 - used like `deferred`
    """Allow interrupts inside `deferred`, and deliver those that were deferred so far.

    This is a class, because an interrupt can suspend a generator at its ``yield``. Such a generator
    would defer interrupts again later, when it is collected.
    """

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        global _handler
        self._outer = None
        if not _is_main_thread() or _handler is None:
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
    """Drop the deferral in a forked process: the parent continues the operation."""
    global _handler, _has_come
    if _handler is not None:
        signal.signal(_number, _handler)
    _handler, _has_come = None, False


os.register_at_fork(after_in_child=_forget_in_fork)

__all__ = ["allowed", "deferred", "listen_to"]
