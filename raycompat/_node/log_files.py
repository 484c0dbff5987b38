"""The files with the output of a node's processes, for readers in other processes."""

from __future__ import annotations

import contextlib
import fnmatch
import os
from pathlib import Path
from typing import Any

from raycompat._messages.logs import ReadLog
from raycompat._protocol import output_marks
from raycompat._protocol.plain import Row

#: Bytes that one read returns at most.
_MOST_BYTES = 1 << 20


class LogFiles:
    """Reads the files in one folder. A name cannot lead out of the folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def names(self, pattern: str) -> Row:
        """Return the sorted names of the files that match a shell pattern, and when each changed."""
        names = sorted(fnmatch.filter(os.listdir(self._directory), pattern))
        changed = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # it is rotated away
                changed[name] = (self._directory / name).stat().st_mtime
        return {"names": names, "changed": changed}

    async def read(self, request: ReadLog) -> Row:
        """Return bytes of a file, from a position or, if that is -1, its last `tail` lines.

        The result also has the position after them, whether more follows, and the size of the file; or
        an ``error``. A reader whose position is behind the end continues at the beginning: a new file
        has taken the name. With a task, the bytes are only what that task has printed, without marks,
        and ``is_inside`` is to be given again with the next position.
        """
        name, position, is_inside = request.name, request.position, request.is_inside
        path = self._directory / name
        if path.parent != self._directory or not path.is_file():
            return {
                "error": f"There is no log {name!r} on this node; list_logs() returns the names."
            }
        with path.open("rb") as file:
            if position < 0:
                position = _start_of_tail(file, request.tail)
            elif position > file.seek(0, os.SEEK_END):
                position, is_inside = 0, False
            file.seek(position)
            data = file.read(_MOST_BYTES)
            size = file.seek(0, os.SEEK_END)
        data = data[: output_marks.whole_marks(data)]
        end = position + len(data)
        found = {"position": end, "has_more": end < size, "size": size}
        if not request.task:
            return {**found, "data": data}
        data, is_inside = output_marks.of_task(data, request.task, is_inside=is_inside)
        return {**found, "data": data, "is_inside": is_inside}


def _start_of_tail(file: Any, tail: int) -> int:
    """Return the position where the last `tail` lines of a file begin."""
    size = position = file.seek(0, os.SEEK_END)
    #: Lines that are still to be found, the unread rest, and whether the last line was found.
    left, rest, has_last = tail, b"", False
    while tail and position > 0:
        begin = max(0, position - _MOST_BYTES)
        file.seek(begin)
        chunk = file.read(position - begin) + rest
        # What follows a line end does not begin inside a mark.
        start = (chunk.find(b"\n") + 1 or len(chunk)) if begin else 0
        ends = output_marks.line_ends(chunk[start:])
        if not has_last and start < len(chunk):
            has_last = True
            after = chunk[start + ends[-1] + 1 :] if ends else chunk[start:]
            left -= bool(output_marks.without_marks(after))  # a line without an end
        if len(ends) > left:
            return int(begin + start + ends[-left - 1] + 1)
        left, rest, position = left - len(ends), chunk[:start], begin
    return 0 if tail else int(size)
