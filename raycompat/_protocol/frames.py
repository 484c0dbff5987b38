"""Frames on sockets between raycompat's processes: a length, then one pickled object.

The objects hold plain types only. `_protocol.connection` sends lists of messages, the socket between a
node and an executor one message (`_protocol.executor_messages`).
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("<Q")


def encode(content: Any) -> bytes:
    """Return an object as one frame."""
    data = pickle.dumps(content, protocol=5)
    return _LENGTH.pack(len(data)) + data


def split(data: bytes) -> tuple[list[Any], int]:
    """Return the objects of all whole frames at the start of `data`, and where the rest begins."""
    contents: list[Any] = []
    position, end = 0, len(data)
    view = memoryview(data)
    while end - position >= _LENGTH.size:
        stop = position + _LENGTH.size + _LENGTH.unpack_from(data, position)[0]
        if stop > end:
            break
        contents.append(pickle.loads(view[position + _LENGTH.size : stop]))
        position = stop
    return contents, position


def num_bytes_needed(rest: bytes) -> int:
    """Return how many bytes the frame that begins with `rest` has, as far as is known."""
    if len(rest) < _LENGTH.size:
        return _LENGTH.size
    length: int = _LENGTH.unpack_from(rest)[0]
    return _LENGTH.size + length


async def read_async(reader: asyncio.StreamReader) -> Any:
    """Read one frame; return its object, or None at the end of the stream."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        data = await reader.readexactly(_LENGTH.unpack(head)[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return pickle.loads(data)


class BlockingChannel:
    """One end of a socket: one thread reads and blocks; any thread writes whole frames."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb", buffering=1 << 16)

    def send(self, content: Any) -> None:
        """Write one frame. Only one thread may send at a time: the caller holds a lock."""
        self._socket.sendall(encode(content))

    def receive(self) -> Any:
        """Read one frame; return its object, or None at the end of the stream."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        length: int = _LENGTH.unpack(head)[0]
        data = self._file.read(length)
        return pickle.loads(data) if len(data) == length else None
