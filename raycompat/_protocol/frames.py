"""Frames on the Unix socket between a node and an executor: a length, then a pickled tuple.

Both ends are processes of one user on one host, and the tuples hold plain types only.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("<Q")

#: Begins a line of an executor's output that is not the user's: the name of the call that prints now.
NAME_MARK = b"\x1eraycompat runs "

#: With this a line of output begins that is the state of a progress bar, as JSON.
BAR_MARK = '{"__magic_token__": "__ray_tqdm_magic_token__"'

#: Longer names are cut, so that a name is written to a pipe in one go.
MAX_NAME_BYTES = 1000


def encode(message: tuple[Any, ...]) -> bytes:
    """Return `message` as one frame."""
    data = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(data)) + data


async def read_async(reader: asyncio.StreamReader) -> tuple[Any, ...] | None:
    """Read one message; None at the end of the stream."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        data = await reader.readexactly(_LENGTH.unpack(head)[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    message: tuple[Any, ...] = pickle.loads(data)
    return message


class BlockingChannel:
    """The executor's end: blocking reads from one thread, writes from any (each a whole frame)."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb", buffering=1 << 16)

    def send(self, message: tuple[Any, ...]) -> None:
        """Write one message; the caller serializes concurrent senders."""
        self._socket.sendall(encode(message))

    def receive(self) -> tuple[Any, ...] | None:
        """Read one message; None at the end of the stream."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        data = self._file.read(_LENGTH.unpack(head)[0])
        message: tuple[Any, ...] = pickle.loads(data)
        return message
