"""Handlers of signals that user code installs: what they raise reaches user code, and no other code.

Python calls handlers between any two steps of the main thread. An alarm that goes off too late would
interrupt raycompat between two calls: an answer or a call would be lost. So `install` replaces
`signal.signal`, which then wraps each handler. The handler of the signal with which calls are cancelled
stays raycompat's; it passes on what others send.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from raycompat._executor import stray
from raycompat._executor.run_call import user_code, user_coroutine
from raycompat._host import interrupts
from raycompat._pickling import remote_traceback

#: User code runs below these functions.
_CALLERS: frozenset[CodeType] = frozenset({user_code.__code__, user_coroutine.__code__})

#: An event loop catches what user code raises below this function.
_STEP_OF_LOOP: CodeType = asyncio.Handle._run.__code__

#: The folder of Python's own modules. The packages that are installed in it are user code.
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (_STANDARD + "site-packages", _STANDARD + "dist-packages")

#: Whether the exception of a handler is being printed: those of others are dropped meanwhile.
_is_reporting = False


class _Guarded:
    """A handler of user code."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[..., object]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        global _is_reporting
        if interrupts.is_deferred():
            interrupts.call_later(lambda: self(number, sys._getframe()))
        elif _runs_user_code(frame):
            self.handler(number, frame)
        else:
            try:
                self.handler(number, frame)
            except SystemExit:
                raise
            except BaseException:
                if not _is_reporting:
                    _is_reporting = True
                    stray.report()
                    _is_reporting = False


def _runs_user_code(frame: FrameType | None) -> bool:
    """Return whether user code is running in the interrupted frame or above it."""
    is_user_code = False
    while frame is not None:
        if frame.f_code in _CALLERS:
            return True
        if frame.f_code is _STEP_OF_LOOP:  # a task of asyncio that user code has started, or ours
            return is_user_code
        file = frame.f_code.co_filename
        if not _is_standard(file):  # such as the loop's own handler of errors
            is_user_code = not remote_traceback.is_framework_file(file)
        frame = frame.f_back
    return False


def _is_standard(file: str) -> bool:
    return file.startswith(("<frozen ", _STANDARD)) and not file.startswith(_INSTALLED)


def _unwrapped(handler: object) -> Any:
    return handler.handler if isinstance(handler, _Guarded) else handler


def install(own: int) -> Callable[[int, FrameType | None], None]:
    """Wrap the handlers that are installed from now on; that of the signal `own` is not installed.

    Return the function that calls it.
    """
    set_handler, get_handler = signal.signal, signal.getsignal
    of_own: Any = signal.SIG_DFL

    def pass_on(number: int, frame: FrameType | None) -> None:
        if callable(of_own):
            _Guarded(of_own)(number, frame)

    @functools.wraps(set_handler)
    def guarded_signal(signalnum: int, handler: Any) -> Any:
        nonlocal of_own
        if signalnum == own:
            before, of_own = of_own, handler
            return before
        return _unwrapped(
            set_handler(signalnum, _Guarded(handler) if callable(handler) else handler)
        )

    @functools.wraps(get_handler)
    def getsignal(signalnum: int) -> Any:
        return of_own if signalnum == own else _unwrapped(get_handler(signalnum))

    signal.signal, signal.getsignal = guarded_signal, getsignal
    return pass_on
