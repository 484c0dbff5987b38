"""Why a server that listens does not let us in: what a password has to do with it.

Dask's own errors speak of streams and records. A look at how the other end begins tells more.
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from raycompat._protocol.shared_secret import FILE_VARIABLE, VARIABLE

#: Seconds that the other end has for each step.
_STEP_S = 5.0

#: Seconds after which a server that has said nothing waits for us to begin.
_SILENCE_S = 0.5

#: What neither is a TLS record nor enough for a Dask message: a server without TLS waits for more.
_NO_TLS = b"look\n"
#: How TLS begins to say that it was given something else.
_ALERT = b"\x15\x03"

#: How a password is given, for errors.
WAYS = (
    "_redis_password=... in init, --redis-password-file=... on the command line, or one of the "
    f"environment variables {VARIABLE} and {FILE_VARIABLE}"
)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address, with or without a scheme.

    Raises
    ------
    ValueError
        When it is not ``host:port``.
    """
    try:
        parts = urlsplit(f"//{address.rpartition('://')[2]}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ValueError(f"{address!r} is no address of a cluster: expected host:port.")
    return host, port


def explain(address: str, context: ssl.SSLContext | None) -> str | None:
    """Say why the server at `address` refuses who comes with `context`, or without TLS.

    None when a password is not the reason: nothing listens, or it lets us in.
    """
    try:
        stream = socket.create_connection(split_address(address), _STEP_S)
    except (OSError, ValueError):
        return None
    with stream:
        if context is not None and address.startswith("tls://"):
            return _explain_tls(stream, address, context)
        if address.startswith("tls://") or _wants_tls(stream):
            return (
                f"The cluster at {address} lets in only those who know its password ({WAYS}), or have "
                "its certificates: give init a Dask Client or Cluster that has its Security."
            )
    return None


def _wants_tls(stream: socket.socket) -> bool:
    """Whether the other end waits, and then turns away who does not begin as TLS does."""
    try:
        stream.settimeout(_SILENCE_S)
        stream.recv(1)
    except TimeoutError:
        stream.settimeout(_STEP_S)
    except OSError:
        return False
    else:
        return False  # it speaks first, as Dask does without TLS, or hangs up on everybody
    try:
        stream.sendall(_NO_TLS)
        begin = stream.recv(len(_ALERT))
    except TimeoutError:
        return False
    except OSError:  # it has hung up
        return True
    return not begin or begin.startswith(_ALERT)


def _explain_tls(stream: socket.socket, address: str, context: ssl.SSLContext) -> str | None:
    try:
        with context.wrap_socket(stream) as secured:
            secured.recv(1)  # whoever refuses our certificate says so now
    except ssl.SSLCertVerificationError:
        return (
            f"The password given is not that of the cluster at {address}. Give the one that it was "
            f"started with: {WAYS}."
        )
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return f"The cluster at {address} does not accept our certificate: {error}."
        return (
            f"What listens at {address} has no password, yet one was given. Leave it out ({WAYS}), or "
            "start the cluster with it."
        )
    except OSError:
        return None
    return None
