"""Shared-memory segments: files that every process of a host maps read-only.

The process that makes a value writes its segment once. Then the segment belongs to that process or to a
node, which removes it when no process needs the value. The name shows the owner, so that the segments
of a crashed process can be found::

    raycompat-<node pid>.<node start>-<writer pid>-<time>.<count>

Segments are in a folder of ``/dev/shm`` that only this user can enter (`own_folder`). Before use, a
file is checked to be a regular file of this user with mode 0600. Otherwise another user could place a
file there and have its pickle loaded.

Containers that share ``/dev/shm`` have separate folders, because the pids in a name are valid in one
PID namespace only. Every process that needs the folder holds a shared lock on it. So a process of
another container removes the folder only when no process needs it.

Used memory is filled twice as fast as new pages. So a large segment is not removed but renamed into its
store's folder of *free* segments, where the next writer takes it. Every reader's mapping holds a shared
lock on its file (``flock``, which the kernel releases with the mapping). Only a file that can be locked
exclusively is written again. After a reader has opened and locked a file, it checks that the file still
has the name of the segment that it requested.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from raycompat._host import clock, mapping, namespaces, own_folder, processes, warm_memory
from raycompat._host.block import Block

PREFIX = "raycompat-"
SHARED_MEMORY = Path("/dev/shm")

#: Names of segments, and of a store's folder of free segments. Files with other names are not touched.
_NAME = re.compile(
    rf"{PREFIX}(?P<pid>[0-9]{{1,9}})\.(?P<start>[0-9]{{1,20}})-"
    r"(?:free|(?P<writer>[0-9]{1,9})-[0-9a-z.]+)"
)

#: A segment of at least this many bytes is kept for the next writer.
RECYCLED_BYTES = 1 << 20

#: End of the name of a store's folder of free segments; prefix of the number of a shared segment.
_FREE, _SHARED = "-free", "-for."

#: The most free segments of a store: adding or taking one lists all names.
_MANY_FREE = 500

#: The most free segments that a writer tries: many can still be mapped.
_LOOKED_AT = 8

#: A writer leaves free segments alone that are more than this many times as large as its block: cutting
#: one would lose memory that a larger block can use.
_TOO_LARGE = 2

#: Seconds between two measurements of a store that was full.
_LOOK_AGAIN_S = 0.05

#: The reason why a file is rejected.
_NOT_OURS = "Expected a regular file of this user that no other user can use (mode 0600)"

_counter = itertools.count()
_began = f"{time.time_ns():x}"


def _reset_in_child() -> None:
    """Give a forked process new names, because the kernel uses pids again."""
    global _began
    _began = f"{time.time_ns():x}"


os.register_at_fork(after_in_child=_reset_in_child)


def _number() -> str:
    return f"{_began}.{next(_counter)}"


#: The locks on folders for segments, which this process and its forked children hold until they end.
_held: dict[str, int] = {}


def shared_folder() -> str:
    """Return the folder for segments in shared memory, which only this user can enter.

    Raises
    ------
    OSError
        When the folder cannot be made.
    """
    while True:
        folder = str(own_folder.make(SHARED_MEMORY))
        if hold(folder):
            return folder


def hold(folder: str) -> bool:
    """Keep a folder for segments until this process ends; False if it was removed."""
    if folder in _held:
        return True
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # it waits while another process removes the folder
    if os.fstat(descriptor).st_nlink == 0:
        os.close(descriptor)
        return False
    _held[folder] = descriptor
    return True


def host_id() -> str:
    """Return an id of the processes that can use each other's segments.

    They are the processes of one user on one host, and in one container if there are containers.
    """
    place = os.stat(SHARED_MEMORY)
    return f"{namespaces.pid_space()}:{place.st_dev}:{place.st_ino}:{os.geteuid()}"


def free_bytes() -> int:
    """Return the bytes of shared memory that are free."""
    space = os.statvfs(SHARED_MEMORY)
    return space.f_bsize * space.f_bavail


def store_name() -> str:
    """Return the name of this node's store: its pid and start time, because pids are used again."""
    return f"{PREFIX}{os.getpid()}.{processes.start_of(os.getpid())}"


