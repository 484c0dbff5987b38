"""Dask's security settings from the credentials of a process, and the protection of dashboards.

Dask's dashboard has no access control. Here a request must have a token: once as ``?token=``, later as
a cookie, or as ``Authorization: Bearer``. Programs, which ask for no page, may send it in each address.
If the cluster has a password, the token is derived from it and the pages use TLS. If only one user can
connect to the cluster, the token is random.
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
    """Return the security of a process with these credentials: mutual TLS only.

    None without a password.
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
    """Make an HTTP server without requests so far require the token; with a password, use TLS."""
    security = dask_security(token)
    if security is not None:
        context: ssl.SSLContext = security.get_listen_args("scheduler")["ssl_context"]
        context.verify_mode = ssl.CERT_NONE  # browsers have no certificate; the token is enough
        server.ssl_options = context
    server.request_callback = _Gate(
        server.request_callback, token["token"], is_tls=security is not None
    )


def link(server: HTTPServer, place: str) -> str:
    """Return the URL of the dashboard of a server at `place`, its host and port.

    It has no path if no token is needed. It has a scheme only with TLS, because Ray's programs add one
    themselves.
    """
    gate = server.request_callback
    url = f"https://{place}" if server.ssl_options is not None else place
    return f"{url}/status?{TOKEN_PARAMETER}={gate.token}" if isinstance(gate, _Gate) else url


def has_token(server: HTTPServer) -> bool:
    """Return whether a server requires a token."""
    return isinstance(server.request_callback, _Gate)


def has_bearer(server: HTTPServer, request: HTTPServerRequest) -> bool:
    """Return whether a request has the token in its header, which no page of another site can set.

    No request has the token of a server that requires none.
    """
    gate = server.request_callback
    return isinstance(gate, _Gate) and gate.has_bearer(request)


class _Gate(web.Application):
    """An application in front of another one, which it protects with the token."""

    def __init__(self, inner: Any, token: str, *, is_tls: bool) -> None:
        super().__init__()
        self._inner = inner
        self.token = token
        self.is_tls = is_tls
        # Cookies do not depend on the port, so each cluster on a host needs its own cookie.
        self.cookie = f"raycompat-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the handler of a request."""
        if self._may_pass(request):
            return self._inner.find_handler(request, **kwargs)
        return self.get_handler_delegate(request, _Door)

    def has_bearer(self, request: HTTPServerRequest) -> bool:
        """Return whether a request has the token in its header."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.knows(bearer.strip())

    def _may_pass(self, request: HTTPServerRequest) -> bool:
        if self.has_bearer(request):
            return True
        cookie = request.cookies.get(self.cookie)
        if cookie is not None and self.knows(cookie.value):
            return True
        # A program, such as JupyterLab's extension, keeps no cookie. A browser asks for HTML and does.
        given = request.query_arguments.get(TOKEN_PARAMETER, [b""])[-1]
        asks_for_page = "text/html" in request.headers.get("Accept", "")
        return not asks_for_page and self.knows(given.decode(errors="replace"))

    def knows(self, token: str) -> bool:
        """Return whether this is the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class _Door(web.RequestHandler):
    """Sets a cookie for a browser with the token in the address, and rejects all others."""

    def prepare(self) -> None:
        """Answer any request."""
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
            self.redirect(self.request.path)  # so that the token is not in the browser's history
            return
        self.set_status(401)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "This dashboard requires the token of its cluster. Open its address with the token, as "
            "`init` or `raycompat start --head` printed it; `raycompat status` prints it again.\n"
        )
