"""Connections between every two ranks of a group, with proof of identity.

Ranks of one host and one user connect over abstract Unix sockets: the kernel reports the user of the
process at the other end, and it must be the same user. Other ranks connect over TCP
between the nodes' addresses. On both, each side proves that it knows the group's token (HMAC-SHA256 of
both sides' random numbers). The token came over the cluster's own connections and is never sent here.
The data that ranks later send over TCP is neither encrypted nor signed, even in a cluster that uses
TLS.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from raycompat._host import namespaces, unix_socket

#: Seconds for one handshake: the longest delay by a stranger that connects and sends nothing.
_HANDSHAKE_S = 5.0

_NONCE_BYTES = 16
_DIGEST_BYTES = 32
_RANK = struct.Struct("<I")


class UnreachableError(TimeoutError):
    """A rank cannot be reached."""

    def __init__(self, text: str, rank: int) -> None:
        super().__init__(text)
        self.rank = rank


class _RefusedError(Exception):
    """The other end of a connection is not the expected rank."""


class Connected(NamedTuple):
    """A connection to another rank; its process's id if both are in one pid namespace."""

    socket: socket.socket
    pid: int | None


def place() -> str:
    """Return an id of the processes that can use the same Unix sockets: kernel, network and user."""
    return f"{namespaces.network()}:{os.geteuid()}"


class Deadline(Protocol):
    """The time until which the connections must be made."""

    def remaining_s(self) -> float:
        """Return the seconds that are left; 0 when it is over."""


class Mesh:
    """The connections while they are made: this rank connects to lower ranks, higher ones to it.

    Parameters
    ----------
    rank : int
    deadline : Deadline
    places : list of str
        The `place` of each rank.
    token : bytes
        The secret of the group.
    handshake_s : float
        Seconds for one handshake.
    """

    def __init__(
        self,
        rank: int,
        deadline: Deadline,
        places: Sequence[str],
        token: bytes,
        handshake_s: float = _HANDSHAKE_S,
    ) -> None:
        self._rank = rank
        self._deadline = deadline
        self._places = places
        self._token = token
        self._handshake_s = handshake_s
        self.peers: dict[int, Connected] = {}

    def is_near(self, rank: int) -> bool:
        """Return whether a rank can use the same Unix sockets as this one."""
        return self._places[rank] == self._places[self._rank]

    def connect(self, rank: int, unix: str, tcp: tuple[str, int] | None) -> None:
        """Connect to a lower rank, at the Unix socket or the TCP address where it listens."""
        near = tcp is None or self.is_near(rank)
        connection = socket.socket(socket.AF_UNIX if near else _family(tcp))
        address: Any = unix_socket.address(unix) if near else tcp
        try:
            connection.settimeout(min(self._handshake_s, self._deadline.remaining_s()) or 0.001)
            connection.connect(address)
            pid = _process(connection) if near else None
            self._introduce(connection, rank)
        except (OSError, _RefusedError) as error:
            connection.close()
            raise UnreachableError(
                f"Rank {rank} cannot be reached from rank {self._rank} at "
                f"{'a Unix socket of this host' if near else f'{tcp}'}: {error}.",
                rank,
            ) from error
        self._add(rank, connection, pid)

    def _add(self, rank: int, connection: socket.socket, pid: int | None) -> None:
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peers[rank] = Connected(connection, pid)

    def accept_ready(self, listeners: Sequence[socket.socket], timeout_s: float) -> bool:
        """Accept what connects to the listeners; return False when nothing did in time."""
        ready, _, _ = select.select(listeners, [], [], timeout_s)
        for listener in ready:
            self.accept(listener)
        return bool(ready)

    def accept(self, listener: socket.socket) -> None:
        """Accept one connection; close it if it is not an expected rank's."""
        connection, _ = listener.accept()
        try:
            connection.settimeout(_HANDSHAKE_S)
            pid = _process(connection) if connection.family == socket.AF_UNIX else None
            rank = self._be_introduced(connection)
        except (OSError, _RefusedError):
            connection.close()
        else:
            self._add(rank, connection, pid)

    def close(self) -> None:
        """Close the connections that are not used."""
        for peer in self.peers.values():
            peer.socket.close()

    # --- the handshake ----------------------------------------------------------------------------

    def _digest(self, side: bytes, ranks: bytes, nonces: bytes) -> bytes:
        return hmac.digest(self._token, side + ranks + nonces, "sha256")

    def _introduce(self, connection: socket.socket, rank: int) -> None:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ranks = _RANK.pack(self._rank) + _RANK.pack(rank)
        connection.sendall(_RANK.pack(self._rank) + nonce)
        answer = _read(connection, _NONCE_BYTES + _DIGEST_BYTES)
        nonces = nonce + answer[:_NONCE_BYTES]
        if not hmac.compare_digest(answer[_NONCE_BYTES:], self._digest(b"to", ranks, nonces)):
            raise _RefusedError("it does not know the group's token")
        connection.sendall(self._digest(b"from", ranks, nonces))

    def _be_introduced(self, connection: socket.socket) -> int:
        hello = _read(connection, _RANK.size + _NONCE_BYTES)
        rank: int = _RANK.unpack_from(hello)[0]
        if not self._rank < rank < len(self._places) or rank in self.peers:
            raise _RefusedError(f"rank {rank} is not awaited")
        own_nonce = secrets.token_bytes(_NONCE_BYTES)
        nonces = hello[_RANK.size :] + own_nonce
        ranks = _RANK.pack(rank) + _RANK.pack(self._rank)
        connection.sendall(own_nonce + self._digest(b"to", ranks, nonces))
        proof = _read(connection, _DIGEST_BYTES)
        if not hmac.compare_digest(proof, self._digest(b"from", ranks, nonces)):
            raise _RefusedError("it does not know the group's token")
        return rank


def _read(connection: socket.socket, num_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < num_bytes:
        piece = connection.recv(num_bytes - len(data))
        if not piece:
            raise _RefusedError("it closed the connection")
        data += piece
    return bytes(data)


def _process(connection: socket.socket) -> int | None:
    """Return the pid at the other end, None in another pid namespace; raise for other users."""
    peer = unix_socket.peer(connection)
    if not peer.is_of_this_user:
        raise _RefusedError("it belongs to another user")
    return peer.pid or None


def listen_unix(stack: contextlib.ExitStack, backlog: int) -> tuple[socket.socket, str]:
    """Return a new abstract Unix socket that accepts connections, and its name."""
    name = f"raycompat-collective-{secrets.token_hex(16)}"
    return stack.enter_context(unix_socket.listen(name, backlog)), name


def listen_tcp(
    stack: contextlib.ExitStack, host: str, backlog: int
) -> tuple[socket.socket, tuple[str, int]]:
    """Return a new TCP socket that accepts connections at an address of this node, and that address."""
    listener = stack.enter_context(socket.socket(_family((host, 0))))
    listener.bind((host, 0))
    listener.listen(backlog)
    return listener, (host, listener.getsockname()[1])


def _family(address: tuple[str, int] | None) -> socket.AddressFamily:
    return socket.AF_INET6 if address is not None and ":" in address[0] else socket.AF_INET
