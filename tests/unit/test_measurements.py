"""What a process measures, gathered until it is sent."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from _interruption import interruptions

from raycompat._protocol import measurements, tracked
from raycompat._protocol.delayed_flush import PERIOD_S
from raycompat._protocol.measurements import About, Measurements, about_from_wire

REQUESTS = About("counter", "requests", "Requests.", ("route",))
DEPTH = About("gauge", "depth", "", ())
LATENCY = About("histogram", "latency", "", (), (1.0, 2.0))


class Clock:
    """Keeps what is to be called later."""

    def __init__(self):
        self.due, self.sent = [], []
        self.measurements = Measurements(self.sent.append, lambda s, f: self.due.append((s, f)))

    def tick(self):
        due, self.due = self.due, []
        for _, function in due:
            function()


def test_one_message_has_all_that_was_measured_since_the_last():
    clock = Clock()
    for number in (1, 2, 3):
        clock.measurements.record(REQUESTS, ("/a",), number)
    clock.measurements.record(REQUESTS, ("/b",), 1)
    clock.measurements.record(DEPTH, (), 7)
    clock.measurements.record(DEPTH, (), 5)
    assert [seconds for seconds, _ in clock.due] == [PERIOD_S]
    clock.tick()
    (message,) = clock.sent
    assert [(about_from_wire(w).name, tags, value) for w, tags, value, _ in message] == [
        ("requests", ["/a"], 6),
        ("requests", ["/b"], 1),
        ("depth", [], 5),
    ]
    assert about_from_wire(message[0][0]) == REQUESTS
    clock.measurements.flush()
    assert len(clock.sent) == 1
    clock.measurements.record(REQUESTS, ("/a",), 1)
    clock.tick()
    assert clock.sent[1][0][2] == 1


def test_values_fall_into_the_bucket_that_ends_with_them():
    clock = Clock()
    for value in (0.5, 1.0, 1.5, 2.0, 3.0):
        clock.measurements.record(LATENCY, (), value)
    clock.tick()
    ((_, _, total, buckets),) = clock.sent[0]
    assert (total, buckets) == (8.0, [2, 2, 1])


def test_threads_lose_nothing():
    clock = Clock()

    def count():
        for _ in range(1000):
            clock.measurements.record(REQUESTS, ("/",), 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    clock.tick()
    for thread in threads:
        thread.join()
    clock.measurements.flush()
    assert sum(message[0][2] for message in clock.sent) == 4000


def test_a_finalizer_that_records_while_a_value_is_recorded_does_not_wait_for_itself(monkeypatch):
    clock, make = Clock(), measurements._Sample

    def sample():
        monkeypatch.setattr(measurements, "_Sample", make)
        clock.measurements.record(REQUESTS, ("/a",), 1)  # as if garbage were collected here
        return make()

    monkeypatch.setattr(measurements, "_Sample", sample)
    thread = threading.Thread(
        target=clock.measurements.record, args=(REQUESTS, ("/a",), 2), daemon=True
    )
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    clock.tick()
    assert [message[0][2] for message in clock.sent] == [3]


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("kind", ["measurements", "tracker"])
def test_values_are_sent_after_a_timer_that_could_not_start(kind):
    sent, failing = [], [True]

    def later(seconds, flush):
        if failing.pop():
            raise Interrupted
        flush()

    if kind == "measurements":
        batch = Measurements(sent.append, later)
        record = partial(batch.record, REQUESTS, ("/a",), 1)
    else:
        batch = tracked.Tracker(sent.append, later)
        record = partial(batch.note, tracked.END, "experiment")
    with pytest.raises(Interrupted):
        record()
    failing.append(False)
    record()
    assert len(sent) == 1


@pytest.mark.parametrize("kind", ["measurements", "tracker"])
def test_an_interrupt_of_a_record_does_not_stop_the_messages(kind):
    for interruption in interruptions(step=1):
        clock = Clock()
        if kind == "measurements":
            record = partial(clock.measurements.record, REQUESTS, ("/a",), 1)
        else:
            tracker = tracked.Tracker(clock.sent.append, lambda s, f: clock.due.append((s, f)))
            record = partial(tracker.note, tracked.END, "experiment")
        interruption.run(record)
        record()
        clock.tick()
        assert clock.sent, interruption.where
