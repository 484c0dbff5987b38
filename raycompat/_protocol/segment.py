"""Shared-memory segments: files that every process of a host maps read-only.

A segment is written once, by whoever makes the value, then belongs to a node, which removes it when
Dask lets go of the value. Its name says whose it is, so that a crash leaves nothing for good::

    raycompat-<node pid>.<node start>-<writer pid>-<count>
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from raycompat._protocol.serialization import Block

PREFIX = "raycompat-"
SHARED_MEMORY = Path("/dev/shm")

_counter = itertools.count()


def host_id(directory: str) -> str:
    """Identify the host whose processes can map the segments in `directory`."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    place = os.stat(directory)
    return f"{boot}:{place.st_dev}:{place.st_ino}"


def process_start(pid: int) -> int | None:
    """Return when process `pid` began, in clock ticks since boot; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def store_name() -> str:
    """Name the store of this process, a node: its pid and when it began (pids come back)."""
    return f"{PREFIX}{os.getpid()}.{process_start(os.getpid())}"


def write(directories: Iterable[str], store: str, block: Block) -> str:
    """Write `block` as a new segment of `store` and return its path.

    The first of `directories` with room for it is taken.

    Raises
    ------
    OSError
        With ``errno.ENOSPC``, when no directory has room.
    """
    full: OSError | None = None
    for directory in directories:
        path = os.path.join(directory, f"{store}-{os.getpid()}-{next(_counter)}")
        try:
            _write_file(path, block)
        except OSError as error:
            Path(path).unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            full = error
        else:
            return path
    raise full or OSError(errno.ENOSPC, "no directory is given for segments")


def _write_file(path: str, block: Block) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for part in block.parts:
            view = memoryview(part).cast("B") if not isinstance(part, bytes) else memoryview(part)
            while view:
                view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def read(path: str) -> memoryview:
    """Map the segment at `path`; the mapping lives as long as a view of it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(descriptor)


def take(path: str, store: str) -> str:
    """Make a segment that another process wrote this one's own; return its new path.

    Taking it again changes nothing.

    Raises
    ------
    OSError
        When it is gone, or cannot be taken.
    """
    directory, name = os.path.split(path)
    writer, _, number = name.removeprefix(PREFIX).partition("-")[2].partition("-")
    mine = os.path.join(directory, f"{store}-{os.getpid()}-{writer}.{number}")
    try:
        os.rename(path, mine)
    except FileNotFoundError:
        if not os.path.exists(mine):
            raise
    return mine


def remove(path: str) -> None:
    """Remove the segment at `path`, if it is there. Views of it stay good."""
    Path(path).unlink(missing_ok=True)


def remove_all(directories: Iterable[str], store: str, writer_pid: int | None = None) -> None:
    """Remove the segments of `store`, or only those that `writer_pid` wrote."""
    start = f"{store}-" if writer_pid is None else f"{store}-{writer_pid}-"
    for directory in directories:
        for path in Path(directory).glob(f"{start}*"):
            path.unlink(missing_ok=True)


def sweep(directories: Iterable[str]) -> None:
    """Remove what nodes that are no more have left in `directories`."""
    for directory in directories:
        for path in Path(directory).glob(f"{PREFIX}*"):
            owner = path.name[len(PREFIX) :].split("-")[0]
            pid, _, start = owner.partition(".")
            if pid.isdigit() and str(process_start(int(pid))) != start:
                path.unlink(missing_ok=True)
