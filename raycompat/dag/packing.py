"""The values of a compiled graph as bytes.

A pickle and its out-of-band buffers are laid out one after the other, so that the reader unpickles the
buffers where they arrived::

    number of buffers u64 | length u64 of the pickle, and of each buffer | pickle
    | padding | buffer | padding | buffer ...

Buffers are aligned to 64 bytes, for vector instructions.
"""

from __future__ import annotations

import ctypes
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import raycompat as ray
from raycompat import exceptions
from raycompat._pickling import serialization
from raycompat._pickling.tensor_bytes import DeviceBytes, pieces_of
from raycompat.dag.tensors import Loan, Sender

#: The kinds of values: bytes as they are, a pickle, a pickle with buffers, and a pickled error.
BYTES, PICKLE, BUFFERS, ERROR = b"b", b"p", b"o", b"e"

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
        described = exceptions.RayTaskError.from_exception(
            error, where, hide_frame=_is_own_file, ip=ray.util.get_node_ip_address()
        )
        return cls(exceptions.dumps_error(described))

    def error(self) -> exceptions.RayError:
        """Return the exception to raise."""
        return exceptions.loads_error(self.pickled)


def _is_own_file(path: str) -> bool:
    return Path(path).parent == Path(__file__).parent


class Packed:
    """A packed value. It may be sent to several processes.

    Parameters
    ----------
    loan : Loan, optional
        Memory of a GPU from which the readers copy.
    """

    def __init__(self, kind: bytes, parts: Sequence[Any], loan: Loan | None = None) -> None:
        self.kind = kind
        self.parts = parts
        self.size = sum(_num_bytes(part) for part in parts)
        self.loan = loan

    def host_parts(self) -> Sequence[bytes | memoryview]:
        """Return the parts, with those on a GPU copied to the host."""
        self.parts = [_on_host(part) for part in self.parts]
        return self.parts


def _num_bytes(part: Any) -> int:
    return part.nbytes if isinstance(part, DeviceBytes) else len(part)


def _on_host(part: bytes | memoryview | DeviceBytes) -> bytes | memoryview:
    if not isinstance(part, DeviceBytes):
        return part
    memory = bytearray()
    for piece in pieces_of(part):
        memory += piece
    return memoryview(memory)


def pack(value: Any, tensors: Sender | None = None) -> Packed:
    """Pack a value; `tensors` says how its tensors travel.

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
    reducer = Sender() if tensors is None else tensors
    try:
        data = serialization.dumps(value, buffers.append, reducer)
    except Exception as error:
        reducer.end_loan()
        raise TypeError(
            f"Could not serialize {_shortened(value)}: {error!r}. A value that goes to another process "
            "must be picklable: give the data, not open files, locks or sockets."
        ) from error
    if not buffers:
        return Packed(PICKLE, (data,), reducer.loan)
    views = [reducer.real(buffer.raw()) for buffer in buffers]
    return Packed(BUFFERS, _laid_out(data, views), reducer.loan)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _laid_out(data: bytes, views: Sequence[memoryview | DeviceBytes]) -> list[Any]:
    lengths = b"".join(_LENGTH.pack(_num_bytes(each)) for each in (data, *views))
    parts: list[Any] = [_COUNT.pack(len(views)) + lengths, data]
    position = _COUNT.size + len(lengths) + len(data)
    for view in views:
        padding = -position % _ALIGNMENT_BYTES
        parts += [bytes(padding), view]
        position += padding + _num_bytes(view)
    return parts


def room(num_bytes: int) -> memoryview:
    """Return memory for a packed value, which begins at a multiple of 64 bytes."""
    memory = bytearray(num_bytes + _ALIGNMENT_BYTES - 1)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % _ALIGNMENT_BYTES
    return memoryview(memory)[start : start + num_bytes]


def unpack(kind: bytes, data: bytes | memoryview, *, keep: bool) -> Any:
    """Return the value.

    Arrays in it are read-only views of the data, or of a copy if the data cannot be kept.
    """
    if kind == ERROR:
        return Failure(bytes(data))
    if kind == BYTES:
        return bytes(data)
    if kind == PICKLE:
        return pickle.loads(data)
    if isinstance(data, bytes) or not keep:
        aligned = room(len(data))
        aligned[:] = data
        data = aligned
    view = data.toreadonly()
    count = _COUNT.unpack_from(view)[0]
    lengths = [
        _LENGTH.unpack_from(view, _COUNT.size + _LENGTH.size * index)[0]
        for index in range(count + 1)
    ]
    start = _COUNT.size + _LENGTH.size * (count + 1)
    position = start + lengths[0]
    buffers = []
    for length in lengths[1:]:
        position += -position % _ALIGNMENT_BYTES
        buffers.append(view[position : position + length])
        position += length
    return pickle.loads(view[start : start + lengths[0]], buffers=buffers)
