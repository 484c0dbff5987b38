"""``raycompat debug``: lists the breakpoints that wait on this machine, and attaches to one."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Sequence

from raycompat._cli.tables import table
from raycompat._host import unix_socket
from raycompat._protocol.breakpoints import Waiting

_CHUNK_BYTES = 1 << 16


def listed(waiting: Sequence[Waiting]) -> str:
    """Return the waiting breakpoints as a table, with the numbers by which they are chosen."""
    now = time.time()
    rows = [
        {
            "index": number,
            "call": each.call,
            "reason": each.reason,
            "pid": each.pid,
            "waits": f"{now - each.since:.0f} s",
            "place": each.place,
        }
        for number, each in enumerate(waiting)
    ]
    return table(rows)


def attach(waiting: Waiting) -> None:
    """Connect this terminal to a breakpoint until its call goes on.

    After the end of the input (Ctrl-D) or Ctrl-C the call goes on too.

    Raises
    ------
    ConnectionError
        When the breakpoint has a terminal already, or is not of this user.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(unix_socket.address(waiting.socket))
        if not unix_socket.is_of_this_user(connection):
            raise ConnectionRefusedError(f"The process {waiting.pid} is of another user.")
        try:
            _copy(connection)
        except KeyboardInterrupt:
            return  # closing the connection lets the call go on


def _copy(connection: socket.socket) -> None:
    """Copy both ways between this terminal and the debugger until the debugger closes."""
    keyboard = sys.stdin.fileno()
    sources: list[int | socket.socket] = [connection, keyboard]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if connection in ready:
            try:
                data = connection.recv(_CHUNK_BYTES)
            except ConnectionResetError:  # it has closed before it read all
                return
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if keyboard in ready:
            typed = os.read(keyboard, _CHUNK_BYTES)
            if not typed:
                connection.shutdown(socket.SHUT_WR)
                sources = [connection]
            else:
                connection.sendall(typed)
