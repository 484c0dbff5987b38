"""The cluster that was started last on this machine by this user: what ``init("auto")`` connects to.

A program that starts a cluster that others are to find records it in one file; an entry counts as long
as its scheduler's process is there. The folder is the user's alone (`own_folder`): another user who
could write there could have drivers send their code to a scheduler of theirs.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from raycompat._protocol import own_folder, segment

logger = logging.getLogger(__name__)

_FILE = "current.json"


def folder() -> Path:
    """Return the user's folder for what is known of clusters on this machine, made at the first need.

    Raises
    ------
    OSError
        When it cannot be made, or others could put another in its place.
    """
    parent = _parent()
    parent.mkdir(parents=True, exist_ok=True)
    return own_folder.make(parent)


def _parent() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")


def _file() -> Path | None:
    """Return where the entry is, or would be; None if there is no folder for it yet."""
    folders = own_folder.all_in(_parent())
    return folders[0] / _FILE if folders else None


def record(address: str, pid: int) -> None:
    """Make the cluster whose scheduler is process `pid` the one that is found.

    Raises
    ------
    OSError
        When there can be no folder for it.
    """
    path = folder() / _FILE
    entry = {"address": address, "pid": pid, "start": segment.process_start(pid)}
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as new:
        json.dump(entry, new)
    os.replace(name, path)


def find() -> str | None:
    """Return the address of the scheduler that was recorded last, if its process is there."""
    entry = _entry()
    return str(entry["address"]) if entry is not None and _is_running(entry) else None


def forget(pid: int) -> None:
    """Remove the entry of the cluster whose scheduler is, or was, process `pid`."""
    entry, path = _entry(), _file()
    if entry is not None and entry["pid"] == pid and path is not None:
        path.unlink(missing_ok=True)


def _entry() -> dict[str, Any] | None:
    try:
        path = _file()
        if path is None:
            return None
        entry = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.warning("raycompat does not look for a running cluster in %s: %s", _parent(), error)
        return None
    is_whole = isinstance(entry, dict) and {"address", "pid", "start"} <= entry.keys()
    return entry if is_whole else None


def _is_running(entry: dict[str, Any]) -> bool:
    return entry["start"] is not None and segment.process_start(entry["pid"]) == entry["start"]
