"""What user code prints, on its way to its driver: read from pipes, sent line by line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from raycompat._protocol.frames import NAME_MARK

_CHUNK_BYTES = 1 << 16

#: Chunks that a pipe holds, and one for what comes meanwhile.
_CHUNKS_IN_PIPE = 2


class LogPump:
    """Reads the two pipes of one executor. `name` says whose call it runs just now.

    A leased executor says itself whose calls it runs, in its output (see `frames.NAME_MARK`).
    """

    def __init__(
        self, streams: dict[int, str], job: str, pid: int, on_lines: Callable[..., None]
    ) -> None:
        self.name: str | None = None
        self._streams = streams
        self._job = job
        self._pid = pid
        self._on_lines = on_lines
        self._rest = dict.fromkeys(streams, b"")
        loop = asyncio.get_running_loop()
        for descriptor in streams:
            os.set_blocking(descriptor, False)
            loop.add_reader(descriptor, self._read, descriptor)

    def _read(self, descriptor: int) -> bool:
        """Pass on one chunk; False when there is none now."""
        try:
            data = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._finish(descriptor)
            return False
        data = self._rest[descriptor] + data
        *lines, self._rest[descriptor] = data.split(b"\n")
        if NAME_MARK in data:
            lines = self._take_names(descriptor, lines)
        if len(self._rest[descriptor]) >= _CHUNK_BYTES:
            lines.append(self._rest[descriptor])
            self._rest[descriptor] = b""
        self._pass_on(descriptor, lines)
        return True

    def _take_names(self, descriptor: int, lines: list[bytes]) -> list[bytes]:
        """Pass on the lines up to the last name among them, and return the rest."""
        own: list[bytes] = []
        for line in lines:
            before, mark, name = line.partition(NAME_MARK)
            if before or not mark:
                own.append(before)
            if mark:
                self._pass_on(descriptor, own)
                own, self.name = [], name.decode(errors="replace").partition(".")[0]
        return own

    def _pass_on(self, descriptor: int, lines: list[bytes]) -> None:
        if lines:
            who = f"{self.name} pid={self._pid}" if self.name else f"pid={self._pid}"
            self._on_lines(
                job=self._job,
                stream=self._streams[descriptor],
                lines=[line.decode(errors="replace") for line in lines],
                prefix=f"({who}) ",
            )

    def _finish(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        rest = self._rest.pop(descriptor)
        if rest:
            self._pass_on(descriptor, [rest])
        del self._streams[descriptor]

    def drain(self) -> None:
        """Pass on what is in the pipes now: a call has ended and its output is still its own."""
        for descriptor in list(self._streams):
            for _ in range(_CHUNKS_IN_PIPE):  # no more: a grandchild may print all the time
                if not self._read(descriptor):
                    break

    def close(self) -> None:
        """Let go of the pipes; a grandchild may still hold their other ends."""
        for descriptor in list(self._streams):
            self._finish(descriptor)
