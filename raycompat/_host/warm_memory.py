"""Using segments that this process has used before, through mappings that are kept a while.

Copying into mapped memory takes a third of the time of ``write``, which finds every page again. Making
a mapping costs a third of copying. So the mappings of the last few segments are kept, for `_KEPT_S`
after their last use, and a writer takes a free segment whose mapping it has (see `is_kept`). A reader
meets a segment again when its writer does.

Only the holder of a segment's exclusive lock writes into it (see `segment`). A kept mapping holds no
lock: a reader holds one by a descriptor of its own, as long as its value exists, also in forked
processes. The process that removes a free segment cuts its file to nothing. So a kept mapping, of any
process, keeps no memory.
"""

from __future__ import annotations

import _thread
import mmap
import os
import threading
import weakref
from collections import OrderedDict
from itertools import pairwise
from typing import Any, TypeAlias

from raycompat._host import clock, mapping
from raycompat._host.block import Block

#: The limits of kept mappings: seconds after their last use (free segments are kept as long), their
#: number, and their bytes (a quarter of the machine's memory).
_KEPT_S, _KEPT = 15.0, 16
_KEPT_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4

#: Bytes from which several threads copy, and the number of threads: more than a small machine has CPUs,
#: because beside other work each thread gets a share of a CPU. With more, the C library takes the parts
#: of 1 GiB for small enough to leave in the cache, and copies them a half slower.
_SPLIT_BYTES, _THREADS = 16 << 20, 8

#: The name of the thread that drops mappings.
TIMER = "raycompat-warm-memory"

#: Device and inode of a file, and whether its mapping is for writing.
File: TypeAlias = tuple[int, int, bool]

#: The mappings by file, with the time of their last use; the newest is last.
_kept: OrderedDict[File, tuple[Any, float]] = OrderedDict()
#: The mappings of values that exist, by address: their bytes, weakly, the file, and the descriptor that
#: holds its lock. They are kept afterwards.
_read: dict[int, tuple[weakref.ref[Any], File, int]] = {}
_lock = threading.Lock()
_timer: threading.Timer | None = None


def _reset_in_child() -> None:
    """Drop the parent's mappings in a forked process, where no thread would drop them."""
    global _lock, _timer
    _kept.clear()
    _read.clear()
    _lock, _timer = threading.Lock(), None


os.register_at_fork(after_in_child=_reset_in_child)


def is_kept(device: int, inode: int) -> bool:
    """Return whether the mapping of a file is kept, so that it is written fastest."""
    return (device, inode, True) in _kept


def write(descriptor: int, block: Block) -> bool:
    """Write `block` into a locked file that is not larger; False when nothing was written.

    Raises
    ------
    OSError
        When there is no memory for what the file lacks.
    """
    status = os.fstat(descriptor)
    if status.st_blocks * 512 < status.st_size:
        return False  # a missing page may have no memory: writing to it would kill the process
    file = (status.st_dev, status.st_ino, True)
    memory = _taken(file, status.st_size)
    if memory is None:
        try:
            memory = mapping.writable(descriptor, status.st_size)
        except OSError:  # too many mappings
            return False
    _copy(block, memory[: status.st_size], descriptor)
    _keep(file, memory)
    return True


def read(descriptor: int, status: os.stat_result) -> mapping.Mapping | None:
    """Map a file that this descriptor has locked; close the descriptor when the mapping is not used.

    None when descriptors or mappings are short: then the caller still owns the descriptor.
    """
    file = (status.st_dev, status.st_ino, False)
    memory = _taken(file, status.st_size)
    if memory is None:
        try:
            memory = mapping.without_locks(descriptor, status.st_size)
        except OSError:
            return None
    used = memory[: status.st_size]
    start = mapping.address(used)
    weakref.finalize(
        used, _end_reading, start, file, memory, descriptor, os.getpid()
    ).atexit = False
    _read[start] = (weakref.ref(used), file, descriptor)
    with _lock:
        _look_again()
    return used


def reading(part: memoryview) -> tuple[int, memoryview] | None:
    """Return the descriptor and the bytes of the segment that begins on the page of `part`.

    None when this process does not read one there, or user code has closed the descriptor.
    """
    start = mapping.address(part)
    memory, file, descriptor = _read.get(start - start % mmap.PAGESIZE, (None, None, -1))
    used = memory() if memory is not None else None
    if used is None or file is None:
        return None
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return (descriptor, used.data) if (status.st_dev, status.st_ino) == file[:2] else None


