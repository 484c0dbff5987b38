"""Dask's move of values to disk, limited by the room that is left there."""

from __future__ import annotations

import pytest
from distributed.spill import SpillBuffer

from raycompat._dask import spilling as adapter

VALUE = bytes(1000)


class Worker:
    """What a Dask worker has for its values."""

    def __init__(self, folder, most=False):
        self.data = SpillBuffer(str(folder), target=1500, max_spill=most)
        self.metrics = {}


class Stuck:
    """A value that has no bytes for the disk."""

    def __sizeof__(self):
        return 1000

    def __reduce__(self):
        raise TypeError("not to be pickled")


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


def test_a_value_too_large_for_memory_can_be_read_from_a_full_disk(tmp_path, room):
    worker = Worker(tmp_path)
    spill(worker, room)
    large = bytes(3000)
    worker.data["large"] = large
    assert set(worker.data.disk) == {"large"}
    room[0] = -1
    worker.data["a"] = worker.data["b"] = VALUE
    assert set(worker.data.memory) == {"a", "b"}
    assert worker.data["large"] == large
    assert set(worker.data.disk) == {"large"}


def test_a_value_can_be_read_beside_one_that_cannot_move_to_disk(tmp_path, room):
    worker = Worker(tmp_path)
    spill(worker, room)
    worker.data["a"] = worker.data["b"] = VALUE
    assert set(worker.data.disk) == {"a"}
    del worker.data["b"]
    worker.data["stuck"] = Stuck()
    assert worker.data["a"] == VALUE
    assert set(worker.data.memory) == {"a", "stuck"}


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
