"""The cluster that was started last on this machine by this user: what ``init("auto")`` connects to.

Whoever starts a cluster that others are to find records it in one file; an entry counts as long as
its scheduler's process is there. The folder is the user's alone: who could write there could have
drivers send their code to a scheduler of his own.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from raycompat._protocol import segment

logger = logging.getLogger(__name__)


def folder() -> Path:
    """Return the user's folder for what is known of clusters on this machine, made at the first need.

    Raises
    ------
    PermissionError
        When it belongs to somebody else, or others may write there.
    """
    path = file().parent
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(path)
    return path


def file() -> Path:
    """Return where the entry is, if there is one."""
    return Path(os.environ.get("TMPDIR") or "/tmp", f"raycompat-{os.getuid()}", "current.json")


def record(address: str, pid: int) -> None:
    """Make the cluster whose scheduler is process `pid` the one that is found.

    Raises
    ------
    PermissionError
        When the folder for it belongs to somebody else, or others may write there.
    """
    path = folder() / file().name
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
    entry = _entry()
    if entry is not None and entry["pid"] == pid:
        file().unlink(missing_ok=True)


def _entry() -> dict[str, Any] | None:
    path = file()
    try:
        _check_owner(path.parent)
        entry = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.warning("raycompat does not look for a running cluster in %s: %s", path, error)
        return None
    is_whole = isinstance(entry, dict) and {"address", "pid", "start"} <= entry.keys()
    return entry if is_whole else None


def _is_running(entry: dict[str, Any]) -> bool:
    return entry["start"] is not None and segment.process_start(entry["pid"]) == entry["start"]


def _check_owner(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} must be a folder of yours that nobody else may enter (mode 0700). Remove it, or "
            "set TMPDIR to another place."
        )