def _end_reading(start: int, file: File, memory: object, descriptor: int, pid: int) -> None:
    """Release the lock of a reader, and keep its mapping. A finalizer: it waits for nothing."""
    try:
        is_removed = os.fstat(descriptor).st_nlink == 0  # then the mapping would keep the memory
        os.close(descriptor)
    except OSError:  # user code has closed it, and the lock has gone with it
        is_removed = True
    if os.getpid() != pid:  # a forked process, where no thread would drop the mapping
        return
    _read.pop(start, None)
    if not is_removed and _timer is not None and _lock.acquire(blocking=False):
        try:
            _enter(file, memory)
        finally:
            _lock.release()


def _copy(block: Block, memory: Any, descriptor: int) -> None:
    """Copy a block into mapped memory, and what is longer than it into the file, at its end."""
    import numpy as np

    start = 0
    for piece in block.pieces():
        source = np.frombuffer(piece, np.uint8)
        target = memory[start : start + len(source)]
        copy_array(source[: len(target)], target)
        rest, position = source[len(target) :].data, start + len(target)
        while rest:
            written = os.pwrite(descriptor, rest, position)
            rest, position = rest[written:], position + written
        start += len(source)


def copy_array(source: Any, target: Any) -> None:
    """Copy bytes without holding the interpreter's lock."""
    import numpy as np

    number = _THREADS if len(source) >= _SPLIT_BYTES else 1
    bounds = [len(source) * part // number for part in range(number + 1)]
    pairs = [(target[a:b], source[a:b]) for a, b in pairwise(bounds)]
    running = []
    while len(pairs) > 1:
        done = _thread.allocate_lock()
        done.acquire()
        try:
            # `threading` would wait until the thread runs, which takes long beside other work.
            _thread.start_new_thread(_copy_part, (*pairs[-1], done))
        except RuntimeError:  # no more threads are possible, or the interpreter is ending
            break
        running.append(done)
        pairs.pop()
    for pair in pairs:
        np.copyto(*pair)
    for done in running:
        done.acquire()


def _copy_part(target: Any, source: Any, done: _thread.LockType) -> None:
    import numpy as np

    try:
        np.copyto(target, source)
    finally:
        done.release()


def _keep(file: File, memory: object) -> None:
    with _lock:
        _enter(file, memory)
        _look_again()


def _taken(file: File, size_bytes: int) -> Any:
    """Take the kept mapping of a file out of those that are kept; None when it is not large enough."""
    with _lock:
        memory, _ = _kept.pop(file, (None, 0.0))
    return None if memory is None or len(memory) < size_bytes else memory


def _enter(file: File, memory: object) -> None:
    _kept[file] = (memory, clock.monotonic())
    while len(_kept) > 1 and (len(_kept) > _KEPT or _kept_bytes() > _KEPT_BYTES):
        _kept.popitem(last=False)


def _kept_bytes() -> int:
    return sum(len(memory) for memory, _ in _kept.values())


def _look_again() -> None:
    """Drop mappings that were not used lately. The caller holds the lock."""
    global _timer
    if _timer is None and (_kept or _read):
        timer = threading.Timer(_KEPT_S, _drop_old)
        timer.name, timer.daemon = TIMER, True
        try:
            timer.start()
        except RuntimeError:  # as above: no thread would drop the mappings later
            _kept.clear()
        else:
            _timer = timer


def _drop_old() -> None:
    global _timer
    before = clock.monotonic() - _KEPT_S
    with _lock:
        _timer = None
        for file in [file for file, (_, used) in _kept.items() if used <= before]:
            del _kept[file]
        _look_again()


def drop_all() -> None:
    """Drop all mappings: this process writes no more."""
    global _timer
    with _lock:
        _kept.clear()
        timer, _timer = _timer, None
    if timer is not None:
        timer.cancel()


def forget(path: str) -> None:
    """Drop the mapping of a file that is about to be removed.

    Finalizers call this, so this thread may already hold the lock: then the timer drops the mapping.
    """
    if _kept:
        status = os.stat(path)
        if _lock.acquire(blocking=False):
            try:
                for is_written in (True, False):
                    _kept.pop((status.st_dev, status.st_ino, is_written), None)
            finally:
                _lock.release()
