"""Unix sockets with abstract names, and descriptors that are sent over them.

An abstract name is no file: the kernel forgets it with its last process, so none is left after a crash.
The first process that binds a name owns it. When that process has ended, another user can bind the
name. So a process that connects checks the user at the other end before it sends, and one that listens
before it reads.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

#: How the kernel describes a process: pid, uid, gid.
_CREDENTIALS = struct.Struct("3i")


class _Connected(Protocol):
    def getsockopt(self, level: int, option: int, length: int, /) -> bytes: ...


class Peer(NamedTuple):
    """The process at the other end of a Unix socket, as it was when it connected."""

    pid: int
    uid: int
    gid: int

    @property
    def is_of_this_user(self) -> bool:
        """Whether the process belongs to the user of this one."""
        return self.uid == os.geteuid()


def address(name: str) -> str:
    """Return the address of an abstract name, as sockets expect it."""
    return f"\0{name}"


def listen(name: str, backlog: int = 128) -> socket.socket:
    """Return a socket that listens at an abstract name.

    Raises
    ------
    OSError
        With ``errno.EADDRINUSE``, when another process has the name.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address(name))
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


async def reach(stream: socket.socket, name: str, again_s: float) -> None:
    """Connect a socket that does not block to an abstract name.

    A listener whose queue of connections is full is tried again after `again_s` seconds.

    Raises
    ------
    OSError
        When no process listens there.
    """
    while True:
        try:
            stream.connect(address(name))
        except BlockingIOError:
            await asyncio.sleep(again_s)
        else:
            return


def peer(connection: _Connected) -> Peer:
    """Return the process at the other end of a Unix socket, as the kernel reports it."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(found))


def is_of_this_user(connection: _Connected) -> bool:
    """Return whether the process at the other end of a Unix socket belongs to this user."""
    return peer(connection).is_of_this_user


def packets() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, on which each message arrives whole or not at all."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(stream: socket.socket, data: bytes | memoryview, descriptors: Sequence[int]) -> int:
    """Send bytes together with open files; return the number of bytes that were sent."""
    return socket.send_fds(stream, [data], descriptors) if descriptors else stream.send(data)


def receive(stream: socket.socket, num_bytes: int, num_descriptors: int) -> tuple[bytes, list[int]]:
    """Receive bytes, and the files that were sent with them.

    Programs that this process starts do not inherit these files.
    """
    data, descriptors, _, _ = socket.recv_fds(
        stream, num_bytes, num_descriptors, socket.MSG_CMSG_CLOEXEC
    )
    return data, descriptors
