"""What a process measures, gathered until it is sent."""

from __future__ import annotations

import threading

from raycompat._protocol.measurements import PERIOD_S, About, Measurements, about_from_wire

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
