"""The difference between a server that requires TLS, one that does not, and one of web pages."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from raycompat._protocol import refusals
from raycompat._protocol.refusals import _answer, _explain_tls, explain


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_who_speaks_first_wants_no_tls(ends):
    ours, theirs = ends
    theirs.sendall(b"\x60\0\0\0\0\0\0\0")  # as Dask's servers do
    assert _answer(ours) == b"\x60\0\0\0\0"


def test_who_hangs_up_at_once_does_so_to_everybody(ends):
    ours, theirs = ends
    theirs.close()
    assert _answer(ours) is None


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x01\0\x02\x02\x46"])
def test_who_turns_away_what_is_no_tls_does(ends, answer):
    """By an alert, or by hanging up."""
    ours, theirs = ends

    def serve():
        theirs.recv(100)
        theirs.sendall(answer)
        theirs.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(serve)
        assert _answer(ours) == answer[:5]


def test_who_says_nothing_is_not_known_to(ends, monkeypatch):
    monkeypatch.setattr(refusals, "_STEP_S", 0.5)
    ours, _ = ends
    assert _answer(ours) is None


def test_the_address_of_a_dashboard_is_recognized():
    started, address = threading.Event(), []

    async def serve():
        server = HTTPServer(Application())  # as Dask's dashboard
        (listener,) = bind_sockets(0, "127.0.0.1")
        server.add_socket(listener)
        address.append(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        ended.append((asyncio.get_running_loop(), asyncio.Event()))
        started.set()
        await ended[0][1].wait()
        server.stop()
        await server.close_all_connections()

    ended = []
    with ThreadPoolExecutor(1) as threads:
        serving = threads.submit(asyncio.run, serve())
        assert started.wait(10)
        said = explain(address[0], None)
        loop, event = ended[0]
        loop.call_soon_threadsafe(event.set)
        serving.result(10)
    assert said is not None
    assert said.startswith(f"No Dask scheduler answers at {address[0]}, but an HTTP server does")


def test_who_answers_tls_with_something_else_has_no_password(ends):
    ours, theirs = ends
    theirs.sendall(b"\x60\0\0\0\0\0\0\0" * 4)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    said = _explain_tls(ours, "tls://h:1", context)
    assert said is not None
    assert "has no password, but one was given" in said


def test_of_what_does_not_listen_nothing_is_said():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        assert explain(address, None) is None
    assert explain("nonsense", None) is None
