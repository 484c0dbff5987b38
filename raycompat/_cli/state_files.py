"""Which processes this user has started on this machine by ``raycompat start``: one file for each.

They lie beside the entry of the current cluster (`current_cluster`), in a folder that is the user's
alone, and are what ``raycompat stop`` goes by.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from raycompat._protocol import current_cluster, segment


@dataclass(frozen=True)
class Started:
    """A process that was started. Its pid and when it began name it for good."""

    pid: int
    start: int | None
    role: str
    #: Where it works; nothing in it is needed once it has ended.
    directory: str


def record(pid: int, role: str, directory: Path) -> None:
    """Note a process that has just been started."""
    started = Started(pid, segment.process_start(pid), role, str(directory))
    path = _file(pid)
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(asdict(started), file)
    new.replace(path)  # whole, or not at all


def all_started() -> list[Started]:
    """Return the processes that are noted, whether they still run or not."""
    found = []
    for path in sorted(_file(0).parent.glob("*.json")):
        try:
            found.append(Started(**json.loads(path.read_text())))
        except FileNotFoundError:  # it has been struck out just now
            continue
    return found


def forget(pid: int) -> None:
    """Strike out a process that has ended."""
    _file(pid).unlink(missing_ok=True)


def _file(pid: int) -> Path:
    folder = current_cluster.folder() / "processes"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{pid}.json"
