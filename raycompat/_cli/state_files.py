"""The records of processes that ``raycompat start`` has started for this user: one file for each.

They are beside the record of the current cluster (`current_cluster`), in a folder that only this user
can enter. ``raycompat stop`` reads them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from raycompat._host import processes
from raycompat._protocol import current_cluster


@dataclass(frozen=True)
class Started:
    """A process that was started. Its pid and start time identify it uniquely."""

    pid: int
    start: int | None
    role: str
    #: Its working folder, which is not needed once it has ended.
    directory: str


def record(pid: int, role: str, directory: Path) -> None:
    """Record a process that was just started."""
    started = Started(pid, processes.start_of(pid), role, str(directory))
    path = _file(pid)
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(asdict(started), file)
    new.replace(path)  # readers see the whole file or none


def all_started() -> list[Started]:
    """Return the recorded processes, whether they still run or not."""
    found = []
    for path in sorted(_file(0).parent.glob("*.json")):
        try:
            found.append(Started(**json.loads(path.read_text())))
        except FileNotFoundError:  # the record was just removed
            continue
    return found


def forget(pid: int) -> None:
    """Remove the record of a process that has ended."""
    _file(pid).unlink(missing_ok=True)


def _file(pid: int) -> Path:
    folder = current_cluster.folder() / "processes"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{pid}.json"
