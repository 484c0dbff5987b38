"""Delaying interrupts (Ctrl-C) while an operation of several steps is in progress.

Some steps change the state of the scheduler, or of a table in this process, and the next step relies on
the change. An exception between them would leave half of the operation: for example, a name that is
reserved for an actor that is never created. So the steps run `deferred`, and inside them, waits are
`allowed` to be interrupted.

Only the main thread is interrupted: Python calls signal handlers there. In an executor, the handler
belongs to raycompat and reads a flag. In a driver it belongs to the program and is replaced during the
deferral.
"""

from __future__ import annotations

# The functions of `signal` without the conversion to enumerations: a tenth of the time.
import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]

#: The signal that interrupts. An executor uses another one, to cancel a call.
_number: int = signal.SIGINT

#: Whether the handler is raycompat's own, which reads `_is_deferred`: see `handle`.
_is_handled = False

#: The program's handler, while it is replaced during a deferral.
_replaced: _Handler | int | None = None

_is_deferred = False
_has_come = False

#: Calls that wait for the end of the deferral: see `call_later`.
_waiting: list[Callable[[], object]] = []

#: The identifier of the main thread.
_main_thread = threading.main_thread().ident


def handle(number: int, handler: _Handler) -> None:
    """Call `handler` for the signal `number`, which interrupts this process from now on."""
    global _number, _is_handled

    def handle_or_note(number: int, frame: FrameType | None) -> None:
        if _is_deferred:
            _note()
        else:
            handler(number, frame)

    _number, _is_handled = number, True
    signal.signal(number, handle_or_note)


def is_deferred() -> bool:
    """Return whether interrupts are deferred now. For handlers of other signals, in the main thread."""
    return _is_deferred


def call_later(function: Callable[[], object]) -> None:
    """Call a function, which may raise, when the deferral ends."""
    _waiting.append(function)


def _note(*_: object) -> None:
    global _has_come
    _has_come = True


def _begin() -> None:
    global _replaced, _is_deferred
    if not _is_handled:
        if _signal.getsignal(_number) is None:  # not Python's handler: it could not be restored
            return
        _replaced = _signal.signal(_number, _note)
    _is_deferred = True


def _end() -> None:
    """End the deferral, and call the handler for an interrupt that came meanwhile."""
    global _replaced, _is_deferred, _has_come
    _is_deferred = False
    if not _is_handled:
        handler, _replaced = _replaced, None  # asyncio's refers to its task, and so to all it uses
        _signal.signal(_number, handler)
    while _waiting:
        _waiting.pop(0)()
    if not _has_come:
        return
    _has_come = False
    handler = _signal.getsignal(_number)
    if callable(handler):
        handler(_number, None)
    elif handler == signal.SIG_DFL:
        signal.raise_signal(_number)


class deferred:  # noqa: N801 - used like a function
    """Defer interrupts until the block ends; with nested blocks, until the outermost one ends."""

    __slots__ = ("_is_outermost",)

    def __enter__(self) -> None:
        self._is_outermost = not _is_deferred and threading.get_ident() == _main_thread
        if self._is_outermost:
            _begin()

    def __exit__(self, *_: object) -> None:
        if self._is_outermost and _is_deferred:  # not deferred: in a forked child
            _end()


class allowed:  # noqa: N801 - used like `deferred`
    """Allow interrupts inside `deferred`, and deliver those that were deferred so far.

    This is a class, because an interrupt can suspend a generator at its ``yield``. Such a generator
    would defer interrupts again later, when it is collected.
    """

    __slots__ = ("_was_deferred",)

    def __enter__(self) -> None:
        self._was_deferred = _is_deferred and threading.get_ident() == _main_thread
        if not self._was_deferred:
            return
        try:
            _end()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._was_deferred:
            _begin()


def _forget_in_fork() -> None:
    """Drop the deferral in a forked process: the parent continues the operation."""
    global _is_deferred, _has_come, _main_thread
    if _is_deferred and not _is_handled:
        _signal.signal(_number, _replaced)
    _is_deferred = _has_come = False
    _waiting.clear()
    _main_thread = threading.main_thread().ident


os.register_at_fork(after_in_child=_forget_in_fork)

__all__ = ["allowed", "call_later", "deferred", "handle", "is_deferred"]
