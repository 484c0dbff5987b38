"""The record of this user's newest cluster on this machine, to which ``init("auto")`` connects.

A program that starts a cluster records it in one file; the entry is valid while the scheduler's process
runs. Only the user can write to the folder (`own_folder`). Otherwise another user could make drivers
send their code to another scheduler.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from raycompat._host import own_folder, processes

logger = logging.getLogger(__name__)

#: The entry of the newest public cluster; that of a program's private cluster, by its scheduler's pid;
#: and the pattern of all private ones.
_FILE, _OF_A_PROGRAM, _OF_PROGRAMS = "current.json", "program-{}.json", "program-*.json"


def folder() -> Path:
    """Return the user's folder for records of clusters on this machine; make it if needed.

    Raises
    ------
    OSError
        When the folder cannot be made, or other users could replace it.
    """
    parent = _parent()
    parent.mkdir(parents=True, exist_ok=True)
    return own_folder.make(parent)


def _parent() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")


def _file(name: str) -> Path | None:
    """Return the path of an entry; None if the folder does not exist yet."""
    folders = own_folder.all_in(_parent())
    return folders[0] / name if folders else None


def record(address: str, pid: int) -> None:
    """Record the cluster whose scheduler is process `pid` as the newest public one.

    Raises
    ------
    OSError
        When the folder cannot be made.
    """
    _record(_FILE, address, pid)


def record_of_a_program(address: str, pid: int) -> None:
    """Record a program's private cluster, which ``"auto"`` finds when no public one runs.

    A failure to write the record is logged; the cluster itself works.
    """
    try:
        for path in _entries_of_programs():
            if _running(path.name) is None:  # its program was killed
                path.unlink(missing_ok=True)
        _record(_OF_A_PROGRAM.format(pid), address, pid)
    except OSError as error:
        logger.warning('init("auto") will not find the cluster at %s: %s', address, error)


def _record(name: str, address: str, pid: int) -> None:
    path = folder() / name
    entry = {"address": address, "pid": pid, "start": processes.start_of(pid)}
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as new:
        json.dump(entry, new)
    os.replace(temporary, path)


def find() -> str | None:
    """Return the scheduler's address of the newest public cluster, if its process runs."""
    return _running(_FILE)


def find_of_a_program() -> str | None:
    """Return the scheduler's address of the newest private cluster whose process runs."""
    for path in sorted(_entries_of_programs(), key=_time_of, reverse=True):
        address = _running(path.name)
        if address is not None:
            return address
    return None


def _entries_of_programs() -> list[Path]:
    try:
        folders = own_folder.all_in(_parent())
    except OSError as error:
        _warn(error)
        return []
    return list(folders[0].glob(_OF_PROGRAMS)) if folders else []


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # its program has just ended
        return 0.0


def _running(name: str) -> str | None:
    entry = _entry(name)
    return str(entry["address"]) if entry is not None and _is_running(entry) else None


def forget(pid: int) -> None:
    """Remove the entries of the cluster whose scheduler is, or was, process `pid`."""
    for name in (_FILE, _OF_A_PROGRAM.format(pid)):
        entry = _entry(name)
        if entry is not None and entry["pid"] == pid and (path := _file(name)) is not None:
            path.unlink(missing_ok=True)


def _entry(name: str) -> dict[str, Any] | None:
    try:
        path = _file(name)
        if path is None:
            return None
        entry = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _warn(error)
        return None
    is_whole = isinstance(entry, dict) and {"address", "pid", "start"} <= entry.keys()
    return entry if is_whole else None


def _warn(error: Exception) -> None:
    logger.warning("raycompat does not look for a running cluster in %s: %s", _parent(), error)


def _is_running(entry: dict[str, Any]) -> bool:
    return entry["start"] is not None and processes.start_of(entry["pid"]) == entry["start"]
