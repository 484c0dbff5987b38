"""Dask's security made from what a process was given, and its dashboards kept from strangers.

Dask has no notion of who may open a dashboard. Where the cluster has a password, they are served by
TLS, and a request must bring a token that only those can make who know the password: as ``?token=``
once, as a cookie from then on, or as ``Authorization: Bearer``.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from typing import TYPE_CHECKING, Any

from distributed import Security
from tornado import web

from raycompat._protocol.shared_secret import TOKEN_PARAMETER, Credentials

if TYPE_CHECKING:
    from tornado.httpserver import HTTPServer
    from tornado.httputil import HTTPServerRequest


def dask_security(credentials: Credentials) -> Security:
    """Return how a process with these credentials connects and listens: by mutual TLS alone."""
    certificate, key = credentials["certificate"], credentials["key"]
    return Security(
        require_encryption=True,
        tls_ca_file=credentials["authority"],
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        **{f"tls_{role}_cert": certificate for role in ("client", "scheduler", "worker")},
        **{f"tls_{role}_key": key for role in ("client", "scheduler", "worker")},
    )


def guard(server: HTTPServer, security: Security, token: str) -> None:
    """Switch an HTTP server that has had no request yet to TLS, and make it ask for the token."""
    context: ssl.SSLContext = security.get_listen_args("scheduler")["ssl_context"]
    context.verify_mode = ssl.CERT_NONE  # browsers have no certificate of ours: the token will do
    server.ssl_options = context
    server.request_callback = _Gate(server.request_callback, token)


class _Gate(web.Application):
    """Stands before an application: only who knows the token comes through."""

    def __init__(self, inner: Any, token: str) -> None:
        super().__init__()
        self._inner = inner
        self._token = token
        # Cookies do not tell ports apart: several clusters on a host have cookies of their own.
        self.cookie = f"raycompat-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return what answers a request."""
        if self._may_pass(request):
            return self._inner.find_handler(request, **kwargs)
        return self.get_handler_delegate(request, _Door)

    def _may_pass(self, request: HTTPServerRequest) -> bool:
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(bearer.strip()):
            return True
        cookie = request.cookies.get(self.cookie)
        return cookie is not None and self.knows(cookie.value)

    def knows(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(), self._token.encode())


class _Door(web.RequestHandler):
    """Gives a browser that brings the token in the address a cookie, and turns others away."""

    def prepare(self) -> None:
        """Answer, whatever is asked."""
        gate = self.application
        assert isinstance(gate, _Gate)
        if self.request.method == "GET" and gate.knows(
            self.get_query_argument(TOKEN_PARAMETER, "")
        ):
            self.set_cookie(
                gate.cookie,
                self.get_query_argument(TOKEN_PARAMETER),
                httponly=True,
                secure=True,
                samesite="Lax",
            )
            self.redirect(self.request.path)  # so that the token stays in no history
            return
        self.set_status(401)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "This cluster has a password. Open the address of the dashboard, with its token, that "
            "`raycompat start --head` printed; `raycompat status` prints it for who has the password.\n"
        )
