"""The reason why a server refuses a connection: passwords, and servers of another kind.

Dask's own errors mention streams and TLS records. The first bytes of the server's answer say more.
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from raycompat._protocol.shared_secret import FILE_VARIABLE, VARIABLE

#: Seconds for the other end to answer each step.
_STEP_S = 5.0

#: Seconds of silence after which a server is assumed to wait for the client's first bytes.
_SILENCE_S = 0.5

#: Not a TLS record, a bad request to an HTTP server, and too short for a Dask message: a Dask server
#: without TLS waits for more.
_NO_TLS = b"look\n\n"
#: The first bytes of a TLS alert: the answer of a TLS server to bytes that are not TLS.
_ALERT = b"\x15\x03"
#: The first bytes of an HTTP server's answer.
_HTTP = b"HTTP/"

#: The ways to give a password, for error messages.
WAYS = (
    "_redis_password=... in init, --redis-password-file=... on the command line, or one of the "
    f"environment variables {VARIABLE} and {FILE_VARIABLE}"
)


def split_address(address: str) -> tuple[str, int]:
    """Return the host and port of an address, with or without a scheme.

    Raises
    ------
    ValueError
        When the address is not ``host:port``.
    """
    try:
        parts = urlsplit(f"//{address.rpartition('://')[2]}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ValueError(f"{address!r} is not the address of a cluster: expected host:port.")
    return host, port


def explain(address: str, context: ssl.SSLContext | None) -> str | None:
    """Return why the server at `address` refuses a client with `context` (None: without TLS).

    Return None for other reasons: no server listens, it says nothing, or it accepts the client.
    """
    try:
        stream = socket.create_connection(split_address(address), _STEP_S)
    except (OSError, ValueError):
        return None
    with stream:
        if context is not None and address.startswith("tls://"):
            return _explain_tls(stream, address, context)
        begin = _ALERT if address.startswith("tls://") else _answer(stream)
        if begin is not None and (not begin or begin.startswith(_ALERT)):
            return (
                f"The cluster at {address} accepts only those who know its password ({WAYS}), or have "
                "its certificates: give init a Dask Client or Cluster that has its Security."
            )
        if begin is not None and begin.startswith(_HTTP):
            return (
                f"No Dask scheduler answers at {address}, but an HTTP server does, such as a "
                "dashboard. Give the address of the scheduler, which `raycompat start --head` has "
                "printed."
            )
    return None


def _answer(stream: socket.socket) -> bytes | None:
    """Return the first bytes that the other end sends, if need be after bytes that are not TLS.

    Return None if it sends nothing, and b"" if it rejects these bytes by closing the connection.
    """
    try:
        stream.settimeout(_SILENCE_S)
        # Dask sends first without TLS; other servers may, or close every connection.
        return stream.recv(len(_HTTP)) or None
    except TimeoutError:
        stream.settimeout(_STEP_S)
    except OSError:
        return None
    try:
        stream.sendall(_NO_TLS)
        return stream.recv(len(_HTTP))
    except TimeoutError:
        return None
    except OSError:  # it has closed the connection
        return b""


def _explain_tls(stream: socket.socket, address: str, context: ssl.SSLContext) -> str | None:
    try:
        with context.wrap_socket(stream) as secured:
            secured.recv(1)  # a server that refuses our certificate reports it now
    except ssl.SSLCertVerificationError:
        return (
            f"The given password is not that of the cluster at {address}. Give the one that it was "
            f"started with: {WAYS}."
        )
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return f"The cluster at {address} does not accept our certificate: {error}."
        return (
            f"The server at {address} has no password, but one was given. Leave it out ({WAYS}), or "
            "start the cluster with it."
        )
    except OSError:
        return None
    return None
