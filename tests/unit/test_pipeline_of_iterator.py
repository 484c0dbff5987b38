"""A pipeline of a generator can be read once: it never ends early without an error."""

from __future__ import annotations

import pytest

from raycompat._old.data.pipeline import DatasetPipeline


class _Window:
    def __init__(self, num_rows):
        self.num_rows = num_rows

    def count(self):
        return self.num_rows

    def schema(self):
        return "columns"

    def stats(self):
        return ""


def functions():
    return (lambda number=number: _Window(number) for number in (1, 2))


def test_a_generator_is_read_once():
    pipeline = DatasetPipeline.from_iterable(functions())
    assert pipeline.count() == 3
    with pytest.raises(RuntimeError, match=r"once only.*from_iterable\(list\(functions\)\)"):
        pipeline.count()


def test_a_generator_cannot_be_repeated():
    pipeline = DatasetPipeline.from_iterable(functions()).repeat(2)
    with pytest.raises(RuntimeError, match="once only"):
        pipeline.count()


def test_an_endless_repeat_of_a_generator_ends_with_the_error():
    windows = DatasetPipeline.from_iterable(functions()).repeat().iter_datasets()
    assert [next(windows).count(), next(windows).count()] == [1, 2]
    with pytest.raises(RuntimeError, match="once only"):
        next(windows)


def test_the_first_window_is_not_lost_to_the_schema():
    pipeline = DatasetPipeline.from_iterable(functions())
    assert pipeline.schema() == "columns"
    with pytest.raises(RuntimeError, match="once only"):
        pipeline.count()


def test_a_changed_pipeline_shares_the_iterator():
    pipeline = DatasetPipeline.from_iterable(functions())
    changed = pipeline.foreach_window(lambda window: _Window(window.num_rows * 10))
    assert changed.count() == 30
    with pytest.raises(RuntimeError, match="once only"):
        pipeline.count()


def test_a_list_is_read_again():
    pipeline = DatasetPipeline.from_iterable(list(functions()))
    assert pipeline.repeat(2).count() == 6
    assert pipeline.count() == 3
