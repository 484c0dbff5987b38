"""Addresses of servers that only processes of the same user on the same host can reach.

``raycompat://127.0.0.1:40123`` is the Unix socket with the abstract name ``raycompat-dask-40123``. The
number is a TCP port that the server has bound and does not listen on. So the address reads like a TCP
address, and two servers never share one.
"""

from __future__ import annotations

import os
import socket

from raycompat._host import unix_socket

SCHEME = "raycompat"

#: Ray's variable. With "token", only their user can connect to the clusters that programs start. With
#: "disabled" they listen on TCP, where every user of the host can connect.
AUTH_VARIABLE, _DEFAULT_MODE = "RAY_AUTH_MODE", "token"

_LOOPBACK = ("127.0.0.1", "localhost")

#: Seconds for a server to accept a connection.
_TAKE_S = 5.0


def is_wanted() -> bool:
    """Return whether clusters that programs start without a password use such addresses.

    Raises
    ------
    ValueError
        When `AUTH_VARIABLE` has a value that Ray does not have.
    """
    given = os.environ.get(AUTH_VARIABLE) or _DEFAULT_MODE
    mode = given.lower()  # as Ray reads it
    if mode not in ("token", "disabled"):
        raise ValueError(
            f"{AUTH_VARIABLE}={given!r}: expected 'token' (only this user connects to the clusters "
            "that programs start) or 'disabled' (every user of this host can)."
        )
    return mode == "token"


def socket_name(port: int) -> str:
    """Return the abstract name of a server's Unix socket."""
    return f"raycompat-dask-{port}"


def is_served(host: str, port: int) -> bool:
    """Return whether a process of this user serves the address."""
    if host not in _LOOPBACK:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TAKE_S)
        try:
            connection.connect(unix_socket.address(socket_name(port)))
        except OSError:
            return False
        return unix_socket.is_of_this_user(connection)
