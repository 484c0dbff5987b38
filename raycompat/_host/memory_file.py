"""Files in memory without a name: the kernel removes them with their last descriptor or mapping."""

from __future__ import annotations

import fcntl
import os
import pickle
from typing import Any

#: Linux's ``F_ADD_SEALS``, and the seal against shrinking: a shorter file would kill readers (SIGBUS).
_ADD_SEALS, _SEAL_SHRINK = 1033, 2


def make(name: str, num_bytes: int = 0, *, sealed: bool = False) -> int:
    """Return the descriptor of a new file of zeros; `name` is shown in ``/proc`` only.

    No process can make a `sealed` one shorter.
    """
    flags = os.MFD_CLOEXEC | (os.MFD_ALLOW_SEALING if sealed else 0)
    descriptor = os.memfd_create(name, flags)
    try:
        os.ftruncate(descriptor, num_bytes)
        if sealed:
            fcntl.fcntl(descriptor, _ADD_SEALS, _SEAL_SHRINK)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def path_of(descriptor: int) -> str:
    """Return the path by which other processes of this user can open a file of this process."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def put(name: str, value: object) -> int:
    """Pickle a value, of any size, into a new file, and return its descriptor for `take`."""
    descriptor = make(name)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            pickle.dump(value, file, protocol=5)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def take(descriptor: int) -> Any:
    """Return the value that another process has `put` into a file, and close the descriptor."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return pickle.load(file)
