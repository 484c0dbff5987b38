"""Which user is at the other end of a Unix socket. The kernel knows, and both ends ask.

A name of the abstract namespace belongs to the process that takes it first: another user can take one
that they have seen, when the process that had it has ended. So a process that connects asks before it
sends anything, and one that listens asks before it reads.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Protocol

#: How the kernel describes a process: pid, uid, gid.
_CREDENTIALS = struct.Struct("3i")


class _Connected(Protocol):
    def getsockopt(self, level: int, option: int, length: int, /) -> bytes: ...


def is_of_this_user(connection: _Connected) -> bool:
    """Whether a process of this user listened, or connected, at the other end of a Unix socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())
