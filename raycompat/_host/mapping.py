"""Files mapped into memory, read-only, without one descriptor for each.

Before Python 3.13, ``mmap`` keeps a descriptor as long as the mapping, and a process can have few of
them: a thousand live values would use them all. The kernel needs none: a mapping alone keeps its file
open, with its locks. So when half of the descriptors are in use, the C library maps the files.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import weakref
from typing import Any, Final, TypeAlias

from raycompat._host import open_files

#: An object with a buffer and weak references: an ``mmap`` or a NumPy array.
Mapping: TypeAlias = Any

_MAP_FAILED: Final = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def of(descriptor: int) -> Mapping:
    """Map a file that is not empty. The descriptor may be closed afterwards.

    Raises
    ------
    OSError
        When there is not enough memory.
    """
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, trackfd=False)
    if not open_files.are_short(descriptor):
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    return _without_descriptor(descriptor, os.fstat(descriptor).st_size)


def _without_descriptor(descriptor: int, size: int) -> Mapping:
    try:
        return _map(descriptor, size, mmap.PROT_READ, mmap.MAP_SHARED)
    except OSError as error:
        if error.errno == errno.ENOMEM:  # the number of mappings of a process is limited too
            return _copy(descriptor, size)
        raise


def address(buffer: Any) -> int:
    """Return where the bytes of an object with a buffer begin in this process's memory."""
    import numpy as np

    return int(np.frombuffer(buffer, dtype=np.uint8).ctypes.data)


def without_locks(descriptor: int, size: int) -> object:
    """Map `size` bytes of a file for reading, as a NumPy array that does not hold the file's locks.

    Raises
    ------
    OSError
        When there is not enough memory, or half of the descriptors are in use.
    """
    if open_files.are_short(descriptor):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    # Another opening of the file: locks belong to the opening that has made them.
    other = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        memory = _map(other, size, mmap.PROT_READ, mmap.MAP_SHARED)
    finally:
        os.close(other)
    memory.flags.writeable = False
    return memory


def writable(descriptor: int, size: int) -> object:
    """Map `size` bytes of a file for writing, with all pages, and return them as a NumPy array.

    The pages must have memory already. ``mmap`` of Python would hold the interpreter's lock meanwhile
    (before 3.12), and without the pages each would be a fault of its own, which costs more than
    copying it.

    Raises
    ------
    OSError
        When there is not enough memory.
    """
    return _map(
        descriptor, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | mmap.MAP_POPULATE
    )


def _map(descriptor: int, size: int, protection: int, flags: int) -> Any:
    import numpy as np

    address = _libc.mmap(None, size, protection, flags, descriptor, 0)
    if address == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    memory: Any = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, _libc.munmap, address, size).atexit = False
    return np.frombuffer(memory, dtype=np.uint8)  # its memoryviews keep `memory` alive


def _copy(descriptor: int, size: int) -> Mapping:
    import numpy as np

    copy = np.empty(size, dtype=np.uint8)
    rest: Any = memoryview(copy.data)
    while rest:
        rest = rest[os.preadv(descriptor, [rest], size - len(rest)) :]
    return copy
