"""Dask's connections by Unix sockets: `_protocol.local_address` says to whom they are open.

The kernel knows which user is at the other end (``SO_PEERCRED``), and both ends ask before they read a
byte. So there is no secret to keep, and nothing is encrypted that never leaves the host. Another user
may have taken the name of a socket: a listener then takes another one, and a connector hangs up.

Dask finds this module by the entry point ``distributed.comm.backends`` of the package; processes of
raycompat import it.
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
from tornado.netutil import add_accept_handler

from raycompat._protocol import peer
from raycompat._protocol.local_address import SCHEME, socket_name

_PREFIX = f"{SCHEME}://"

#: Ports that a listener tries that may have any: other users may have taken the names of some.
_TRIES = 1000

#: Seconds after which a listener that has as many connections waiting as it may is asked again.
_BUSY_S = 0.01


class _Socket(socket.socket):
    """A Unix socket that ignores the options of TCP, which Dask sets on each connection."""

    def setsockopt(self, level: int, *arguments: Any) -> None:
        """Set an option, unless it is one of TCP."""
        if level != socket.SOL_TCP:
            super().setsockopt(level, *arguments)


def _comm(connection: _Socket, local: str, remote: str, deserialize: bool) -> TCP:
    stream = IOStream(connection, max_buffer_size=MAX_BUFFER_SIZE)
    return TCP(stream, local, remote, deserialize)


class _Connector(Connector):
    async def connect(self, address: str, deserialize: bool = True, **_: Any) -> Comm:
        """Connect to a listener of this user.

        Raises
        ------
        OSError
            When nothing listens there, or another user does.
        """
        host, port = parse_host_port(address)
        connection = _Socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            await _reach(connection, socket_name(port))
            if not peer.is_of_this_user(connection):
                raise FatalCommClosedError(
                    f"At {_PREFIX}{address} listens another user of this host."
                )
            return _comm(connection, f"{_PREFIX}{host}:0", _PREFIX + address, deserialize)
        except BaseException:
            connection.close()
            raise


async def _reach(connection: socket.socket, name: str) -> None:
    while True:
        try:
            connection.connect(name)
        except BlockingIOError:
            await asyncio.sleep(_BUSY_S)
        else:
            return


class _Listener(BaseListener):
    prefix = _PREFIX

    def __init__(
        self,
        address: str,
        comm_handler: Callable[[Comm], Awaitable[None]],
        deserialize: bool = True,
        allow_offload: bool = True,
        **_: Any,
    ) -> None:
        super().__init__()
        self.ip, self.port = parse_host_port(address, 0)
        self._comm_handler = comm_handler
        self._deserialize = deserialize
        self._allow_offload = allow_offload
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop: Callable[[], None] | None = None

    async def start(self) -> None:
        """Take a port, and listen."""
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
                listener.bind(socket_name(reserved.getsockname()[1]))
            except OSError as error:
                reserved.close()
                listener.close()
                if self.port or not left or error.errno != errno.EADDRINUSE:
                    raise
            else:
                return reserved, listener
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Accept no more connections."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def _accept(self, connection: socket.socket, _: Any) -> None:
        if not peer.is_of_this_user(connection):
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
            await self.on_connection(comm)
        except CommClosedError:
            return  # it has hung up
        await self._comm_handler(comm)

    @property
    def listen_address(self) -> str:
        """The address that it listens at."""
        return f"{_PREFIX}{unparse_host_port(self.ip, self.port)}"

    @property
    def contact_address(self) -> str:
        """The same: there is no other host."""
        return self.listen_address


class LocalBackend(BaseTCPBackend):
    """What Dask asks about such addresses."""

    _connector_class = _Connector
    _listener_class = _Listener


backends.setdefault(SCHEME, LocalBackend())
