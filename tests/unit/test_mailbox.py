"""An actor's mailbox: what was made for its callers is theirs before the process ends."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time

import pytest

from raycompat._executor import mailbox
from raycompat._messages import direct
from raycompat._messages.direct import CallMessage
from raycompat._protocol import frames
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
        box.read_arrived()
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


def test_two_threads_that_look_take_each_call_once(box, stream):
    num_calls = 10_000
    fields = [None] * (len(CallMessage._fields) - 2)
    data = b"".join(frames.encode([(direct.CALL, number, *fields)]) for number in range(num_calls))
    sender = threading.Thread(target=stream.sendall, args=(data,))
    sender.start()

    def look():
        while len(box.calls) < num_calls:
            box.read_arrived()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=look, daemon=True)
    other.start()
    look()
    other.join()
    sys.setswitchinterval(interval)
    sender.join()
    assert [call.key for _, call in box.calls] == list(range(num_calls))


def test_what_is_made_for_a_caller_that_is_gone_is_removed(box, stream, tmp_path):
    """Its calls go on after it has left."""
    (caller,) = box.callers
    stream.close()
    box.read_arrived()
    path = tmp_path / "late"
    path.write_bytes(b"value")
    caller.note_segment(str(path))
    assert not path.exists()


class Full:
    """A listener in a process that cannot open another file, until `is_over`."""

    def __init__(self, listener):
        self._listener = listener
        self.num_tries, self.is_over = 0, False

    def fileno(self):
        return self._listener.fileno()

    def close(self):
        self._listener.close()

    def accept(self):
        if self.is_over:
            return self._listener.accept()
        self.num_tries += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_process_that_cannot_open_files_accepts_callers_later(box):
    """An actor's code may have opened all files that it may open."""
    box._listener = full = Full(box._listener)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.connect(f"\0raycompat-test-{os.getpid()}")
        for _ in range(50):
            box.read_arrived()
        assert full.num_tries == 1
        full.is_over = True
        deadline = time.monotonic() + 20
        while not box.callers:
            assert time.monotonic() < deadline
            box._look(None)
