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

#: Marks a line of an executor's output that is not the user's; the name of the running call follows.
NAME_MARK = b"\x1eraycompat runs "

#: Beginning of an output line that holds the state of a progress bar, as JSON.
BAR_MARK = '{"__magic_token__": "__ray_tqdm_magic_token__"'

#: Longer names are cut, so that one write to a pipe takes a whole name.
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
    """The executor's end: one thread reads and blocks; any thread writes whole frames."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb", buffering=1 << 16)

    def send(self, message: tuple[Any, ...]) -> None:
        """Write one message. Only one thread may send at a time: the caller holds a lock."""
        self._socket.sendall(encode(message))

    def receive(self) -> tuple[Any, ...] | None:
        """Read one message; None at the end of the stream."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        data = self._file.read(_LENGTH.unpack(head)[0])
        message: tuple[Any, ...] = pickle.loads(data)
        return message
