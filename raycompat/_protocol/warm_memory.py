"""Writing into segments that this process has written before, through mappings that are kept a while.

Copying into mapped memory takes a third of the time of ``write``, which finds every page again. Making
a mapping costs a third of copying. So the mappings of the last few segments are kept, for `_KEPT_S`
after their last use, and a writer takes a free segment whose mapping it has (see `is_kept`).

Only the holder of a segment's exclusive lock writes into it (see `segment`). The process that removes a
free segment cuts its file to nothing. So a kept mapping, of any process, keeps no memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from raycompat._protocol import mapping
from raycompat._protocol.tensor_bytes import pieces_of

if TYPE_CHECKING:
    from raycompat._protocol.serialization import Block

#: The limits of kept mappings: seconds after their last use (free segments are kept as long), their
#: number, and their bytes (a quarter of the machine's memory).
_KEPT_S, _KEPT = 15.0, 16
_KEPT_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4

#: Bytes from which several threads copy, and the number of threads: more than a small machine has CPUs,
#: because beside other work each thread gets a share of a CPU.
_SPLIT_BYTES, _THREADS = 16 << 20, 6

#: The name of the thread that drops mappings.
TIMER = "raycompat-warm-memory"

#: The mappings by device and inode of their file, with the time of their last use; the newest is last.
_kept: OrderedDict[tuple[int, int], tuple[Any, float]] = OrderedDict()
_lock = threading.Lock()
_timer: threading.Timer | None = None


def _reset_in_child() -> None:
    """Drop the parent's mappings in a forked process, where no thread would drop them."""
    global _lock, _timer
    _kept.clear()
    _lock, _timer = threading.Lock(), None


os.register_at_fork(after_in_child=_reset_in_child)


def is_kept(device: int, inode: int) -> bool:
    """Return whether the mapping of a file is kept, so that it is written fastest."""
    return (device, inode) in _kept


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
    file = (status.st_dev, status.st_ino)
    with _lock:
        memory, _ = _kept.pop(file, (None, 0.0))
    if memory is None or len(memory) < status.st_size:
        try:
            memory = mapping.writable(descriptor, status.st_size)
        except OSError:  # too many mappings
            return False
    _copy(block, memory[: status.st_size], descriptor)
    _keep(file, memory)
    return True


def _copy(block: Block, memory: Any, descriptor: int) -> None:
    """Copy a block into mapped memory, and what is longer than it into the file, at its end."""
    import numpy as np

    start = 0
    for part in block.parts:
        for piece in pieces_of(part):
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


def _keep(file: tuple[int, int], memory: Any) -> None:
    with _lock:
        _kept[file] = (memory, time.monotonic())
        while len(_kept) > 1 and (len(_kept) > _KEPT or _kept_bytes() > _KEPT_BYTES):
            _kept.popitem(last=False)
        _look_again()


def _kept_bytes() -> int:
    return sum(len(memory) for memory, _ in _kept.values())


def _look_again() -> None:
    """Drop mappings that were not used lately. The caller holds the lock."""
    global _timer
    if _timer is None and _kept:
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
    before = time.monotonic() - _KEPT_S
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
                _kept.pop((status.st_dev, status.st_ino), None)
            finally:
                _lock.release()
