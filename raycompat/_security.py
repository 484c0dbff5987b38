"""Dask's security made from what a process was given, and its dashboards kept from strangers.

Dask has no notion of who may open a dashboard. A request must bring a token: as ``?token=`` once, as
a cookie from then on, or as ``Authorization: Bearer``. Where the cluster has a password, the token is
made of it and the pages are served by TLS. Where it is open to one user alone, the token is random.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from typing import TYPE_CHECKING, Any

from distributed import Security
from tornado import web

from raycompat._protocol.shared_secret import TOKEN_PARAMETER, Credentials, Token, has_password

if TYPE_CHECKING:
    from tornado.httpserver import HTTPServer
    from tornado.httputil import HTTPServerRequest


def dask_security(credentials: Token | Credentials | None) -> Security | None:
    """Return how a process with these credentials connects and listens: by mutual TLS alone.

    None where there is no password.
    """
    if credentials is None or not has_password(credentials):
        return None
    certificate, key = credentials["certificate"], credentials["key"]
    return Security(
        require_encryption=True,
        tls_ca_file=credentials["authority"],
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        **{f"tls_{role}_cert": certificate for role in ("client", "scheduler", "worker")},
        **{f"tls_{role}_key": key for role in ("client", "scheduler", "worker")},
    )


def guard(server: HTTPServer, token: Token | Credentials) -> None:
    """Make an HTTP server that has had no request yet ask for the token; by TLS with a password."""
    security = dask_security(token)
    if security is not None:
        context: ssl.SSLContext = security.get_listen_args("scheduler")["ssl_context"]
        context.verify_mode = (
            ssl.CERT_NONE
        )  # browsers have no certificate of ours: the token will do
        server.ssl_options = context
    server.request_callback = _Gate(
        server.request_callback, token["token"], is_tls=security is not None
    )


def link(server: HTTPServer, place: str) -> str:
    """Return what opens the dashboard of a server at `place`, its host and port.

    That is `place` itself where no token is asked for. A scheme stands before it only with TLS: Ray's
    programs write one themselves.
    """
    gate = server.request_callback
    if not isinstance(gate, _Gate):
        return place
    return f"{'https://' if gate.is_tls else ''}{place}/status?{TOKEN_PARAMETER}={gate.token}"


class _Gate(web.Application):
    """Stands before an application: only who knows the token comes through."""

    def __init__(self, inner: Any, token: str, *, is_tls: bool) -> None:
        super().__init__()
        self._inner = inner
        self.token = token
        self.is_tls = is_tls
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
        return hmac.compare_digest(token.encode(), self.token.encode())


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
                secure=gate.is_tls,
                samesite="Lax",
            )
            self.redirect(self.request.path)  # so that the token stays in no history
            return
        self.set_status(401)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "This dashboard asks for the token of its cluster. Open its address with the token, as "
            "`init` or `raycompat start --head` printed it; `raycompat status` prints it again.\n"
        )
