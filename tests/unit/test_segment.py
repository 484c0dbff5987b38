"""Segments: written once, mapped read-only, gone with their owner."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from raycompat._protocol import segment
from raycompat._protocol.serialization import deserialize, serialize
from raycompat._protocol.values import (
    CallFailed,
    ErrorValue,
    InlineValue,
    SegmentLink,
    SegmentValue,
    StorePlace,
    from_wire,
    to_wire,
)


@pytest.fixture
def block():
    return serialize(np.arange(100_000))[0]


def test_what_is_written_is_read(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    np.testing.assert_array_equal(deserialize(segment.read(path)), np.arange(100_000))


def test_a_view_outlives_the_file(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    array = deserialize(segment.read(path))
    segment.remove(path)
    assert array[-1] == 99_999


def test_a_full_directory_is_passed_over(tmp_path, block, monkeypatch):
    write = segment._write_file

    def full(path, block):
        if path.startswith(str(tmp_path / "full")):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, block)

    monkeypatch.setattr(segment, "_write_file", full)
    (tmp_path / "full").mkdir()
    (tmp_path / "free").mkdir()
    directories = [str(tmp_path / "full"), str(tmp_path / "free")]
    assert segment.write(directories, "store", block).startswith(str(tmp_path / "free"))
    with pytest.raises(OSError, match="No space left"):
        segment.write(directories[:1], "store", block)


def test_another_failure_is_not_passed_over(tmp_path, block):
    with pytest.raises(FileNotFoundError):
        segment.write([str(tmp_path / "absent"), str(tmp_path)], "store", block)


def test_one_writer_s_segments_can_be_removed_alone(tmp_path, block):
    mine = segment.write([str(tmp_path)], "store", block)
    other = tmp_path / "store-1-0"
    other.touch()
    segment.remove_all([str(tmp_path)], "store", writer_pid=os.getpid())
    assert not os.path.exists(mine)
    assert other.exists()
    segment.remove_all([str(tmp_path)], "store")
    assert not other.exists()


def test_a_sweep_removes_what_dead_nodes_left_and_nothing_else(tmp_path):
    alive = tmp_path / f"{segment.store_name()}-5-0"
    dead = tmp_path / f"{segment.PREFIX}4194305.77-5-0"
    recycled_pid = tmp_path / f"{segment.PREFIX}{os.getpid()}.1-5-0"
    foreign = tmp_path / "somebody-else"
    for path in (alive, dead, recycled_pid, foreign):
        path.touch()
    segment.sweep([str(tmp_path)])
    assert alive.exists()
    assert foreign.exists()
    assert not dead.exists()
    assert not recycled_pid.exists()


def test_the_start_of_a_process_is_known_while_it_runs():
    assert segment.process_start(os.getpid()) is not None
    assert segment.process_start(4_194_305) is None


def test_a_node_s_segment_goes_with_its_value(tmp_path, block):
    path = segment.write([str(tmp_path)], "store", block)
    value = SegmentValue(SegmentLink(path, block.size, "host"))
    assert value.__sizeof__() == block.size
    del value
    assert not os.path.exists(path)


def test_a_place_keeps_small_blocks_inline_and_large_ones_in_segments(tmp_path, block):
    place = StorePlace("store", (str(tmp_path),), "host")
    small = place.save(serialize(1)[0])
    assert isinstance(small, InlineValue)
    large = place.save(block)
    assert isinstance(large, SegmentLink)
    assert large.size == os.path.getsize(large.path)


@pytest.mark.parametrize(
    "value",
    [
        InlineValue(b"block", ("a", "b")),
        SegmentLink("/path", 10, "host", ("a",)),
        ErrorValue(b"error"),
    ],
)
def test_values_survive_the_wire(value):
    assert from_wire(list(to_wire(value))) == value


def test_a_failure_shows_its_text_and_pickles():
    import pickle

    failure = pickle.loads(pickle.dumps(CallFailed(b"bytes", "ValueError: no")))
    assert str(failure) == "ValueError: no"
    assert failure.error == b"bytes"
