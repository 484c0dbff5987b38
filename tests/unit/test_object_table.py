"""The table of objects: whose a segment is when its call has turned out in two ways."""

from __future__ import annotations

import threading

import pytest

from raycompat._caller.object_table import ObjectTable
from raycompat._protocol.values import SegmentLink


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