# --- writing ------------------------------------------------------------------------------------


def write(
    directories: Iterable[str],
    store: str,
    block: Block,
    check_room: Callable[[str, int], None] = lambda directory, size: None,
) -> str:
    """Write `block` as a new segment of `store` and return its path.

    The first of `directories` with enough room is used; its free segments are removed if necessary.
    `check_room` gets a directory and the bytes to write there.

    Raises
    ------
    OSError
        With ``errno.ENOSPC``, when no directory has enough room, or `check_room` has raised that.
    """
    full: OSError | None = None
    left = list(directories)
    made_room = ""
    while left:
        directory = left[0]
        path = os.path.join(directory, f"{store}-{os.getpid()}-{_number()}")
        try:
            check_room(directory, block.size)
            _write_file(path, block, os.path.join(directory, store + _FREE))
        except BaseException as error:
            Path(path).unlink(missing_ok=True)
            if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            full = error
            if made_room != directory and drop_free(directory, store):
                made_room = directory  # try this directory again
            else:
                del left[0]
        else:
            return path
    raise full or OSError(errno.ENOSPC, "no directory is given for segments")


def link(directory: str, store: str, block: Block) -> str | None:
    """Give the segment of a value that this process has read, and stores again, one more name.

    So a call that returns its argument, or a program that puts a value that it got, copies nothing.
    The result is None if this process reads no such segment, or if a link in `directory` fails.
    """
    buffers = [each for each in block.buffers if isinstance(each, memoryview)]
    if block.size < RECYCLED_BYTES or not buffers or len(buffers) < len(block.buffers):
        return None
    reading = warm_memory.reading(buffers[0])
    if reading is None or not block.is_stored_as(reading[1]):
        return None
    path = os.path.join(directory, f"{store}-{os.getpid()}-{_number()}")
    try:
        # With any `src_dir_fd`, Python follows the link of /proc on Linux too.
        os.link(f"/proc/self/fd/{reading[0]}", path, src_dir_fd=reading[0], follow_symlinks=True)
    except (
        OSError
    ):  # it was removed, or spilled, or has too many names; writing it says what is wrong
        return None
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    return path


def _write_file(path: str, block: Block, free: str) -> None:
    descriptor = _reuse(path, block.size, free) if block.size >= RECYCLED_BYTES else None
    is_warm = descriptor is not None
    if descriptor is None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    try:
        if is_warm and warm_memory.write(descriptor, block):
            return
        for piece in block.pieces():
            view = piece
            while view:
                view = view[os.write(descriptor, view) :]
    finally:
        if is_warm:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a mapping may hold a duplicate
        os.close(descriptor)


def _reuse(path: str, size: int, free: str) -> int | None:
    """Open a free segment, locked, as the file at `path`, cut to `size`; None if there is none."""
    for name in _by_fitness(free, size)[:_LOOKED_AT]:
        if _is_too_large(name, size):
            break
        source = os.path.join(free, name)
        try:
            descriptor, status = _open(source, os.O_RDWR)
        except FileNotFoundError:
            continue  # another writer was quicker
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink > 1:
                raise BlockingIOError
            os.rename(source, path)
            if status.st_size > size:
                os.ftruncate(descriptor, size)
        except BaseException as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError | FileNotFoundError):
                raise  # otherwise it is mapped, shared, or was just taken
        else:
            return descriptor
    return None


