"""Addresses of servers to which only processes of their user on their host can connect.

``raycompat://127.0.0.1:40123`` is the Unix socket with the abstract name ``raycompat-dask-40123``. The
number is that of a TCP port which the server has taken, and on which it does not listen: so the address
can be read like one of TCP, and never means two servers.
"""

from __future__ import annotations

import os
import socket

from raycompat._protocol import peer

SCHEME = "raycompat"

#: Ray's variable: with "token" the clusters that programs start are open to their user alone; with
#: "disabled" they listen on TCP, where every user of the host can connect.
AUTH_VARIABLE, _DEFAULT_MODE = "RAY_AUTH_MODE", "token"

_LOOPBACK = ("127.0.0.1", "localhost")

#: Seconds that a server has to take a connection.
_TAKE_S = 5.0


def is_wanted() -> bool:
    """Whether the clusters that programs start, without a password, are to have such addresses.

    Raises
    ------
    ValueError
        When `AUTH_VARIABLE` has another value than Ray knows.
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
    """Return the abstract name of the Unix socket of a server."""
    return f"\0raycompat-dask-{port}"


def is_served(host: str, port: int) -> bool:
    """Whether a process of this user serves such an address."""
    if host not in _LOOPBACK:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TAKE_S)
        try:
            connection.connect(socket_name(port))
        except OSError:
            return False
        return peer.is_of_this_user(connection)
