"""`ray.experimental.shuffle`: items of input partitions are divided over output partitions."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def shuffle(ray, cluster):
    """The module `ray.experimental.shuffle`, with a session."""
    return importlib.import_module(f"{ray.__name__}.experimental.shuffle")


def test_items_are_dealt_in_turn(ray, shuffle):
    found = shuffle.simple_shuffle(
        input_reader=lambda i: range(10 * i, 10 * i + 4),
        input_num_partitions=3,
        output_num_partitions=2,
        output_writer=lambda i, refs: (i, ray.get(refs)),
    )
    assert found == [(0, [0, 2, 10, 12, 20, 22]), (1, [1, 3, 11, 13, 21, 23])]


def test_more_outputs_than_items(ray, shuffle):
    found = shuffle.simple_shuffle(
        input_reader=lambda i: ["a", "b"],
        input_num_partitions=1,
        output_num_partitions=3,
        output_writer=lambda i, refs: ray.get(refs),
    )
    assert found == [["a"], ["b"], []]


def test_an_own_partitioner(ray, shuffle):
    def by_parity(items, num_partitions):
        for item in items:
            yield item % num_partitions, item

    found = shuffle.simple_shuffle(
        input_reader=lambda i: [i, i + 1, i + 2],
        input_num_partitions=2,
        output_num_partitions=2,
        output_writer=lambda i, refs: sorted(ray.get(refs)),
        partitioner=by_parity,
    )
    assert found == [[0, 2, 2], [1, 1, 3]]


def test_items_instead_of_references(shuffle):
    found = shuffle.simple_shuffle(
        input_reader=lambda i: [i, i + 10],
        input_num_partitions=2,
        output_num_partitions=2,
        output_writer=lambda i, items: sum(items),
        object_store_writer=shuffle.ObjectStoreWriterNonStreaming,
        streaming=False,
    )
    assert found == [1, 21]


def test_an_own_writer(ray, shuffle):
    class Pairs(shuffle.ObjectStoreWriter):
        """One object for all items."""

        def add(self, item):
            self.results.append(item)

        def finish(self):
            return [ray.put(self.results)]

    found = shuffle.simple_shuffle(
        input_reader=lambda i: [i] * 4,
        input_num_partitions=3,
        output_num_partitions=2,
        output_writer=lambda i, refs: ray.get(refs),
        object_store_writer=Pairs,
    )
    assert found == [[[0, 0], [1, 1], [2, 2]]] * 2


def test_arrays_travel(ray, shuffle):
    import numpy as np

    def total(i, refs):
        return sum(int(ray.get(ref).sum()) for ref in refs)

    found = shuffle.simple_shuffle(
        input_reader=lambda i: [np.full((1000, 100), i), np.full((1000, 100), 10 * i)],
        input_num_partitions=3,
        output_num_partitions=2,
        output_writer=total,
    )
    assert found == [300_000, 3_000_000]


def test_an_error_of_the_reader_is_raised(ray, shuffle):
    def read(i):
        raise KeyError(i)

    with pytest.raises(KeyError):
        shuffle.simple_shuffle(
            input_reader=read,
            input_num_partitions=2,
            output_num_partitions=2,
            output_writer=lambda i, refs: None,
        )


def test_a_tracker_shows_bars(ray, shuffle, capsys):
    pytest.importorskip("tqdm")
    found = shuffle.simple_shuffle(
        input_reader=lambda i: [i],
        input_num_partitions=2,
        output_num_partitions=2,
        output_writer=lambda i, refs: len(refs),
        tracker=shuffle._StatusTracker.remote(),
    )
    assert found == [2, 0]
    shown = capsys.readouterr().err
    assert "Map Progress" in shown
    assert "Reduce Progress" in shown


def test_the_partitioner_deals_in_turn(shuffle):
    dealt = shuffle.round_robin_partitioner(iter("abcd"), 3)
    assert list(dealt) == [(0, "a"), (1, "b"), (2, "c"), (0, "d")]
