"""Writing through mappings that are kept."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._host import mapping, segment, warm_memory
from raycompat._pickling.serialization import Block, deserialize, serialize

FREE_BYTES = 1 << 30


@pytest.fixture
def store(monkeypatch):
    """A folder in shared memory whose segments are recycled, and the name of their store.

    Mappings are kept for as long as a test takes, on however slow a machine.
    """
    warm_memory.drop_all()
    monkeypatch.setattr(warm_memory, "_KEPT_S", 3600.0)
    folder = tempfile.mkdtemp(dir=segment.SHARED_MEMORY)
    segment.keep_free_segments(folder, "raycompat-1.1")
    yield [folder], "raycompat-1.1"
    shutil.rmtree(folder)
    warm_memory.drop_all()


def numbers(count, value):
    return serialize(np.full(count, value))[0]


def written_again(store, count, value, path):
    """Free the segment at `path` and write another, into the same memory."""
    number = os.stat(path).st_ino
    segment.remove(path, FREE_BYTES)
    path = segment.write(*store, numbers(count, value))
    assert os.stat(path).st_ino == number
    np.testing.assert_array_equal(deserialize(segment.read(path)), np.full(count, value))
    return path


def is_mapped(number):
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any(line.split()[4] == str(number) for line in lines)


def test_what_is_written_again_and_again_is_mapped_once(store, monkeypatch):
    maps = []
    make = mapping.writable
    monkeypatch.setattr(mapping, "writable", lambda *a: maps.append(a) or make(*a))
    path = segment.write(*store, numbers(400_000, 0.0))
    for round_number, count in enumerate((400_000, 400_000, 300_000)):
        path = written_again(store, count, float(round_number), path)
    assert len(maps) == 1


def test_segments_that_take_turns_are_mapped_once_each(store, monkeypatch):
    """A program stores a value before it drops the last one: two segments, and others are older."""
    monkeypatch.setattr(warm_memory, "_KEPT", 2)
    paths = [segment.write(*store, numbers(200_000, 0.0)) for _ in range(4)]
    for path in paths:
        segment.remove(path, FREE_BYTES)
    maps = []
    make = mapping.writable
    monkeypatch.setattr(mapping, "writable", lambda *a: maps.append(a) or make(*a))
    held = segment.write(*store, numbers(200_000, 0.0))
    for number in range(8):
        path = segment.write(*store, numbers(200_000, float(number)))
        segment.remove(held, FREE_BYTES)
        held = path
    assert len(maps) == 2


def test_a_small_value_leaves_the_memory_of_a_large_one_alone(store):
    large = segment.write(*store, numbers(2_000_000, 0.0))
    number = os.stat(large).st_ino
    segment.remove(large, FREE_BYTES)
    small = segment.write(*store, numbers(200_000, 0.0))
    large = segment.write(*store, numbers(2_000_000, 1.0))
    assert os.stat(small).st_ino != number == os.stat(large).st_ino


def test_what_has_grown_since_is_mapped_anew(store):
    path = segment.write(*store, numbers(200_000, 0.0))
    path = written_again(store, 200_000, 1.0, path)
    path = written_again(store, 500_000, 2.0, path)  # its end by write: the file lacks the memory
    path = written_again(store, 500_000, 3.0, path)
    path = written_again(store, 300_000, 4.0, path)
    written_again(store, 500_000, 5.0, path)


@pytest.mark.parametrize("remove", ["remove", "drop_free"])
def test_memory_that_is_given_back_is_free_although_a_writer_has_mapped_it(store, remove):
    """The mapping may be another process's: the node drops what drivers and executors have written."""
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    descriptor = os.open(path, os.O_RDONLY)
    another = mapping.writable(descriptor_for_writing := os.open(path, os.O_RDWR), 3_000_000)
    if remove == "remove":
        segment.remove(path)
    else:
        segment.remove(path, FREE_BYTES)
        segment.drop_free(store[0][0], store[1])
    try:
        status = os.fstat(descriptor)
        assert (status.st_nlink, status.st_blocks) == (0, 0)
    finally:
        os.close(descriptor)
        os.close(descriptor_for_writing)
        del another


