"""The difference between a server that requires TLS and one that does not."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from raycompat._protocol.refusals import _explain_tls, _wants_tls, explain


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_who_speaks_first_wants_no_tls(ends):
    ours, theirs = ends
    theirs.sendall(b"\x60\0\0\0\0\0\0\0")  # as Dask's servers do
    assert not _wants_tls(ours)


def test_who_hangs_up_at_once_does_so_to_everybody(ends):
    ours, theirs = ends
    theirs.close()
    assert not _wants_tls(ours)


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
        assert _wants_tls(ours)


def test_who_says_nothing_is_not_known_to(ends):
    ours, _ = ends
    assert not _wants_tls(ours)


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
