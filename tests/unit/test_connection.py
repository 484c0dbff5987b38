"""Channels: every message arrives, once and in order, for every split of the data and every reader."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from functools import partial

import pytest
from _interruption import interruptions
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol import frames
from raycompat._protocol.connection import Connection, Pump

#: Seconds; nothing here takes long.
TIMEOUT_S = 20.0

messages = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=300)), max_size=30)


@given(st.lists(messages, max_size=5), st.data())
def test_frames_are_found_again_however_the_bytes_are_cut(batches, data):
    whole = b"".join(map(frames.encode, batches))
    got, rest, position = [], b"", 0
    while position < len(whole):
        step = data.draw(st.integers(1, len(whole) - position))
        rest += whole[position : position + step]
        position += step
        found, end = frames.split(rest)
        got += found
        rest = rest[end:]
    assert got == batches
    assert not rest


class Ends:
    """Two connected connections; what the second gets is kept."""

    def __init__(self, *, listen: bool) -> None:
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pump = Pump()
        self.got: list[tuple] = []
        self.refused: list[tuple] = []
        self.ended = threading.Event()
        self.arrived = threading.Condition()
        self.here = Connection(
            one,
            self.pump,
            lambda _: None,
            lambda: None,
            lambda *refused: self.refused.append(refused),
        )
        self.there = Connection(two, self.pump, self._take, self.ended.set, lambda *_: None)
        self.pump.add(self.here, listen=False)
        self.pump.add(self.there, listen=listen)

    def _take(self, message: tuple) -> None:
        with self.arrived:
            self.got.append(message)
            self.arrived.notify_all()

    def wait_for(self, number: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= number, TIMEOUT_S)

    def close(self) -> None:
        self.pump.close()
        for end in (self.here, self.there):
            end.close()


@pytest.fixture
def ends():
    made = []

    def make(listen=True):
        made.append(Ends(listen=listen))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_what_is_posted_for_later_arrives_without_a_flush(ends):
    pair = ends()
    pair.here.post(("soon",), now=False)
    pair.wait_for(1)
    assert pair.got == [("soon",)]


def test_messages_arrive_in_order_whether_now_or_later(ends):
    pair = ends()
    expected = [(number,) for number in range(1000)]
    for number in range(1000):
        pair.here.post((number,), now=number % 7 == 0)
    pair.here.flush()
    pair.wait_for(1000)
    assert pair.got == expected


def test_more_than_the_socket_holds_arrives_when_the_other_end_reads(ends):
    pair = ends(listen=False)
    big = b"x" * 300_000
    for number in range(20):
        pair.here.post((number, big), now=True)
    assert not pair.here.is_flushed
    pair.pump.listen(pair.there)
    pair.wait_for(20)
    assert [number for number, _ in pair.got] == list(range(20))
    pair.here.drain(TIMEOUT_S)
    assert pair.here.is_flushed


def test_the_end_of_what_had_the_descriptor_before_is_not_that_of_a_connection(ends):
    pair = ends(listen=False)
    pair.pump._handle(pair.here.socket.fileno(), select.EPOLLHUP)  # heard before, and handled now
    big = b"x" * 300_000
    for number in range(20):
        pair.here.post((number, big), now=True)
    pair.pump.listen(pair.there)
    pair.wait_for(20)


def test_a_thread_that_waits_reads_itself(ends):
    pair = ends()
    readers = []
    pair.there.on_message = lambda message: readers.append(threading.current_thread())
    timer = threading.Timer(0.05, lambda: pair.here.post(("late",), now=True))
    timer.start()
    assert pair.there.receive_until(lambda: bool(readers), TIMEOUT_S)
    timer.join()
    assert readers == [threading.current_thread()]


def test_what_comes_after_a_thread_has_read_comes_by_the_pump(ends):
    pair = ends()
    pair.here.post(("first",), now=True)
    assert pair.there.receive_until(lambda: bool(pair.got), TIMEOUT_S)
    pair.here.post(("second",), now=True)
    pair.wait_for(2)


def test_what_comes_after_an_interrupted_read_comes_by_the_pump(ends):
    for interruption in interruptions(step=1):
        pair = ends()
        pair.here.post(("first",), now=True)
        interruption.run(
            partial(pair.there.receive_until, lambda got=pair.got: bool(got), TIMEOUT_S)
        )
        pair.here.post(("second",), now=True)
        pair.wait_for(2)


def test_what_an_interrupted_write_has_left_is_written_by_the_pump(ends):
    big = b"x" * 300_000
    for interruption in interruptions(step=1):
        pair = ends(listen=False)
        pair.here.post(("first", big), now=False, wake=False)
        interruption.run(pair.here.flush)
        pair.pump.listen(pair.there)
        if not pair.here._outgoing[0]:  # the interrupt did not come before
            pair.wait_for(1)


def test_a_second_reader_is_told_to_wait_otherwise(ends):
    pair = ends()
    with pair.there.read_lock:
        assert not pair.there.receive_until(lambda: False, TIMEOUT_S)


def test_reading_ends_when_time_is_up(ends):
    assert not ends().there.receive_until(lambda: False, 0.01)


@pytest.mark.parametrize("listen", [True, False])
def test_the_end_comes_after_the_last_message(ends, listen):
    pair = ends(listen=listen)
    pair.here.post(("last",), now=True)
    pair.here.close()
    if not listen:
        pair.there.receive_until(pair.ended.is_set, TIMEOUT_S)
    assert pair.ended.wait(TIMEOUT_S)
    assert pair.got == [("last",)]
    assert pair.there.closed


def test_closing_wakes_a_thread_that_reads(ends):
    pair = ends()
    reader = threading.Thread(target=lambda: pair.there.receive_until(lambda: False, None))
    reader.start()
    while not pair.there.read_lock.locked():
        pass
    pair.there.close()
    reader.join(TIMEOUT_S)
    assert not reader.is_alive()


def test_one_may_ask_for_silence_while_a_thread_waits_for_answers(ends):
    pair = ends(listen=False)
    reader = threading.Thread(target=lambda: pair.there.receive_until(lambda: bool(pair.got), None))
    reader.start()
    while not pair.there.read_lock.locked():
        pass
    for _ in range(1000):
        assert pair.there.is_silent
    pair.here.post(("one",), now=True)
    reader.join(TIMEOUT_S)
    assert pair.got == [("one",)]


def test_a_closed_end_is_silent(ends):
    pair = ends()
    pair.there.close()
    assert pair.there.is_silent


def test_an_interrupt_in_the_middle_loses_nothing(ends):
    """A handler is interrupted once at every message: each is handled in full at last, in order."""
    pair = ends()
    interrupted, handled = set(), []

    def handle(message):
        if message not in interrupted:
            interrupted.add(message)
            raise KeyboardInterrupt
        if message not in handled:
            handled.append(message)

    pair.pump.mute(pair.there)
    pair.there.on_message = handle
    for number in range(50):
        pair.here.post((number,), now=False)
    pair.here.flush()
    for _ in range(60):
        with contextlib.suppress(KeyboardInterrupt), pair.there.read_lock:
            pair.there.receive()
    assert handled == [(number,) for number in range(50)]


def test_a_message_that_cannot_be_handled_does_not_end_the_channel(ends, caplog):
    pair = ends()

    def handle(message):
        if message == ("bad",):
            raise ValueError("no such message")
        pair._take(message)

    pair.there.on_message = handle
    pair.here.post(("bad",), now=True)
    pair.here.post(("good",), now=True)
    pair.wait_for(1)
    assert pair.got == [("good",)]
    assert "no such message" in caplog.text


def test_many_threads_may_post(ends):
    pair = ends()

    def post(who):
        for number in range(500):
            pair.here.post((who, number), now=False)

    threads = [threading.Thread(target=post, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pair.wait_for(2000)
    for who in range(4):
        assert [n for w, n in pair.got if w == who] == list(range(500))


def test_a_closed_pump_leaves_no_thread(ends):
    before = threading.active_count()
    pair = ends()
    pair.here.post(("x",), now=True)
    pair.wait_for(1)
    pair.close()
    assert threading.active_count() == before
