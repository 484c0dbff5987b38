"""The two ways to a cluster's requests about jobs: its web server, and its scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from raycompat._caller import session as sessions
from raycompat._messages.jobs import AskJobs
from raycompat._protocol import shared_secret
from raycompat._protocol.message import ask
from raycompat._protocol.shared_secret import TOKEN_PARAMETER, Authority
from raycompat._protocol.text import with_scheme

if TYPE_CHECKING:
    from distributed import Client

#: Ray's variables with the address of a cluster; the first that is set replaces the argument.
ADDRESS_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")

#: Seconds for a web server to answer. A request for output waits there for less.
_ANSWER_S = 120.0

#: Bytes of one piece of a package.
PIECE_BYTES = 4 << 20


class Connection(Protocol):
    """A way to send requests."""

    #: Where it leads, to show to people.
    address: str

    def ask(
        self, method: str, path: str, query: Mapping[str, object] | None = None, body: bytes = b""
    ) -> tuple[int, Any]:
        """Send a request; return its status, and JSON or a text.

        Raises
        ------
        ConnectionError
            When the cluster does not answer.
        """


class SchedulerConnection:
    """Requests over Dask's connection to the scheduler: that of the session, or a new one."""

    def __init__(self, address: str | None) -> None:
        session = sessions.current()
        if address in (None, "local") and session is not None:  # `init` has started it
            self.address = session.setup.scheduler
            self._client: Client = session.client
            return
        from raycompat._connect import addresses, connect
        from raycompat._launch import prepare

        destination = addresses.require(address or "auto", _authority())
        self.address = destination.address
        self._client = connect.connect(destination)
        weakref.finalize(self, self._client.close)
        prepare.install(self._client)  # the records of jobs are there without nodes too

    def ask(
        self, method: str, path: str, query: Mapping[str, object] | None = None, body: bytes = b""
    ) -> tuple[int, Any]:
        """Send a request."""
        texts = {name: str(value) for name, value in (query or {}).items()}
        try:
            found = self._client.sync(
                ask, self._client.scheduler, AskJobs(method, path, texts, body)
            )
        except OSError as error:
            raise ConnectionError(
                f"The cluster at {self.address} does not answer: {error}"
            ) from error
        return found["status"], found["answer"]


def _authority() -> Authority | None:
    secret = shared_secret.find(None)
    return Authority(secret) if secret is not None else None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token is for one server."""

    def redirect_request(self, *_: object) -> None:
        """Make no second request."""


@dataclass
class HttpConnection:
    """Requests over HTTP, with the cluster's token if the address or the password has it."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    #: As in Ray: whether to check the server's certificate, or the file of those that are trusted.
    verify: bool | str = True

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.address)
        if not parts.hostname:
            raise ValueError(f"{self.address!r}: expected an address such as http://host:8265.")
        self.address = f"{parts.scheme}://{parts.netloc}"
        names = {name.lower() for name in self.headers}
        given = urllib.parse.parse_qs(parts.query).get(TOKEN_PARAMETER)
        self._context = _context(self.verify) if parts.scheme == "https" else None
        if "authorization" not in names:
            token = given[-1] if given else None
            if parts.scheme == "https" and (authority := _authority()) is not None:
                token = self._trust(authority, parts.hostname, parts.port or 443)
            if token is not None:
                self.headers = {**self.headers, "Authorization": f"Bearer {token}"}
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=self._context), _NoRedirects
        )

    def _trust(self, authority: Authority, host: str, port: int) -> str:
        """Trust the cluster of the password, and no other; return its token."""
        authority.join(host, port)
        credentials = authority.credentials()
        self._context = ssl.create_default_context(cadata=credentials["authority"])
        self._context.check_hostname = False  # its certificates name no hosts
        return credentials["token"]

    def ask(
        self, method: str, path: str, query: Mapping[str, object] | None = None, body: bytes = b""
    ) -> tuple[int, Any]:
        """Send a request."""
        url = f"{self.address}{path}"
        if query:
            url += f"?{urllib.parse.urlencode(query)}"
        headers = {"Content-Type": "application/json", **self.headers}
        if self.cookies:
            headers["Cookie"] = SimpleCookie(self.cookies).output(header="", sep=";").strip()
        request = urllib.request.Request(url, body or None, headers, method=method)
        try:
            with self._opener.open(request, timeout=_ANSWER_S) as got:
                return got.status, json.loads(got.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace").strip()
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"Failed to connect to Ray at address: {self.address}. {_why(error)}"
            ) from error


def _context(verify: bool | str) -> ssl.SSLContext:
    if isinstance(verify, str):
        if Path(verify).is_dir():
            return ssl.create_default_context(capath=verify)
        return ssl.create_default_context(cafile=verify)
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            "Its certificate is not trusted. That of a cluster with a password is derived from the "
            f"password: set {shared_secret.VARIABLE} or {shared_secret.FILE_VARIABLE}."
        )
    if isinstance(reason, socket.gaierror):
        return f"Its host is not known: {reason.strerror}."
    if isinstance(error, ValueError):
        return f"What answers there is not the dashboard of a cluster: {error}"
    return f"It does not answer: {reason}. `raycompat status` prints the address of the dashboard."


def connection(
    address: str | None,
    headers: dict[str, str],
    cookies: dict[str, str],
    verify: bool | str,
) -> Connection:
    """Return the connection to a cluster, which has answered.

    Raises
    ------
    ConnectionError
        When the cluster does not answer, or none is found.
    """
    chosen = next((os.environ[each] for each in ADDRESS_VARIABLES if os.environ.get(each)), address)
    if chosen is None or not chosen.startswith(("http://", "https://")):
        return SchedulerConnection(chosen)
    if _is_of_session(chosen):  # the token is not needed
        return SchedulerConnection(None)
    over_http = HttpConnection(chosen, dict(headers), dict(cookies), verify)
    status, version = over_http.ask("GET", "/api/version")
    if status != 200:
        raise ConnectionError(f"{over_http.address} answers with status {status}: {version}")
    if version.get("changes_over_http", True):
        return over_http
    # It has no password, so its web server changes nothing.
    return SchedulerConnection(version["scheduler"])


def _is_of_session(url: str) -> bool:
    """Return whether an address is that of the dashboard of this process's session."""
    session = sessions.current()
    if session is None or not session.dashboard_url:
        return False
    own = urllib.parse.urlsplit(with_scheme(session.dashboard_url))
    return own.netloc == urllib.parse.urlsplit(url).netloc


def upload(to: Connection, uri: str, path: Path) -> None:
    """Send a package to a cluster that does not have it.

    Raises
    ------
    RuntimeError
        When the cluster refuses it.
    """
    where = f"/api/packages/{uri.replace('://', '/')}"
    if to.ask("GET", where)[0] == 200:
        return
    name, position, size = os.urandom(8).hex(), 0, path.stat().st_size
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            query = {"upload": name, "position": position}
            position += len(piece)
            query["has_more"] = int(position < size)
            status, answer = to.ask("PUT", where, query, piece)
            if status != 200:
                raise RuntimeError(f"The package {uri} was not uploaded: {answer}")
            if answer["is_there"]:  # another client has sent it
                return


@contextlib.contextmanager
def scratch(is_needed: bool) -> Any:
    """Yield a folder for packages, or none."""
    if not is_needed:
        yield Path()
        return
    with tempfile.TemporaryDirectory(prefix="raycompat-packages-") as folder:
        yield Path(folder)
