"""One output stream of an executor: it is read from a pipe, written to files, and sent in pieces.

Marks between the lines name what prints, and the task (`_protocol.output_marks`). The executor writes
them; the node can write some too. Marks of tasks stay in the files: drivers get the lines without them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from raycompat._node.spool import Spool
from raycompat._protocol import output_marks
from raycompat._protocol.output_marks import CALL_MARK, MAX_NAME_BYTES, NAME_MARK

#: Bytes of one read from a pipe: all that it can hold.
_PIPE_BYTES = 1 << 16

#: Chunks that a pipe can hold, and one more for bytes that arrive meanwhile.
_CHUNKS_IN_PIPE = 2


class Piece(NamedTuple):
    """Part of an output, in the form for the driver."""

    #: The name of the task or actor that printed it.
    name: str
    data: bytes
    #: Whether a line ends here, although its end was not printed.
    ends: bool


class Output:
    """The pipe and the files of one output stream.

    `on_end` is called in any thread at the end of the pipe, before its descriptor can be used again.
    """

    def __init__(
        self, descriptor: int, spool: Spool, on_end: Callable[[], None] = lambda: None
    ) -> None:
        self.spool = spool
        #: Position of the next byte to send, and the name of the call that printed it.
        self.position = 0
        self.name = ""
        #: Whether unfinished lines may be sent.
        self.ends_lines = False
        #: Whether the pipe has ended.
        self.is_closed = False
        #: Bytes that could not be written, and the reason.
        self.num_lost, self.why_lost = 0, ""
        self._descriptor = descriptor
        self._on_end = on_end
        self._is_midline = False
        #: Held while the pipe is read.
        self._lock = threading.Lock()
        #: The name to write before the next output; and the last name in the files.
        self._next_name: bytes | None = None
        self._last_name = b""
        #: The mark of a task to write before the next output, and the beginning of another mark.
        self._next_call = self._part = b""
        #: The last bytes of the files, to find names that were read in two parts.
        self._tail = b""
        os.set_blocking(descriptor, False)

    # --- from the pipe to the files -------------------------------------------------------------

    def drain(self) -> None:
        """Read what is in the pipe now. Called from any thread."""
        with self._lock:
            for _ in range(_CHUNKS_IN_PIPE):  # a limit, because a grandchild may print without end
                if not self._move_chunk():
                    break

    def _move_chunk(self) -> bool:
        if self.is_closed:
            return False
        try:
            data = os.read(self._descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._end()
            return False
        self._append(data)
        return True

    def _append(self, data: bytes) -> None:
        """Write output to the files, with the marks that precede it."""
        data, mark, self._part = output_marks.split_trailing(self._part + data)
        if data:
            self._write(data)
        self._next_call = mark or self._next_call

    def _write(self, data: bytes) -> None:
        if not data.startswith(CALL_MARK):
            data = self._next_call + data
        self._next_call = b""
        if self._next_name is not None:
            name, self._next_name = self._next_name, None
            data = NAME_MARK + name + b"\n" + data
        self._note_name(data)
        before = self.spool.end
        try:
            self.spool.append(data)
        except OSError as error:
            self.num_lost += max(0, len(data) - (self.spool.end - before))
            self.why_lost = str(error)

    def _note_name(self, data: bytes) -> None:
        recent = self._tail + data
        at = recent.rfind(NAME_MARK)
        if at >= 0:
            name, end, _ = recent[at + len(NAME_MARK) :].partition(b"\n")
            if end:
                self._last_name = name
        self._tail = recent[-MAX_NAME_BYTES:]

    def begin(self, name: str, key: str) -> None:
        """Mark the output from now on with the name and the key of a call."""
        self.drain()
        encoded = name.encode(errors="replace").replace(b"\n", b" ")[:MAX_NAME_BYTES]
        with self._lock:
            if encoded != self._last_name or self._tail[-1:] not in (b"", b"\n"):
                self._next_name = encoded
            self._next_call = output_marks.of_call(key)

    def _end(self) -> None:
        """Stop reading. The caller holds the lock, and has not closed the pipe."""
        if not self.is_closed:
            self.is_closed = True
            self._on_end()
            if self._part:
                self._write(self._part)

    def give_up(self) -> None:
        """Stop reading after an error."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Read the rest and close the pipe; a grandchild may still hold the other end."""
        self.drain()
        with self._lock:
            self._end()
            os.close(self._descriptor)
        self.ends_lines = True

    # --- from the files to the driver -----------------------------------------------------------

    def take(self, most: int) -> list[Piece]:
        """Return the next pieces, about `most` bytes; none if a line is unfinished."""
        data = self.spool.read(self.position, most)
        cut = data.rfind(b"\n") + 1
        ends = False
        if not cut and len(data) >= most:
            cut = _before_name(data)
        elif not cut and self.ends_lines and self.position + len(data) >= self.spool.end:
            cut, ends = len(data), True
        self.position += cut
        return self._pieces(data[:cut], ends)

    def _pieces(self, data: bytes, ends: bool) -> list[Piece]:
        data = output_marks.without_calls(data)
        pieces, start = [], 0
        while (at := data.find(NAME_MARK, start)) >= 0:
            stop = data.find(b"\n", at)
            if stop < 0:
                break
            if at > start or self._is_midline:
                pieces.append(Piece(self.name, data[start:at], True))
                self._is_midline = False
            self.name = data[at + len(NAME_MARK) : stop].decode(errors="replace")
            start = stop + 1
        if start < len(data):
            pieces.append(Piece(self.name, data[start:], ends))
            self._is_midline = not ends and data[-1:] != b"\n"
        return pieces

    def skip(self) -> int:
        """Skip the bytes that were not sent; return their number."""
        with self._lock:
            num_bytes, self.position = self.spool.end - self.position, self.spool.end
            self.name = self._last_name.decode(errors="replace")
        return num_bytes

    @property
    def has_more(self) -> bool:
        """Whether bytes are left to send."""
        return self.position < self.spool.end

    @property
    def is_far_behind(self) -> bool:
        """Whether the next bytes are removed from the files, or soon will be."""
        spool = self.spool
        return self.position < spool.start or spool.end - self.position > spool.max_bytes


def _before_name(data: bytes) -> int:
    """Return how much of a long line can be sent: all but a possible beginning of a name."""
    at = data.rfind(NAME_MARK[:1])
    return at if at > len(data) - len(NAME_MARK) - MAX_NAME_BYTES and at > 0 else len(data)
