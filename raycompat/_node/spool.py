"""The output of one stream of an executor: files of limited size on the node's disk.

The newest file has the plain name; older ones end with ``.1``, ``.2`` and so on. Positions count all
bytes ever written, so that a reader's position stays valid when files are renamed or removed. A file
begins with the mark of the call whose output goes on in it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from raycompat._protocol import output_marks


@dataclass(slots=True)
class _File:
    descriptor: int
    #: Position of its first byte.
    start: int
    size: int = 0


class Spool:
    """The files of one stream. One thread appends at a time; another may read meanwhile."""

    def __init__(self, path: Path, max_bytes: int, num_backups: int) -> None:
        self.path = path
        #: Bytes of one file.
        self.max_bytes = max_bytes
        #: Position after the last byte.
        self.end = 0
        self._num_backups = num_backups
        #: The mark of the call that printed the last bytes. Each file begins with it.
        self._mark = b""
        self._files: deque[_File] = deque()
        #: Held while files are opened, closed or read, but not while one is written.
        self._lock = threading.Lock()

    def append(self, data: bytes) -> None:
        """Write after the last byte.

        Raises
        ------
        OSError
            When the disk is full; `end` shows how much was written.
        """
        while data:
            room = self._room_for(data)
            if not room:
                self._begin_file()
                if self.max_bytes > output_marks.MAX_MARK_BYTES:
                    data = self._mark + data
                continue
            file = self._files[-1]
            written = os.write(file.descriptor, memoryview(data)[:room])
            file.size += written
            self.end += written
            self._mark = output_marks.last_call(data[:written]) or self._mark
            data = data[written:]

    def _room_for(self, data: bytes) -> int:
        """Return how much of the data the newest file takes without cutting a mark in two."""
        if not self._files:
            return 0
        size = self._files[-1].size
        if size + len(data) <= self.max_bytes:
            return len(data)
        part = data[: max(0, self.max_bytes - size)]
        mark = output_marks.MARK
        if size and part and mark.startswith(part[: len(mark)]) and b"\n" not in part:
            return 0  # it may be less than the beginning of a mark
        return output_marks.whole_marks(part)

    def _begin_file(self) -> None:
        with self._lock:
            if self._files:
                while len(self._files) > self._num_backups:
                    os.close(self._files.popleft().descriptor)
                for number in range(len(self._files), 0, -1):
                    self._named(number - 1).replace(self._named(number))
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC
            self._files.append(_File(os.open(self.path, flags, 0o600), self.end))

    def _named(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    @property
    def start(self) -> int:
        """Position of the oldest byte that was not removed."""
        return self._files[0].start if self._files else self.end

    def read(self, position: int, most: int) -> bytes:
        """Return up to `most` bytes from `position`; none if they were removed."""
        found = b""
        with self._lock:
            for file in self._files:
                offset = position + len(found) - file.start
                if 0 <= offset < file.size and len(found) < most:
                    found += os.pread(file.descriptor, most - len(found), offset)
        return found

    @property
    def num_kept(self) -> int:
        """Number of bytes that were not removed."""
        return self.end - self.start

    def close(self) -> None:
        """Close the files without removing them."""
        with self._lock:
            while self._files:
                os.close(self._files.popleft().descriptor)

    def remove(self) -> None:
        """Remove the files."""
        for number in range(self._num_backups + 1):
            self._named(number).unlink(missing_ok=True)