def _open(path: str, flags: int) -> tuple[int, os.stat_result]:
    """Open a segment and return its descriptor and status.

    Raises
    ------
    PermissionError
        When it is not a regular file of this user that no other user can use.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            raise PermissionError(errno.EPERM, _NOT_OURS, path) from error
        raise
    status = os.fstat(descriptor)
    if not _is_segment(status):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, _NOT_OURS, path)
    return descriptor, status


def _is_segment(status: os.stat_result) -> bool:
    """Return whether this is a regular file of this user that no other user can use."""
    mode = status.st_mode
    return stat.S_ISREG(mode) and not mode & 0o077 and status.st_uid == os.geteuid()


def _check(path: str) -> None:
    if not _is_segment(os.lstat(path)):
        raise PermissionError(errno.EPERM, _NOT_OURS, path)


def _by_fitness(free: str, size: int) -> list[str]:
    """Return the names of free segments: those that are large enough first, too large ones last.

    Among them, those of nearly the right size come first, and of those the ones that this process
    has mapped.
    """
    try:
        device = os.stat(free).st_dev
        with os.scandir(free) as items:
            candidates = [
                (item.name, warm_memory.is_kept(device, item.inode()))
                for item in items
                if not _has_other_name(item)
            ]
    except FileNotFoundError:
        return []

    def unfitness(item: tuple[str, bool]) -> tuple[bool, bool, int, bool, int, str]:
        name, is_kept = item
        length = _size_of(name)
        far = abs(length - size)
        return _is_too_large(name, size), length < size, far * 8 // size, not is_kept, far, name

    return [name for name, _ in sorted(candidates, key=unfitness)]


def _has_other_name(item: os.DirEntry[str]) -> bool:
    """Return whether a free segment is also a value, stored by a link."""
    try:
        return item.stat(follow_symlinks=False).st_nlink > 1
    except FileNotFoundError:  # another writer has taken it
        return True


def _is_too_large(name: str, size: int) -> bool:
    """Return whether a free segment is left for a larger block than one of `size` bytes."""
    return _size_of(name) > _TOO_LARGE * size


# --- reading and removing -----------------------------------------------------------------------


def read(path: str) -> mapping.Mapping:
    """Map the segment at `path`, read-only; its memory does not change while the mapping exists.

    Raises
    ------
    FileNotFoundError
        When it was removed.
    PermissionError
        When it is not a segment of this user.
    """
    descriptor, status = _open(path, os.O_RDONLY)
    is_taken = False
    try:
        is_locked = False
        while not is_locked:  # the holder of the exclusive lock renames it at once, or releases it
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                is_locked = True
            if os.stat(path, follow_symlinks=False).st_ino != status.st_ino:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if status.st_size >= RECYCLED_BYTES:
            memory = warm_memory.read(descriptor, status)
            is_taken = memory is not None
            if is_taken:
                return memory
        return mapping.of(descriptor)  # it keeps the lock
    finally:
        if not is_taken:
            os.close(descriptor)


def share(path: str) -> str:
    """Give a segment one more name, which another process of this host takes; return that name.

    The memory is freed with the last name, so the two processes need not coordinate its removal.

    Raises
    ------
    FileNotFoundError
        When it was removed.
    PermissionError
        When it is not a segment of this user.
    """
    _check(path)
    directory, name = os.path.split(path)
    store = "-".join(name.split("-")[:2])
    shared = os.path.join(directory, f"{store}-{os.getpid()}{_SHARED}{_number()}")
    os.link(path, shared)
    return shared


def take(path: str, store: str) -> str:
    """Make this process the owner of a segment that another wrote or shared; return its new path.

    A second call with the same segment changes nothing.

    Raises
    ------
    OSError
        When it was removed, cannot be taken, or is not a segment of this user.
    """
    directory, name = os.path.split(path)
    writer, _, number = name.removeprefix(PREFIX).partition("-")[2].partition("-")
    mine = os.path.join(directory, f"{store}-{os.getpid()}-{writer}.{number}")
    with contextlib.suppress(FileNotFoundError):
        _check(path)
        os.rename(path, mine)
    _check(mine)
    return mine


def remove(path: str, free_bytes: int = 0) -> None:
    """Remove the segment at `path`, if it exists. Existing views of it stay valid.

    A large segment is kept for the next writer instead, if the free segments of its store stay within
    `free_bytes`.
    """
    try:
        if not free_bytes or not _recycle(path, free_bytes):
            _unlink(path)
    except FileNotFoundError:
        return


def _unlink(path: str) -> None:
    """Remove a segment, and free its memory although writers keep mappings of it.

    If a reader maps it, the memory is freed with the last reader's mapping.

    Raises
    ------
    FileNotFoundError
        When another process has removed it, or just taken it.
    """
    status = os.stat(path, follow_symlinks=False)
    if status.st_nlink == 1:
        warm_memory.forget(path)
    if status.st_size >= RECYCLED_BYTES:
        with contextlib.suppress(OSError):  # it is read, or just taken, or no descriptor is left
            _unlink_and_empty(path)
            return
    os.unlink(path)


def _unlink_and_empty(path: str) -> None:
    descriptor, _ = _open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
        if os.fstat(descriptor).st_nlink == 0:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _recycle(path: str, free_bytes: int) -> bool:
    directory, name = os.path.split(path)
    status = os.stat(path)
    size = status.st_size
    if status.st_nlink > 1 or size < RECYCLED_BYTES:
        return False
    free = os.path.join(directory, "-".join(name.split("-")[:2]) + _FREE)
    sizes = _free_sizes(free)
    if len(sizes) >= _MANY_FREE or sum(sizes) + size > free_bytes:
        return False
    try:
        os.rename(path, os.path.join(free, f"{size}-{os.getpid()}-{_number()}"))
    except FileNotFoundError:  # the store does not keep free segments
        return False
    return True


def _free_sizes(free: str) -> list[int]:
    try:
        return list(map(_size_of, os.listdir(free)))
    except FileNotFoundError:
        return []


def _size_of(name: str) -> int:
    """Return the size in bytes of a free segment: its name begins with it."""
    return int(name.partition("-")[0])


# --- stores -------------------------------------------------------------------------------------


def keep_free_segments(directory: str, store: str) -> None:
    """Keep the large removed segments of `store` in `directory` for later writers, from now on.

    Raises
    ------
    OSError
        When the folder of its free segments cannot be made, or exists.
    """
    os.mkdir(os.path.join(directory, store + _FREE), mode=0o700)


def drop_free(directory: str, store: str, older_than_s: float = 0.0) -> bool:
    """Remove free segments that have not been used for `older_than_s`; return whether any existed."""
    return _drop_old(Path(directory).glob(f"{store}{_FREE}/*"), older_than_s)


def thin_free(directory: str, store: str, size: int, most: int) -> int:
    """Remove free segments until at most `most` bytes remain beside the one that a writer takes.

    The writer needs `size` bytes; the segments that fit it worst are removed first. Return the bytes of
    all remaining ones.
    """
    free = os.path.join(directory, store + _FREE)
    names = _by_fitness(free, size)
    taken = [name for name in names[:1] if not _is_too_large(name, size)]
    taken = taken if size >= RECYCLED_BYTES else []
    left = names[len(taken) :]
    num_bytes = sum(map(_size_of, left))
    while left and num_bytes > most:
        name = left.pop()
        num_bytes -= _size_of(name)
        _drop(Path(free, name))
    return num_bytes + sum(map(_size_of, taken))


def drop_shared(directory: str, store: str, older_than_s: float) -> None:
    """Remove segments that this process shared and that were not taken for `older_than_s`."""
    _drop_old(Path(directory).glob(f"{store}-{os.getpid()}{_SHARED}*"), older_than_s)


def _drop_old(paths: Iterable[Path], older_than_s: float) -> bool:
    before, is_any = time.time() - older_than_s, False
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another process just took it
            if path.stat().st_ctime <= before:
                is_any |= _drop(path)
    return is_any


def _drop(path: Path) -> bool:
    """Remove a segment; False if another process just took it."""
    try:
        _unlink(str(path))
    except FileNotFoundError:
        return False
    return True


def remove_all(
    directories: Iterable[str],
    store: str,
    writer_pid: int | None = None,
    *,
    but_of_others: bool = False,
) -> None:
    """Remove the segments of `store`, or only those that `writer_pid` wrote.

    With `but_of_others`, segments of other living writers stay.
    """
    start = f"{store}-" if writer_pid is None else f"{store}-{writer_pid}-"
    for directory in directories:
        for path in Path(directory).glob(f"{start}*"):
            if not but_of_others or _writer(path) in (None, os.getpid()):
                _remove_path(path)


def sweep(directories: Iterable[str], *, and_mine: bool = False) -> None:
    """Remove the segments of ended nodes from `directories`, except those of living writers.

    Segments of other users stay. With `and_mine`, this process's own segments are removed too: its
    session has ended.
    """
    for directory in directories:
        for path in Path(directory).glob(f"{PREFIX}*"):
            name = _NAME.fullmatch(path.name)
            if name is None:
                continue  # another kind of file
            is_orphan = str(processes.start_of(int(name["pid"]))) != name["start"] and _is_ours(
                path
            )
            if is_orphan and _writer(path) in ((None, os.getpid()) if and_mine else (None,)):
                _remove_path(path)


def sweep_shared_memory(*, and_mine: bool = False) -> None:
    """Remove what ended processes of this user have left in shared memory (see `sweep`)."""
    sweep(map(str, own_folder.all_in(SHARED_MEMORY)), and_mine=and_mine)
    for folder in own_folder.all_of_other_pid_spaces(SHARED_MEMORY):
        _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    """Remove another container's folder, unless a process holds it (see `hold`)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # another process has removed it
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)


