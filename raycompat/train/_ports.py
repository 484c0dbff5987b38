"""Free ports for the servers of libraries; two runs never take the same port.

A port is free between the moment when this process tries it and the moment when the library binds it.
Libraries do not allow keeping it bound (TensorFlow forbids SO_REUSEPORT). So ports are taken from below
the kernel's range for outgoing connections, and each is protected by a lock: an abstract Unix socket
with its name, which the worker keeps open until its process ends.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import raycompat as ray
from raycompat._host import network, unix_socket

if TYPE_CHECKING:
    from raycompat.train._worker_group import WorkerGroup

#: The first port after those of well-known services, and the default start of the kernel's range.
_FIRST, _LAST = 20_000, 32_767

#: The locks of this process; see above.
_locks: list[socket.socket] = []


def _last_port() -> int:
    """Return the last port that outgoing connections are not given."""
    first = network.first_outgoing_port() or _LAST + 1
    return max(min(first - 1, _LAST), _FIRST + 1000)


def reserve_address() -> str:
    """Return this host and a port of `reserve_port`, as ``host:port``."""
    host = ray.util.get_node_ip_address()
    return f"[{host}]:{reserve_port()}" if ":" in host else f"{host}:{reserve_port()}"


def send_addresses(group: WorkerGroup, receive: Callable[[list[str], int], None]) -> None:
    """Reserve an address in each worker, and call `receive` in each with all of them and its rank."""
    addresses = group.execute(reserve_address)
    ray.get(
        [group.execute_single_async(rank, receive, addresses, rank) for rank in range(len(group))]
    )


def reserve_port() -> int:
    """Return a port that this process alone may listen on, among all workers of this host.

    Raises
    ------
    OSError
        When all are taken.
    """
    ports = list(range(_FIRST, _last_port() + 1))
    random.Random(os.getpid()).shuffle(ports)
    for port in ports:
        lock = _locked(port)
        if lock is None:
            continue
        if _can_be_bound(port):
            _locks.append(lock)
            return port
        lock.close()
    raise OSError(
        errno.EADDRINUSE,
        f"No port is free from {ports[0]} to {ports[-1]} for the server of a library",
    )


def _locked(port: int) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(unix_socket.address(f"raycompat-train-port-{port}"))
    except OSError:
        lock.close()
        return None
    return lock


def _can_be_bound(port: int) -> bool:
    with socket.socket() as attempt:
        try:
            attempt.bind(("", port))
        except OSError:
            return False
    return True
