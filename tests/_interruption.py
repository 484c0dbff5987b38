"""Interrupting an operation of raycompat at each of its lines in turn, as Ctrl-C would."""

from __future__ import annotations

import dis
import linecache
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import raycompat

#: Instructions where a line can begin, but no signal comes.
_WITHOUT_SIGNALS = {dis.opmap["NOP"], dis.opmap["POP_EXCEPT"]}

PACKAGE = str(raycompat.__path__[0])


class Interruption:
    """Sends this process SIGINT when the `at`-th line of raycompat begins, in the main thread."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    @property
    def has_come(self) -> bool:
        return bool(self.where)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and not self.where and _can_be_interrupted(frame):
            self.left -= 1
            if self.left < 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self._trace

    def run(self, operation: Callable[[], Any]) -> Any:
        """Run an operation; return None when it was interrupted."""
        before = sys.gettrace()
        # Python 3.11 has only a borrowed reference to the trace function while it enters a frame. The
        # garbage collector can run there, and an interrupt of a `__del__` would free the function.
        trace = self._trace
        sys.settrace(trace)
        try:
            return operation()
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(before)


def _can_be_interrupted(frame: FrameType) -> bool:
    """Return whether a signal can come where this line begins, or soon after it.

    No signal comes at an instruction that does nothing (``try:``, or a ``return`` that leaves a block),
    where an ``except`` block ends, or where a ``with`` block ends, which has a separate event. Python
    does not unwind blocks there.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    instruction = frame.f_code.co_code[frame.f_lasti]
    return instruction not in _WITHOUT_SIGNALS and not line.startswith("with ")


#: Lines from one interrupt to the next; 1 in `make nightly`.
STEP = int(os.environ.get("RAYCOMPAT_INTERRUPT_STEP", "7"))


def interruptions(first: int = 0, step: int = STEP) -> Iterator[Interruption]:
    """Yield one for each `step`-th line, until an operation has ended before it came."""
    at = first
    while True:
        interruption = Interruption(at)
        yield interruption
        if not interruption.has_come:
            return
        at += step
