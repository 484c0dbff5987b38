"""A folder of this user's alone, in a place where every user may write, as ``/dev/shm`` and ``/tmp``.

A name that others can predict is one that they can make first. So the folder's name ends with random
digits, and it is found again by its form and its owner; what others have put there is passed over. The
parent must be sticky, so that nobody else can move it away. It stays when it is empty, for the next
process.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

#: Bytes of the random part of the name.
_RANDOM_BYTES = 8


def make(parent: str | os.PathLike[str]) -> Path:
    """Return the folder in `parent`, made if there is none.

    Raises
    ------
    PermissionError
        When others could enter it or move it away, or `parent` cannot be written.
    """
    folders = all_in(parent)
    if not folders:
        _check_parent(parent)
        name = f"{_prefix()}{secrets.token_hex(_RANDOM_BYTES)}"
        Path(parent, name).mkdir(mode=0o700)
        folders = all_in(parent)  # two processes may have made one each: all take the same
    return folders[0]


def all_in(parent: str | os.PathLike[str]) -> list[Path]:
    """Return the folders of this user in `parent`, the one to use first; usually there is one.

    Raises
    ------
    PermissionError
        When other users may enter one.
    """
    pattern = re.compile(rf"{_prefix()}[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    try:
        names = [name for name in os.listdir(parent) if pattern.fullmatch(name)]
    except FileNotFoundError:
        return []
    return [path for path in (Path(parent, name) for name in sorted(names)) if _is_own(path)]


def _is_own(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} must be a folder that nobody else may enter. Its mode is "
            f"{stat.S_IMODE(found.st_mode):o}, expected 700: chmod 700 {folder}"
        )
    return True


def _prefix() -> str:
    return f"raycompat-{os.geteuid()}-"


def _check_parent(parent: str | os.PathLike[str]) -> None:
    mode = os.stat(parent).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(
            f"Every user of this host can rename what is in {parent} (mode {stat.S_IMODE(mode):o}). "
            f"Expected a folder with the sticky bit, as /tmp has: chmod +t {parent}, or set TMPDIR to "
            "another place."
        )
