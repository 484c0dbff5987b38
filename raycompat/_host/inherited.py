"""What processes inherit from this one; a forkserver passes on what it inherited at its start."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from raycompat._host import processes

#: Prefixes of the variables of Ray and raycompat.
_OWN = ("RAY_", "RAYCOMPAT_")

_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


@dataclass(frozen=True)
class Inherited:
    """Python and libraries read variables and the folder at their import; the rest is copied."""

    variables: frozenset[tuple[str, str]]
    #: The path and the numbers of the current folder; None if it was removed, or may not be entered.
    folder: tuple[str, int, int] | None
    priority: int
    cpus: frozenset[int]
    umask: str
    limits: tuple[tuple[int, int], ...]


def inherited(variables: Mapping[str, str]) -> Inherited:
    """Return what a process with these variables would inherit now.

    Variables of Ray and raycompat are left out, because nothing that a forkserver imports reads them at
    the import: processes with different ones can have the same forkserver.
    """
    return Inherited(
        frozenset(each for each in variables.items() if not each[0].startswith(_OWN)),
        _folder(),
        os.getpriority(os.PRIO_PROCESS, 0),
        processes.cpus(),
        _umask(),
        tuple(resource.getrlimit(getattr(resource, name)) for name in _LIMITS),
    )


def _folder() -> tuple[str, int, int] | None:
    try:
        about = os.stat(".")
        return os.getcwd(), about.st_dev, about.st_ino
    except OSError:
        return None


def _umask() -> str:
    """Return the mask of new files' permissions; `os.umask` would have to change it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((line for line in lines if line.startswith("Umask")), "")
