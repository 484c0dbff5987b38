"""A tool from Ray for the ports of programs."""

from __future__ import annotations

import socket

__all__ = ["find_free_port"]


def find_free_port(family: socket.AddressFamily = socket.AF_INET) -> int:
    """Return a TCP port that no process uses now.

    Parameters
    ----------
    family : socket.AddressFamily, default AF_INET
        ``AF_INET`` or ``AF_INET6``.

    Notes
    -----
    Ray source: ``ray._common.network_utils.find_free_port``, 2.60.0.
    """
    with socket.socket(family) as free:
        free.bind(("", 0))
        port: int = free.getsockname()[1]
    return port
