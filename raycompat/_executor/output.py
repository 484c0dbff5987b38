"""The output of user code, with marks that say which call has printed it.

The first output of a call follows a mark, and so does the first output after its end. A call that
prints nothing writes no mark, so it costs nothing. What native code and child processes print does not
pass through here: it belongs to the last mark.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from typing import Any

from raycompat._caller import this_process
from raycompat._host import native_output
from raycompat._protocol import output_marks


class CallOutput(io.BufferedWriter):
    """Writes to standard output or error, and marks what each call writes.

    Threads write whole lines here, because the text stream above collects them.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(io.FileIO(descriptor, "w", closefd=False))
        #: The key of the call that the last mark names; empty for none.
        self.marked = ""
        #: The key of a call that has ended, while its last output is written.
        self.ending = ""
        self._descriptor = descriptor
        self._pipe = _identity(descriptor)
        #: Held while output and its mark are added. Signal handlers of user code may print meanwhile.
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def write(self, data: Any) -> int:
        """Add output, after a mark if another call has written before."""
        with self._lock:
            self._add_mark(this_process.current_task() or self.ending)
            return super().write(data)

    def mark(self, key: str) -> None:
        """Write a mark now; with no key, the output from now on belongs to no call."""
        with self._lock, contextlib.suppress(OSError, ValueError):  # user code has closed it
            self._add_mark(key)
            self.flush()

    def _add_mark(self, key: str) -> None:
        """Add a mark, unless user code has redirected the descriptor."""
        if key != self.marked and _identity(self._descriptor) == self._pipe:
            super().write(output_marks.of_call(key))
            self.marked = key


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return what tells the file of a descriptor from others; None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Outputs:
    """Standard output and error of this process."""

    def __init__(self) -> None:
        #: Copies of the descriptors 1 and 2, which user code may change.
        self._copies = (os.dup(1), os.dup(2))
        self._streams = (CallOutput(1), CallOutput(2))
        for output, name in zip(self._streams, ("stdout", "stderr"), strict=True):
            stream = io.TextIOWrapper(
                output,
                encoding="utf-8",
                errors="strict" if name == "stdout" else "backslashreplace",
                line_buffering=True,
            )
            stream.mode = "w"  # type: ignore[misc]  # as `open` sets it
            setattr(sys, name, stream)
        native_output.write_lines_at_once()

    def announce_name(self, name: str) -> None:
        """Mark the output from now on with a name, in the stream itself, so that the order is right."""
        self.flush()
        encoded = name.encode(errors="replace").replace(b"\n", b" ")[: output_marks.MAX_NAME_BYTES]
        for descriptor in self._copies:
            os.write(descriptor, output_marks.NAME_MARK + encoded + b"\n")

    def flush(self, key: str = "") -> None:
        """Write what user code has printed: with `key`, the call that has ended."""
        out, err = self._streams
        out.ending = err.ending = key
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # user code has closed or replaced it
                continue
        native_output.flush()

    def begin(self, key: str) -> None:
        """Mark what a call prints from now on, also by native code."""
        for stream in self._streams:
            stream.mark(key)

    def end(self, key: str) -> None:
        """Mark that what is printed from now on is not of this call."""
        for stream in self._streams:
            stream.ending = ""
            if stream.marked == key:
                stream.mark("")
