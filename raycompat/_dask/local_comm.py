"""Dask's connections over Unix sockets, which only the same user can use (`_protocol.local_address`).

The kernel reports the user at the other end (``SO_PEERCRED``), and both ends check it before they read.
So no secret is needed, and no encryption, as the data does not leave the host. If another user has
taken the name of a socket, a listener takes another name, and a connector closes the connection.

Dask finds this module through the entry point ``distributed.comm.backends`` of the package. Processes
of raycompat import it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import dask
from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import (
    BaseListener,
    Comm,
    CommClosedError,
    Connector,
    FatalCommClosedError,
)
from distributed.comm.registry import backends
from distributed.comm.tcp import MAX_BUFFER_SIZE, TCP, BaseTCPBackend
from tornado.iostream import IOStream

from raycompat._dask.accepting import add_accept_handler, identifying
from raycompat._host import unix_socket
from raycompat._protocol.local_address import SCHEME, socket_name

_PREFIX = f"{SCHEME}://"

#: Ports that a listener without a fixed port tries: other users may have taken some of the names.
_TRIES = 1000

#: Seconds after which a listener with a full queue of connections is tried again.
_BUSY_S = 0.01


class _Socket(socket.socket):
    """A Unix socket that ignores TCP options, which Dask sets on each connection."""

    def setsockopt(self, level: int, *arguments: Any) -> None:
        """Set an option, unless it is a TCP option."""
        if level != socket.SOL_TCP:
            super().setsockopt(level, *arguments)


def _comm(connection: _Socket, local: str, remote: str, deserialize: bool) -> TCP:
    stream = IOStream(connection, max_buffer_size=MAX_BUFFER_SIZE)
    return TCP(stream, local, remote, deserialize)


class _Connector(Connector):
    async def connect(self, address: str, deserialize: bool = True, **_: object) -> Comm:
        """Connect to a listener of this user.

        Raises
        ------
        OSError
            When no server listens there, or another user's does.
        """
        host, port = parse_host_port(address)
        connection = _Socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            await unix_socket.reach(connection, socket_name(port), _BUSY_S)
            if not unix_socket.is_of_this_user(connection):
                raise FatalCommClosedError(
                    f"Another user of this host listens at {_PREFIX}{address}."
                )
            return _comm(connection, f"{_PREFIX}{host}:0", _PREFIX + address, deserialize)
        except BaseException:
            connection.close()
            raise


class _Listener(BaseListener):
    prefix = _PREFIX

    def __init__(
        self,
        address: str,
        comm_handler: Callable[[Comm], Awaitable[None]],
        deserialize: bool = True,
        allow_offload: bool = True,
        **_: object,
    ) -> None:
        super().__init__()
        self.ip, self.port = parse_host_port(address, 0)
        self._comm_handler = comm_handler
        self._deserialize = deserialize
        self._allow_offload = allow_offload
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop: Callable[[], None] | None = None

    async def start(self) -> None:
        """Choose a port, and listen."""
        reserved, listener = self._bind()
        self.port = reserved.getsockname()[1]
        listener.setblocking(False)
        listener.listen(int(dask.config.get("distributed.comm.socket-backlog")))
        stop_accepting = add_accept_handler(listener, self._accept)

        def stop() -> None:
            stop_accepting()
            listener.close()
            reserved.close()

        self._stop = stop

    def _bind(self) -> tuple[socket.socket, socket.socket]:
        for left in reversed(range(_TRIES)):
            reserved, listener = socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)
            try:
                reserved.bind((self.ip, self.port))
                listener.bind(unix_socket.address(socket_name(reserved.getsockname()[1])))
            except OSError as error:
                reserved.close()
                listener.close()
                if self.port or not left or error.errno != errno.EADDRINUSE:
                    raise
            else:
                return reserved, listener
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Stop accepting connections."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def _accept(self, connection: socket.socket, _: object) -> None:
        if not unix_socket.is_of_this_user(connection):
            connection.close()
            return
        own = _Socket(fileno=connection.detach())
        comm = _comm(own, self.listen_address, f"{_PREFIX}{self.ip}:0", self._deserialize)
        comm.allow_offload = self._allow_offload
        task = asyncio.ensure_future(self._serve(comm))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, comm: TCP) -> None:
        try:
            with identifying(comm.abort):
                await self.on_connection(comm)
        except CommClosedError:
            return  # it has closed the connection
        await self._comm_handler(comm)

    @property
    def listen_address(self) -> str:
        """The address at which it listens."""
        return f"{_PREFIX}{unparse_host_port(self.ip, self.port)}"

    @property
    def contact_address(self) -> str:
        """The same address, because there is no other host."""
        return self.listen_address


class LocalBackend(BaseTCPBackend):
    """The functions that Dask calls for such addresses."""

    _connector_class = _Connector
    _listener_class = _Listener


backends.setdefault(SCHEME, LocalBackend())
