"""A folder of this user, in a directory where every user can write, such as ``/dev/shm`` or ``/tmp``.

Another user could create a predictable name first. So the folder's name ends with random digits. Later
processes find it by the form of its name and by its owner, and ignore other users' folders. The parent
needs the sticky bit, so that no other user can move the folder. An empty folder stays, for the next
process.

Files in the folder name their processes by pid. Containers can share the parent, and the same pid is
another process in each of them. So the folder's name also says where its pids are valid
(`namespaces.pid_space`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path

from raycompat._host import namespaces

#: Bytes of the random part of the name; hexadecimal digits of the part for the pid space.
_RANDOM_BYTES, _SPACE_DIGITS = 8, 8


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
        name = f"{prefix()}{secrets.token_hex(_RANDOM_BYTES)}"
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
    folders = _of_this_user(parent, prefix())
    for folder, mode in folders:
        if mode & 0o077:
            raise PermissionError(
                f"{folder} must be a folder that no other user can enter. Its mode is {mode:o}, "
                f"expected 700: chmod 700 {folder}"
            )
    return [folder for folder, _ in folders]


def all_of_other_pid_spaces(parent: str | os.PathLike[str]) -> list[Path]:
    """Return the folders in `parent` that this user's processes in other containers have made."""
    own = prefix()
    pattern = rf"raycompat-{os.geteuid()}-[0-9a-f]{{{_SPACE_DIGITS}}}-"
    folders = _of_this_user(parent, pattern)
    return [folder for folder, _ in folders if not folder.name.startswith(own)]


def prefix() -> str:
    """Return the beginning of the folder's name, without the random digits."""
    space = hashlib.sha256(namespaces.pid_space().encode()).hexdigest()[:_SPACE_DIGITS]
    return f"raycompat-{os.geteuid()}-{space}-"


def _of_this_user(parent: str | os.PathLike[str], beginning: str) -> list[tuple[Path, int]]:
    """Return this user's folders whose name begins with a pattern, sorted, with their modes."""
    pattern = re.compile(rf"{beginning}[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    try:
        names = [name for name in os.listdir(parent) if pattern.fullmatch(name)]
    except FileNotFoundError:
        return []
    folders = []
    for folder in (Path(parent, name) for name in sorted(names)):
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                folders.append((folder, stat.S_IMODE(status.st_mode)))
    return folders


def _check_parent(parent: str | os.PathLike[str]) -> None:
    mode = os.stat(parent).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(
            f"Every user of this host can rename what is in {parent} (mode {stat.S_IMODE(mode):o}). "
            f"Expected a folder with the sticky bit, as /tmp has: chmod +t {parent}, or set TMPDIR to "
            "another place."
        )
