"""The wait of a process until the scheduler has handled its messages."""

from __future__ import annotations

import threading
import types
from typing import cast

import pytest

from raycompat._caller.home import Home
from raycompat._caller.session import Session
from raycompat._caller.setup import Setup
from raycompat._messages.objects import Fulfil, Sync, Synced
from raycompat._protocol.message import FromCaller
from raycompat.exceptions import ObjectLostError, loads_error

#: Seconds; nothing here takes long.
TIMEOUT_S = 20.0


class SilentSession(Session):
    """A session whose scheduler does not answer."""

    def __init__(self) -> None:
        home = cast("Home", types.SimpleNamespace(host="here"))
        self.has_asked = threading.Event()
        self.sent: list[FromCaller] = []
        super().__init__(
            Setup("job", "", home, "tcp://nowhere", is_driver=False, host="here", uses_leases=False)
        )

    def send(self, message: FromCaller) -> None:
        self.sent.append(message)
        if isinstance(message, Sync):
            self.has_asked.set()


@pytest.fixture
def handing_over():
    """A session, and a thread of it that waits for the scheduler to hear of a reference."""
    session = SilentSession()
    session.sharing.require_sync()
    thread = threading.Thread(target=session.sharing.wait_until_synced, daemon=True)
    thread.start()
    assert session.has_asked.wait(TIMEOUT_S)
    return session, thread


def test_a_reference_is_handed_over_when_the_scheduler_has_heard_of_it(handing_over):
    session, thread = handing_over
    session.sharing.on_synced(Synced(0))
    thread.join(0.05)
    assert thread.is_alive()
    session.sharing.on_synced(Synced(1))
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_nobody_waits_for_a_scheduler_that_is_gone(handing_over):
    session, thread = handing_over
    session.lose_connection()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    session.sharing.require_sync()
    session.sharing.wait_until_synced()


def test_a_value_that_is_not_here_any_more_is_lost_for_those_who_wait_for_it():
    """Its references here were dropped, while another process had one, and its node died."""
    session = SilentSession()
    session.sharing.give_again("put-1")
    (message,) = session.sent
    assert isinstance(message, Fulfil)
    assert message.key == "put-1"
    with pytest.raises(ObjectLostError):
        raise loads_error(cast("bytes", message.error))
