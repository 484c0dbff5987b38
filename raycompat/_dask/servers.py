"""The processes of Dask's scheduler and workers: their listeners, titles and certificates."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from distributed.comm.tcp import BaseTCPListener
from tornado import tcpserver

from raycompat._dask import (
    accepting,
    local_comm,  # noqa: F401  (registers its addresses with Dask)
)

if TYPE_CHECKING:
    from distributed import Scheduler, Worker


#: A nanny sets this variable. Dask then gives titles to the processes that the nanny's process starts.
_TITLES_VARIABLE = "__DASK_PARENT_PID"


#: Dask's function for an accepted connection: the handshakes of TLS and Dask, then the handler.
_handle_stream = BaseTCPListener._handle_stream


#: Seconds after which the web server closes a connection that sends no request.
_IDLE_PAGE_S = 60


def guard_listeners() -> None:
    """Let the listeners of this process bear floods of connections (see `accepting`)."""

    async def handle_stream(listener: object, stream: Any, address: Any) -> None:
        with accepting.identifying(stream.close):
            await _handle_stream(listener, stream, address)

    BaseTCPListener._handle_stream = handle_stream
    tcpserver.add_accept_handler = accepting.add_accept_handler  # type: ignore[attr-defined]


def close_idle_pages(server: Any) -> None:
    """Let the web server of a scheduler or worker close connections that send no request."""
    if server.http_server is not None:
        server.http_server.conn_params.header_timeout = _IDLE_PAGE_S


def keep_command_line() -> None:
    """Let Dask give no title to this process and its children: a title replaces the command line."""
    os.environ.pop(_TITLES_VARIABLE, None)


def client_security(server: Worker | Scheduler) -> dict[str, object] | None:
    """Return the security settings of a client on this server's host, for the same cluster.

    They are arguments of `distributed.Security`; None when the server uses no TLS.
    """
    security = server.security
    for role in ("client", "worker", "scheduler"):
        certificate = getattr(security, f"tls_{role}_cert")
        key = getattr(security, f"tls_{role}_key")
        if certificate is not None:
            break
    else:
        return None
    found = {
        "tls_ca_file": security.tls_ca_file,
        "tls_client_cert": certificate,
        "tls_client_key": key,
        "tls_ciphers": security.tls_ciphers,
        "require_encryption": security.require_encryption,
    }
    return {name: _absolute(value) for name, value in found.items() if value is not None}


def _absolute(value: Any) -> object:
    """Return the absolute path of a certificate; a certificate itself is not changed."""
    is_path = isinstance(value, str) and "\n" not in value and os.path.exists(value)
    return os.path.abspath(value) if is_path else value
