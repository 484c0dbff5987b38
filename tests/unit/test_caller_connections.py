"""Connections of a caller: their ends, and messages of several threads."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import types

import pytest

from raycompat._caller import connections
from raycompat._host import unix_socket
from raycompat._messages.leases import LeaseGranted
from raycompat._protocol import frames
from raycompat._protocol.connection import Connection, Pump

#: Seconds; nothing here takes long.
TIMEOUT_S = 20.0


class QuickPump(Pump):
    """A pump whose thread has looked at a connection before `add` returns."""

    def add(self, connection: Connection, *, listen: bool) -> None:
        super().add(connection, listen=listen)
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        looked = threading.Event()
        marks = Connection(there, self, lambda _: None, looked.set, lambda *_: None)
        super().add(marks, listen=True)
        here.close()
        assert looked.wait(TIMEOUT_S)


class Party:
    key = "party"

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.is_over = threading.Event()

    def connected(self, connection: connections.CallConnection, incarnation: int) -> None:
        self.heard.append("connected")

    def on_message(self, message: tuple) -> None:
        self.heard.append(message[0])

    def refused(self, message: tuple, error: Exception) -> None:
        self.heard.append("refused")

    def disconnected(self, connection: connections.CallConnection) -> None:
        self.heard.append("disconnected")
        self.is_over.set()


@pytest.fixture
def pump():
    made = QuickPump()
    yield made
    made.close()


def test_the_end_of_a_connection_comes_after_it(pump, monkeypatch):
    """Else a party would wait for the answers of a process that is gone."""
    name, party = f"raycompat-test-{os.getpid()}", Party()
    setup = types.SimpleNamespace(host="here")
    session = types.SimpleNamespace(pump=pump, setup=setup)
    reach = unix_socket.reach

    with unix_socket.listen(name) as listener:

        async def reach_one_that_leaves(*arguments) -> None:
            await reach(*arguments)
            listener.accept()[0].close()

        monkeypatch.setattr(unix_socket, "reach", reach_one_that_leaves)
        place = LeaseGranted("lease-1", "tcp://node", host="here", socket=name)
        asyncio.run(connections.connect(session, place, party))
        assert party.is_over.wait(TIMEOUT_S)
    assert party.heard == ["connected", "disconnected"]


def test_no_message_is_lost_when_a_flush_comes_before_the_message_is_appended(monkeypatch):
    """As when the event loop flushes while another thread is inside `post`."""
    written: list[bytes] = []
    session = types.SimpleNamespace(call_soon=lambda flush: None)
    connection = connections.RelayedConnection(session, Party(), written.append, lambda: None)
    append = connections.post_and_note

    def append_after_a_flush(posted, message, notes):
        connection._flush()
        append(posted, message, notes)

    connection.post(("first",), now=True)
    monkeypatch.setattr(connections, "post_and_note", append_after_a_flush)
    connection.post(("second",), now=True)
    connection._flush()
    batches, _ = frames.split(b"".join(written))
    assert [message for batch in batches for message in batch] == [("first",), ("second",)]


def test_messages_are_sent_after_an_interrupt_in_post():
    calls = [KeyboardInterrupt]

    def call_soon(flush):
        error = calls.pop() if calls else None
        if error is not None:
            raise error
        flush()

    written: list[bytes] = []
    session = types.SimpleNamespace(call_soon=call_soon)
    connection = connections.RelayedConnection(session, Party(), written.append, lambda: None)
    with pytest.raises(KeyboardInterrupt):
        connection.post(("first",), now=True)
    connection.post(("second",), now=True)
    batches, _ = frames.split(b"".join(written))
    assert [message for batch in batches for message in batch] == [("first",), ("second",)]
