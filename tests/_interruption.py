"""Interrupting an operation of raycompat at each of its lines in turn, as Ctrl-C would."""

from __future__ import annotations

import linecache
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import raycompat

#: What leaves a block without computing anything.
_LEAVING = r"(return( None| True| False| \d+)?|break|continue)(  # .*)?"

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
        if event == "line" and not self.where and not _leaves_a_block(frame):
            self.left -= 1
            if self.left < 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self._trace

    def run(self, operation: Callable[[], Any]) -> Any:
        """Run an operation; return None when it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return operation()
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(before)


def _leaves_a_block(frame: FrameType) -> bool:
    """Whether the line may be the end of a ``with`` block: its event comes there, and no signal can."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return line.startswith("with ") or re.fullmatch(_LEAVING, line) is not None


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
