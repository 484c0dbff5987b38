"""The breakpoints that wait for a terminal on this machine: one file for each.

They are in a folder that only this user can enter (`current_cluster`). ``raycompat debug`` reads them.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from raycompat._host import processes
from raycompat._protocol import current_cluster


@dataclass(frozen=True)
class Waiting:
    """A breakpoint that waits: its call, its place in the code, and its socket."""

    #: The abstract name of the Unix socket on which it waits.
    socket: str
    #: The process: its pid and start time identify it uniquely.
    pid: int
    start: int | None
    #: The name of the call.
    call: str
    #: File and line.
    place: str
    #: What it waits for: ``breakpoint``, or the type of an exception.
    reason: str
    #: Seconds since 1970.
    since: float

    @property
    def is_there(self) -> bool:
        """Whether its process still runs."""
        return processes.start_of(self.pid) == self.start

    @property
    def _file(self) -> Path:
        return _folder() / f"{self.socket}.json"

    def record(self) -> None:
        """Write its file.

        Raises
        ------
        OSError
            When the folder cannot be made or written.
        """
        new = self._file.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            json.dump(asdict(self), file)
        new.replace(self._file)  # readers see the whole file or none

    def forget(self) -> None:
        """Remove its file."""
        self._file.unlink(missing_ok=True)


def of_this_process(call: str, place: str, reason: str) -> Waiting:
    """Return a new breakpoint of this process, with the name of a socket."""
    pid = os.getpid()
    name = f"raycompat-breakpoint-{pid}-{secrets.token_hex(8)}"
    return Waiting(name, pid, processes.start_of(pid), call, place, reason, time.time())


def all_waiting() -> list[Waiting]:
    """Return the breakpoints that wait, oldest first; forget those whose process has ended."""
    found = []
    for path in _folder().glob("*.json"):
        try:
            waiting = Waiting(**json.loads(path.read_text()))
        except FileNotFoundError:  # it has just ended
            continue
        if waiting.is_there:
            found.append(waiting)
        else:
            waiting.forget()
    return sorted(found, key=lambda each: each.since)


def _folder() -> Path:
    folder = current_cluster.folder() / "breakpoints"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
