"""The files with the output of a node's processes, for readers in other processes."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

#: Bytes that one read returns at most.
_MOST_BYTES = 1 << 20


class LogFiles:
    """Reads the files in one folder. A name cannot lead out of the folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def names(self, pattern: str) -> dict[str, Any]:
        """Return the sorted names of the files that match a shell pattern."""
        return {"names": sorted(fnmatch.filter(os.listdir(self._directory), pattern))}

    async def read(self, name: str, position: int, tail: int) -> dict[str, Any]:
        """Return bytes of a file, from a position or, if that is -1, its last `tail` lines.

        The result also has the position after them, and whether more follows; or an ``error``. A reader
        whose position is behind the end continues at the beginning: a new file has taken the name.
        """
        path = self._directory / name
        if path.parent != self._directory or not path.is_file():
            return {
                "error": f"There is no log {name!r} on this node; list_logs() returns the names."
            }
        with path.open("rb") as file:
            if position < 0:
                position = _start_of_tail(file, tail)
            elif position > file.seek(0, os.SEEK_END):
                position = 0
            file.seek(position)
            data = file.read(_MOST_BYTES)
            size = file.seek(0, os.SEEK_END)
        end = position + len(data)
        return {"data": data, "position": end, "has_more": end < size}


def _start_of_tail(file: Any, tail: int) -> int:
    """Return the position where the last `tail` lines of a file begin."""
    position = file.seek(0, os.SEEK_END)
    file.seek(max(0, position - 1))
    num_ends = -1 if file.read(1) == b"\n" else 0  # no line follows the last line end
    while position > 0:
        begin = max(0, position - _MOST_BYTES)
        file.seek(begin)
        chunk = file.read(position - begin)
        at = len(chunk)
        while (at := chunk.rfind(b"\n", 0, at)) >= 0:
            num_ends += 1
            if num_ends == tail:
                return int(begin + at + 1)
        position = begin
    return 0
