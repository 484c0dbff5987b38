"""The values of a compiled graph as bytes: in a frame, or in memory that the reader maps.

A value of more than `INLINE_BYTES` for a process of this host is written once into a file without a
name (``memfd_create``), and its readers get the descriptor. The kernel frees the memory after the last
reader. The file is sealed, so the readers can share it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import struct
from collections.abc import Sequence
from typing import Any

from raycompat import cloudpickle, exceptions

#: Bytes. Up to this size a value travels inside its frame: it fits into the buffer of a socket.
INLINE_BYTES = 64 << 10

#: The kinds of values: bytes as they are, a pickle, a pickle with buffers, and a pickled error.
BYTES, PICKLE, BUFFERS, ERROR = b"b", b"p", b"o", b"e"

#: Linux's ``F_ADD_SEALS``, and the seals against more seals, shrinking, growing and writing.
_ADD_SEALS, _SEALS = 1033, 1 | 2 | 4 | 8

_ALIGNMENT_BYTES = 64

#: Types whose pickle never refers to ``__main__``: the plain pickler is enough, and 10 times as fast.
_PLAIN = frozenset({type(None), bool, int, float, str})

#: Of a pickle with buffers: the number of buffers, and the length of the pickle or of a buffer.
_COUNT, _LENGTH = struct.Struct("<Q"), struct.Struct("<Q")


class Failure:
    """An error that takes the place of a value. Calls that need the value do not run."""

    def __init__(self, pickled: bytes) -> None:
        self.pickled = pickled

    @classmethod
    def of(cls, error: BaseException, where: str) -> Failure:
        """Describe an exception that was just raised in a method."""
        described = exceptions.RayTaskError.from_exception(error, where)
        return cls(exceptions.dumps_error(described))

    def error(self) -> exceptions.RayError:
        """Return the exception to raise."""
        return exceptions.loads_error(self.pickled)


class Descriptor:
    """A file descriptor that is closed with the last reference to this object."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Packed:
    """A packed value. It may be sent to several processes."""

    def __init__(self, kind: bytes, parts: Sequence[Any]) -> None:
        self.kind = kind
        self.parts = parts
        self.size = sum(len(part) for part in parts)
        self._file: Descriptor | None = None

    def file(self) -> Descriptor:
        """Return the file that holds the value."""
        if self._file is None:
            self._file = Descriptor(
                os.memfd_create("raycompat-graph", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            )
            _write(self._file.number, self.parts)
            fcntl.fcntl(self._file.number, _ADD_SEALS, _SEALS)
        return self._file


def _write(descriptor: int, parts: Sequence[Any]) -> None:
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def pack(value: Any) -> Packed:
    """Pack a value.

    Raises
    ------
    TypeError
        When the value cannot be pickled.
    """
    if type(value) is bytes:
        return Packed(BYTES, (value,))
    if type(value) in _PLAIN:
        return Packed(PICKLE, (pickle.dumps(value, protocol=5),))
    if isinstance(value, Failure):
        return Packed(ERROR, (value.pickled,))
    buffers: list[pickle.PickleBuffer] = []
    try:
        data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except Exception as error:
        raise TypeError(
            f"Could not serialize {_shortened(value)}: {error!r}. A value that goes to another process "
            "must be picklable: give the data, not open files, locks or sockets."
        ) from error
    if not buffers:
        return Packed(PICKLE, (data,))
    return Packed(BUFFERS, _laid_out(data, [buffer.raw() for buffer in buffers]))


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _laid_out(data: bytes, views: Sequence[memoryview]) -> list[Any]:
    lengths = b"".join(_LENGTH.pack(len(each)) for each in (data, *views))
    parts: list[Any] = [_COUNT.pack(len(views)) + lengths, data]
    position = _COUNT.size + len(lengths) + len(data)
    for view in views:
        padding = -position % _ALIGNMENT_BYTES
        parts += [bytes(padding), view]
        position += padding + len(view)
    return parts


def unpack(kind: bytes, data: bytes | Descriptor, size: int) -> Any:
    """Return the value; arrays in it are read-only views."""
    if kind == ERROR:
        return Failure(_read(data, size))
    if kind == BYTES:
        return _read(data, size)
    view = memoryview(_mapped(data, size) if isinstance(data, Descriptor) else data)
    if kind == PICKLE:
        return pickle.loads(view)
    count = _COUNT.unpack_from(view)[0]
    start = _COUNT.size + _LENGTH.size * (count + 1)
    spans = [_LENGTH.unpack_from(view, _COUNT.size + 8 * index)[0] for index in range(count + 1)]
    position = start + spans[0]
    buffers = []
    for length in spans[1:]:
        position += -position % _ALIGNMENT_BYTES
        buffers.append(view[position : position + length])
        position += length
    return pickle.loads(view[start : start + spans[0]], buffers=buffers)


def _mapped(data: Descriptor, size: int) -> mmap.mmap:
    flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
    return mmap.mmap(data.number, size, flags=flags, prot=mmap.PROT_READ)


def _read(data: bytes | Descriptor, size: int) -> bytes:
    if not isinstance(data, Descriptor):
        return data
    pieces = []
    position = 0
    while position < size:
        pieces.append(os.pread(data.number, size - position, position))
        position += len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
