"""Dask's move of values to disk, limited by the room that is left there."""

from __future__ import annotations

import pytest
from distributed.spill import SpillBuffer

from raycompat import _dask_adapter as adapter

VALUE = bytes(1000)


class Worker:
    """What a Dask worker has for its values."""

    def __init__(self, folder, most=False):
        self.data = SpillBuffer(str(folder), target=1500, max_spill=most)
        self.metrics = {}


@pytest.fixture
def room():
    return [10_000]


def spill(worker, room):
    return adapter.limit_spilling(worker, lambda: room[0], lambda: 7)


def test_values_stay_in_memory_while_the_disk_has_no_room(tmp_path, room):
    worker = Worker(tmp_path)
    take_back = spill(worker, room)
    worker.data["a"] = worker.data["b"] = VALUE
    assert set(worker.data.disk) == {"a"}
    room[0] = -1
    worker.data["c"] = VALUE
    assert set(worker.data.memory) == {"b", "c"}
    assert worker.data["a"] == VALUE  # what is on disk can be read
    room[0] = 10_000
    worker.data["d"] = VALUE
    assert len(worker.data.memory) == 1
    assert [worker.data[key] for key in "abcd"] == [VALUE] * 4
    room[0] = -1
    take_back()
    assert not worker.metrics
    assert len(worker.data.memory) == 1
    worker.data["e"] = VALUE
    assert len(worker.data.memory) == 1  # nothing limits it now


def test_the_limit_of_dask_s_settings_holds_too(tmp_path, room):
    worker = Worker(tmp_path, most=100)
    spill(worker, room)
    worker.data["a"] = worker.data["b"] = VALUE
    assert set(worker.data.memory) == {"a", "b"}


def test_a_worker_that_never_spills_only_gets_the_metric(room):
    worker = Worker.__new__(Worker)
    worker.data, worker.metrics = {}, {}
    take_back = spill(worker, room)
    [metric] = worker.metrics.values()
    assert metric(worker) == 7
    take_back()
    assert not worker.metrics
