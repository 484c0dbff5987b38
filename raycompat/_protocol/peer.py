"""The user at the other end of a Unix socket, as the kernel reports it; both ends check it.

The first process that binds an abstract name owns it. When that process has ended, another user can
bind the name. So a process that connects checks the user before it sends, and one that listens before
it reads.
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
    """Return whether the process at the other end of a Unix socket belongs to this user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())