def _writer(path: Path) -> int | None:
    """Return the pid of the process that wrote a segment, if that process runs."""
    name = _NAME.fullmatch(path.name)
    if name is None or name["writer"] is None:
        return None
    writer = int(name["writer"])
    return writer if processes.start_of(writer) is not None else None


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except FileNotFoundError:  # another process has removed it
        return False


def _remove_path(path: Path) -> None:
    if path.name.endswith(_FREE):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def used_bytes(directory: str, store: str) -> int:
    """Return the bytes of a store's segments in a directory, without its free segments."""
    used = 0
    with os.scandir(directory) as items:
        for item in items:
            if item.name.startswith(f"{store}-") and not item.name.endswith(_FREE):
                with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                    status = item.stat()
                    used += status.st_size // max(1, status.st_nlink)
    return used


class Gauge:
    """How much of a directory a store's segments use, when this process last measured it.

    Measuring costs a microsecond per segment. So it measures again only when a share of the limit was
    written since, or when the last measurement leaves no room.
    """

    def __init__(self, directory: str, store: str, limit_bytes: int) -> None:
        self._directory = directory
        self._store = store
        self._limit = limit_bytes
        #: Bytes in use and in free segments at the last measurement, and bytes written since.
        self._used = self._free = 0
        self._written = limit_bytes
        self._looked = 0.0

    def has_room(self, size: int) -> bool:
        """Return whether a segment of `size` bytes may be written; if so, count it.

        Free segments that would then exceed the limit are removed.
        """
        self._written += size
        is_full = self._used + self._written > self._limit
        if is_full:
            if clock.monotonic() - self._looked > _LOOK_AGAIN_S:
                self._look(size)
        elif self._written > self._limit // 16:
            self._look(size)
        if self._used + self._written > self._limit:
            self._written -= size
            return False
        room = self._limit - self._used - self._written
        if self._free > room:
            self._free = thin_free(self._directory, self._store, size, room)
        return True

    def _look(self, size: int) -> None:
        used = used_bytes(self._directory, self._store)
        self._free = sum(_free_sizes(os.path.join(self._directory, self._store + _FREE)))
        self._used, self._written, self._looked = used, size, clock.monotonic()
