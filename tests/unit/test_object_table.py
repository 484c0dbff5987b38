"""The table of objects: whose a segment is when its call has turned out in two ways."""

from __future__ import annotations

import threading

import pytest
from _interruption import interruptions

from raycompat._caller.object_table import ObjectTable
from raycompat._protocol.values import InlineValue, SegmentLink


@pytest.fixture
def removed():
    return []


@pytest.fixture
def table(removed):
    return ObjectTable(threading.RLock(), lambda keys: None, removed.append, lambda entry: None)


def segment(path):
    return SegmentLink(path, 1_000_000, "host", ())


def test_a_segment_that_comes_too_late_is_removed(table, removed):
    entry = table.add("task-1")
    table.count_up("task-1")
    table.settle(entry, error=b"its process died")
    late = segment("/dev/shm/late")
    table.settle(entry, value=late, own_segment=True)
    assert removed == [late]
    assert table.own == {}


def test_of_two_segments_the_first_stays(table, removed):
    entry = table.add("task-1")
    table.count_up("task-1")
    first, second = segment("/dev/shm/first"), segment("/dev/shm/second")
    table.settle(entry, value=first, own_segment=True)
    table.settle(entry, value=second, own_segment=True)
    assert removed == [second]
    assert entry.value == first


def test_a_segment_that_is_entered_twice_stays(table, removed):
    entry = table.add("task-1")
    table.count_up("task-1")
    for _ in range(2):  # an interrupt struck the first time
        table.settle(entry, value=segment("/dev/shm/one"), own_segment=True)
    assert removed == []
    assert list(table.own) == ["task-1"]


class Callback:
    """Counts its calls, and how often any callback is compared with another."""

    num_comparisons = 0

    def __init__(self):
        self.called = 0

    def __call__(self, entry):
        self.called += 1

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        Callback.num_comparisons += 1
        return self is other


def test_what_waits_for_an_object_costs_the_same_however_many_wait(table):
    entry = table.add("key")
    callbacks = [Callback() for _ in range(1000)]
    assert table.when_settled(entry, callbacks[0])
    registered = entry.callbacks
    for callback in callbacks:
        table.when_settled(entry, callback)
    assert entry.callbacks is registered  # not copied for each
    table.forget_callback(entry, callbacks[500])
    assert Callback.num_comparisons < 100
    table.settle(entry, value=InlineValue(b""))
    assert [each.called for each in callbacks] == [2] + [1] * 499 + [0] + [1] * 499
    assert entry.callbacks is None


def test_a_callback_may_forget_another_while_they_run(table):
    entry = table.add("key")
    later = Callback()
    table.when_settled(entry, lambda entry: table.forget_callback(entry, later))
    table.when_settled(entry, later)
    table.settle(entry, value=InlineValue(b""))
    assert entry.callbacks is None


def test_an_interrupt_loses_no_dropped_reference(table, removed):
    for number, interruption in enumerate(interruptions(step=1)):
        links = [segment(f"/dev/shm/{number}.{index}") for index in range(3)]
        for link in links:
            entry = table.add(link.path)
            table.count_up(link.path)
            table.settle(entry, value=link, own_segment=True)
            table.note_dropped(link.path)
        interruption.run(table.collect_dropped)
        table.collect_dropped()
        assert removed == links, interruption.where
        assert not table.entries
        removed.clear()


def test_a_callback_runs_once_when_two_threads_settle_an_object(table):
    """An answer may come while the end of its process fails the calls without an answer."""
    entry, called = table.add("key"), []

    def first(entry):
        other = threading.Thread(target=table.settle, args=(entry,), kwargs={"error": b"died"})
        other.start()
        other.join()
        called.append("first")

    table.when_settled(entry, first)
    table.when_settled(entry, lambda entry: called.append("second"))
    table.settle(entry, value=InlineValue(b""))
    assert sorted(called) == ["first", "second"]


def test_an_interrupt_loses_no_callback(table):
    for number, interruption in enumerate(interruptions(step=1)):
        entry, called = table.add(f"key-{number}"), []
        for each in range(3):
            table.when_settled(entry, lambda entry, each=each: called.append(each))
        interruption.run(lambda: table.settle(entry, value=InlineValue(b"")))
        table.settle(entry, value=InlineValue(b""))
        assert called == [0, 1, 2], interruption.where
