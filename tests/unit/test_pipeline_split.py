"""The parts of an endless pipeline: a fast reader waits for the slow one."""

from __future__ import annotations

import itertools
import threading

import pytest

from raycompat._old.data.pipeline_split import _MAX_AHEAD, _End, _Splitter


class _Window:
    def __init__(self, number, made):
        self.number, self.made = number, made

    def split(self, num, equal):
        self.made.append(self.number)
        return [(self.number, reader) for reader in range(num)]


class _Pipeline:
    def __init__(self, numbers):
        self.numbers, self.made = numbers, []

    def _epochs(self):
        yield (_Window(number, self.made) for number in self.numbers)


def test_a_fast_reader_waits_for_the_slow_one():
    pipeline = _Pipeline(itertools.count())
    splitter = _Splitter(pipeline._epochs, 2, equal=False)
    for number in range(_MAX_AHEAD):
        assert splitter.next_part(0) == (number, 0)
    found = []
    reader = threading.Thread(target=lambda: found.append(splitter.next_part(0)), daemon=True)
    reader.start()
    reader.join(0.2)
    assert reader.is_alive()
    assert len(pipeline.made) == _MAX_AHEAD
    assert splitter.next_part(1) == (0, 1)
    reader.join(20)
    assert found == [(_MAX_AHEAD, 0)]
    assert len(pipeline.made) == _MAX_AHEAD + 1


def test_readers_at_once_get_each_window_and_the_ends():
    splitter = _Splitter(_Pipeline(range(300))._epochs, 3, equal=False)
    found = [[] for _ in range(3)]

    def read(reader):
        while (part := splitter.next_part(reader)) is not _End.OF_PIPELINE:
            found[reader].append(part)

    readers = [threading.Thread(target=read, args=(each,), daemon=True) for each in range(3)]
    for each in readers:
        each.start()
    for each in readers:
        each.join(20)
    for reader in range(3):
        assert found[reader] == [*((number, reader) for number in range(300)), _End.OF_EPOCH]


def test_each_reader_gets_the_error_of_a_window():
    class Broken(_Window):
        def split(self, num, equal):
            raise OSError("no disk")

    pipeline = _Pipeline([])
    pipeline._epochs = lambda: iter([iter([_Window(0, []), Broken(1, []), _Window(2, [])])])
    splitter = _Splitter(pipeline._epochs, 3, equal=False)
    for reader in range(3):
        assert splitter.next_part(reader) == (0, reader)
        for _ in range(2):
            with pytest.raises(OSError, match="no disk"):
                splitter.next_part(reader)


def test_an_error_ends_the_wait_of_other_readers():
    is_splitting, may_fail = threading.Event(), threading.Event()

    class Broken(_Window):
        def split(self, num, equal):
            is_splitting.set()
            may_fail.wait(20)
            raise OSError("no disk")

    pipeline = _Pipeline([])
    pipeline._epochs = lambda: iter([iter([Broken(0, [])])])
    splitter = _Splitter(pipeline._epochs, 2, equal=False)
    found = [None, None]

    def read(reader):
        try:
            found[reader] = splitter.next_part(reader)
        except OSError as error:
            found[reader] = str(error)

    readers = [threading.Thread(target=read, args=(each,), daemon=True) for each in range(2)]
    readers[0].start()
    assert is_splitting.wait(20)
    readers[1].start()
    may_fail.set()
    for each in readers:
        each.join(20)
    assert found == ["no disk", "no disk"]
