"""A folder of this user, in a directory where every user can write, such as ``/dev/shm`` or ``/tmp``.

Another user could create a predictable name first. So the folder's name ends with random digits. Later
processes find it by the form of its name and by its owner, and ignore other users' folders. The parent
needs the sticky bit, so that no other user can move the folder. An empty folder stays, for the next
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
    """Return the folder in `parent`; make it if it does not exist.

    Raises
    ------
    PermissionError
        When other users could enter or move the folder, or `parent` is not writable.
    """
    folders = all_in(parent)
    if not folders:
        _check_parent(parent)
        name = f"{_prefix()}{secrets.token_hex(_RANDOM_BYTES)}"
        Path(parent, name).mkdir(mode=0o700)
        folders = all_in(parent)  # two processes may have made one each: both take the first
    return folders[0]


def all_in(parent: str | os.PathLike[str]) -> list[Path]:
    """Return this user's folders in `parent`, with the one to use first; usually there is one.

    Raises
    ------
    PermissionError
        When other users can enter one.
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
            f"{folder} must be a folder that no other user can enter. Its mode is "
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