@pytest.mark.parametrize("has_another_name", [False, True])
def test_memory_that_is_read_is_not_given_back(store, has_another_name):
    path = segment.write(*store, numbers(400_000, 1.0))
    if has_another_name:
        other = segment.share(path)
        segment.remove(path)
        array = deserialize(segment.read(other))
    else:
        array = deserialize(segment.read(path))
        segment.remove(path)
    assert set(array) == {1.0}


def test_memory_is_given_back_when_no_descriptor_is_left(store, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    path = segment.write(*store, numbers(400_000, 1.0))
    with monkeypatch.context() as patch:
        patch.setattr(segment.os, "open", refuse)
        segment.remove(path)
    assert not os.path.exists(path)


def test_a_mapping_is_dropped_when_it_is_not_used(store, monkeypatch):
    monkeypatch.setattr(warm_memory, "_KEPT_S", 0.5)
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    while (timer := warm_memory._timer) is not None:
        timer.join(60)
    assert not is_mapped(os.stat(path).st_ino)


def test_what_is_read_again_and_again_is_mapped_once(store, monkeypatch):
    maps = []
    make = mapping.without_locks
    monkeypatch.setattr(mapping, "without_locks", lambda *a: maps.append(a) or make(*a))
    path = segment.write(*store, numbers(400_000, 0.0))
    for round_number, count in enumerate((400_000, 400_000, 300_000)):
        path = written_again(store, count, float(round_number), path)
    assert len(maps) == 1
    number = os.stat(path).st_ino
    segment.remove(path)
    assert not is_mapped(number)


def test_a_value_in_a_forked_process_is_not_overwritten(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    array = deserialize(segment.read(path))
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.close(sender)
        os.read(receiver, 1)  # until the parent has written
        os._exit(int(set(array) != {1.0}))
    os.close(receiver)
    number = os.stat(path).st_ino
    del array
    gc.collect()
    segment.remove(path, FREE_BYTES)
    other = segment.write(*store, numbers(400_000, 2.0))
    assert os.stat(other).st_ino != number
    os.close(sender)
    assert os.waitpid(child, 0)[1] == 0
    third = segment.write(*store, numbers(400_000, 3.0))
    assert os.stat(third).st_ino == number  # no process reads it any more


def test_the_mapping_of_a_removed_segment_is_not_kept(store):
    path = segment.write(*store, numbers(400_000, 1.0))
    number = os.stat(path).st_ino
    array = deserialize(segment.read(path))
    segment.remove(path)
    assert set(array) == {1.0}
    assert is_mapped(number)
    del array
    gc.collect()
    assert not is_mapped(number)


def test_a_mapping_goes_with_the_file_that_is_removed(store):
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    number = os.stat(path).st_ino
    assert is_mapped(number)
    segment.remove(path)
    assert not is_mapped(number)


def test_a_mapping_goes_with_free_segments_that_make_room(store):
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    number = os.stat(path).st_ino
    segment.remove(path, FREE_BYTES)
    assert is_mapped(number)
    segment.drop_free(store[0][0], store[1])
    assert not is_mapped(number)


def test_a_file_may_be_removed_by_a_finalizer_that_runs_while_the_lock_is_held(store):
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    with warm_memory._lock:
        segment.remove(path)
    assert not os.path.exists(path)


def test_where_no_thread_can_be_started_values_are_written_all_the_same(store, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(warm_memory, "_SPLIT_BYTES", 1000)
    monkeypatch.setattr(warm_memory, "_THREADS", 3)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    assert not is_mapped(os.stat(path).st_ino)  # nothing would drop it


def test_where_no_file_can_be_mapped_values_are_written_all_the_same(store, monkeypatch):
    def refuse(*arguments, **flags):
        raise OSError(errno.EMFILE, "Too many open files")

    path = segment.write(*store, numbers(400_000, 0.0))
    segment.remove(path, FREE_BYTES)
    with monkeypatch.context() as patch:
        patch.setattr(mapping, "writable", refuse)
        path = segment.write(*store, numbers(400_000, 1.0))
    assert set(deserialize(segment.read(path))) == {1.0}


def test_only_a_few_are_kept(store, monkeypatch):
    monkeypatch.setattr(warm_memory, "_KEPT", 4)
    for _ in range(2):
        paths = [segment.write(*store, numbers(200_000, 1.0)) for _ in range(6)]
        inodes = [os.stat(path).st_ino for path in paths]
        for path in paths:
            segment.remove(path, FREE_BYTES)
    assert 0 < sum(map(is_mapped, inodes)) <= 4


def test_a_reader_s_lock_can_be_had_while_the_writer_s_mapping_is_kept(store):
    path = written_again(store, 400_000, 1.0, segment.write(*store, numbers(400_000, 0.0)))
    array = deserialize(segment.read(path))
    segment.remove(path, FREE_BYTES)
    segment.write(*store, numbers(400_000, 2.0))  # elsewhere
    assert set(array) == {1.0}


def test_a_file_without_memory_is_not_written_through_a_mapping(store):
    block = numbers(400_000, 1.0)
    with open(os.path.join(store[0][0], "sparse"), "w+b") as file:
        file.truncate(block.size)
        assert not warm_memory.write(file.fileno(), block)


@given(
    parts=st.lists(st.binary(max_size=50), min_size=1, max_size=6).filter(any),
    threads=st.integers(1, 4),
    share=st.floats(0, 1),
)
def test_parts_follow_one_another(parts, threads, share):
    """However much of the block has memory already, and the end is appended."""
    block = Block(parts, sum(map(len, parts)), ())
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as file:
        patch.setattr(warm_memory, "_SPLIT_BYTES", 2)
        patch.setattr(warm_memory, "_THREADS", threads)
        memory = np.zeros(int(share * block.size), np.uint8)
        warm_memory._copy(block, memory, file.fileno())
        file.seek(len(memory))
        assert bytes(memory) + file.read() == b"".join(parts)


def stored_again(store, value):
    return segment.link(store[0][0], store[1], serialize(value)[0])


@pytest.mark.parametrize(
    "value",
    [
        np.arange(400_000),
        {"rows": np.ones((500, 500)), "more": [np.zeros(7), np.arange(3)], "name": "x"},
        (np.asfortranarray(np.ones((400, 400))), b"text"),
    ],
)
def test_a_value_that_was_read_is_stored_again_without_a_copy(store, value):
    path = segment.write(*store, serialize(value)[0])
    found = deserialize(segment.read(path))
    again = stored_again(store, found)
    assert os.path.samefile(again, path)
    del found
    gc.collect()
    segment.remove(path, FREE_BYTES)
    # The memory is nobody else's as long as it has a name.
    other = segment.write(*store, serialize(np.zeros(400_000))[0])
    assert not os.path.samefile(again, other)
    np.testing.assert_equal(deserialize(segment.read(again)), value)
    number = os.stat(again).st_ino
    gc.collect()
    segment.remove(again, FREE_BYTES)
    assert os.stat(segment.write(*store, serialize(value)[0])).st_ino == number


def test_a_value_that_differs_from_what_was_read_is_copied(store):
    value = np.arange(400_000.0).reshape(400, 1000)
    path = segment.write(*store, serialize(value)[0])
    found = deserialize(segment.read(path))
    for other in (
        found[:399],
        found[1:],
        found.T,
        found.reshape(1000, 400),
        found.view(np.int64),
        found.copy(),
        [found],
        {"rows": found, "more": found},
        value,
        np.zeros(1000),
        b"x" * 4_000_000,
    ):
        assert stored_again(store, other) is None
    assert os.path.samefile(stored_again(store, found.view()), path)
    path = segment.write(*store, serialize({"rows": value, "zero": 0.0})[0])
    found = deserialize(segment.read(path))
    assert stored_again(store, {**found, "zero": -0.0}) is None
    assert os.path.samefile(stored_again(store, found), path)


def test_a_value_whose_segment_is_gone_or_whose_descriptor_is_closed_is_copied(store):
    value = np.arange(400_000)
    path = segment.write(*store, serialize(value)[0])
    found = deserialize(segment.read(path))
    segment.remove(path)
    assert stored_again(store, found) is None
    path = segment.write(*store, serialize(value)[0])
    found = deserialize(segment.read(path))
    (_, _, descriptor) = list(warm_memory._read.values())[-1]
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, descriptor)
    assert stored_again(store, found) is None
    os.close(descriptor)
    os.close(other)
    assert stored_again(store, found) is None


def test_a_value_in_another_file_system_is_copied(store, tmp_path):
    path = segment.write([str(tmp_path)], store[1], serialize(np.arange(400_000))[0])
    assert os.stat(path).st_dev != os.stat(store[0][0]).st_dev
    assert stored_again(store, deserialize(segment.read(path))) is None
