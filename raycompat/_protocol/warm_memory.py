"""Writing into segments that this process has written before, through mappings that are kept a while.

Copying into mapped memory is two to four times as fast as ``write``, which finds every page again.
Making a mapping costs as much as it saves once. So a segment is mapped when it is written for the
second time, and the mapping is kept for a third time. Only the last few are kept, for `_KEPT_S` after
their last use, because a mapping keeps its memory even when the file is removed.

Only the holder of a segment's exclusive lock writes into it (see `segment`).
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raycompat._protocol.serialization import Block

#: The limits of kept mappings: seconds after their last use, their number, and their bytes (an eighth
#: of the machine's memory).
_KEPT_S, _KEPT = 1.0, 4
_KEPT_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8

#: Prepare all pages with the mapping. Before Python 3.12 this would stop all threads.
_POPULATE = mmap.MAP_POPULATE if sys.version_info >= (3, 12) else 0

#: Bytes from which several threads copy, and the number of threads.
_SPLIT_BYTES, _THREADS = 16 << 20, min(4, len(os.sched_getaffinity(0)))

#: The mappings by device and inode of their file, with the time of their last use; the newest is last.
_kept: OrderedDict[tuple[int, int], tuple[mmap.mmap, float]] = OrderedDict()
_lock = threading.Lock()
_timer: threading.Timer | None = None


def _reset_in_child() -> None:
    """Drop the parent's mappings in a forked process, where no thread would drop them."""
    global _lock, _timer
    _kept.clear()
    _lock, _timer = threading.Lock(), None


os.register_at_fork(after_in_child=_reset_in_child)


def write(descriptor: int, block: Block) -> bool:
    """Write `block` into a locked file of the same size; False when the file lacks allocated pages."""
    status = os.fstat(descriptor)
    if status.st_size != block.size or status.st_blocks * 512 < block.size:
        return False  # a missing page may have no memory: writing to it would kill the process
    file = (status.st_dev, status.st_ino)
    with _lock:
        mapping, _ = _kept.pop(file, (None, 0.0))
    if mapping is None or len(mapping) < block.size:
        try:
            mapping = mmap.mmap(descriptor, block.size, flags=mmap.MAP_SHARED | _POPULATE)
        except OSError:  # too many open files or mappings
            return False
    _copy(block, mapping)
    _keep(file, mapping)
    return True


def _copy(block: Block, mapping: mmap.mmap) -> None:
    import numpy as np

    target, start = np.frombuffer(mapping, np.uint8), 0
    for part in block.parts:
        source = np.frombuffer(part, np.uint8)
        stop = start + len(source)
        _copy_array(source, target[start:stop])
        start = stop


def _copy_array(source: Any, target: Any) -> None:
    """Copy bytes without holding the interpreter's lock."""
    import numpy as np

    number = _THREADS if len(source) >= _SPLIT_BYTES else 1
    bounds = [len(source) * part // number for part in range(number + 1)]
    pairs = [(target[a:b], source[a:b]) for a, b in pairwise(bounds)]
    threads = []
    while len(pairs) > 1:
        thread = threading.Thread(target=np.copyto, args=pairs[-1])
        try:
            thread.start()
        except RuntimeError:  # no more threads are possible, or the interpreter is ending
            break
        threads.append(thread)
        pairs.pop()
    for pair in pairs:
        np.copyto(*pair)
    for thread in threads:
        thread.join()


def _keep(file: tuple[int, int], mapping: mmap.mmap) -> None:
    with _lock:
        _kept[file] = (mapping, time.monotonic())
        while len(_kept) > 1 and (len(_kept) > _KEPT or _kept_bytes() > _KEPT_BYTES):
            _kept.popitem(last=False)
        _look_again()


def _kept_bytes() -> int:
    return sum(len(mapping) for mapping, _ in _kept.values())


def _look_again() -> None:
    """Drop mappings that were not used lately. The caller holds the lock."""
    global _timer
    if _timer is None and _kept:
        timer = threading.Timer(_KEPT_S, _drop_old)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # as above: no thread would drop the mappings later
            _kept.clear()
        else:
            _timer = timer


def _drop_old() -> None:
    global _timer
    before = time.monotonic() - _KEPT_S
    with _lock:
        _timer = None
        for file in [file for file, (_, used) in _kept.items() if used <= before]:
            del _kept[file]
        _look_again()


def forget(path: str) -> None:
    """Drop the mapping of a file that is about to be removed, so that its memory is freed.

    Finalizers call this, so this thread may already hold the lock: then the timer drops the mapping.
    """
    if _kept:
        status = os.stat(path)
        if _lock.acquire(blocking=False):
            try:
                _kept.pop((status.st_dev, status.st_ino), None)
            finally:
                _lock.release()
