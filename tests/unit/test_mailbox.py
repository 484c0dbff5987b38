"""An actor's mailbox: what was made for its callers is theirs before the process ends."""

from __future__ import annotations

import os
import socket

import pytest

from raycompat._executor import mailbox
from raycompat._protocol.connection import Pump


@pytest.fixture
def box():
    pump = Pump()
    made = mailbox.Mailbox(f"raycompat-test-{os.getpid()}", pump, lambda: False)
    yield made
    made.close()
    for caller in made.callers:
        caller.close()
    pump.close()


@pytest.fixture
def stream(box):
    """The end of a caller of `box`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.connect(f"\0raycompat-test-{os.getpid()}")
        box.look()
        yield made


@pytest.fixture
def result(box, stream, tmp_path):
    """A segment that was written for the caller."""
    path = tmp_path / "result"
    path.write_bytes(b"value")
    (caller,) = box.callers
    caller.note_segment(str(path))
    return path


def test_a_caller_takes_what_was_made_for_it_before_the_process_ends(box, result, monkeypatch):
    taken = result.with_name("taken")
    monkeypatch.setattr(mailbox.time, "sleep", lambda _: result.rename(taken))
    box.close()
    assert taken.read_bytes() == b"value"


def test_nobody_waits_for_a_caller_that_is_gone(box, stream, result, monkeypatch):
    monkeypatch.setattr(mailbox.time, "sleep", lambda _: pytest.fail("it waits"))
    stream.close()
    box.close()
    assert result.exists()
