"""A process of a multiprocessing pool: the chunks of one message."""

from __future__ import annotations

import math
from typing import Any

import pytest

from raycompat.util.multiprocessing import pool_process
from raycompat.util.multiprocessing.pool import _MOST_TOGETHER, _Process
from raycompat.util.multiprocessing.pool_process import PoolProcess, Shipped

FUNCTION: Shipped = ("id of the function", [None])  # type: ignore[list-item]


@pytest.fixture
def process() -> PoolProcess:
    """Return a process that has loaded its function, so that it needs no cluster."""
    made = PoolProcess(None, ())
    made._function_id, made._function = FUNCTION[0], lambda number: 10 // number
    return made


def test_all_short_chunks_of_a_message_are_run(
    process: PoolProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_process, "_LONG_S", math.inf)
    outcomes, seconds = process.run(FUNCTION, "item", [[1, 2], [5]])
    assert outcomes == [([10, 5], {}), ([2], {})]
    assert seconds > 0


def test_the_chunks_after_a_long_one_are_not_run(
    process: PoolProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_process, "_LONG_S", 0.0)
    outcomes, _ = process.run(FUNCTION, "item", [[1, 2], [5]])
    assert outcomes == [([10, 5], {})]


def test_an_error_is_of_its_item_alone(process: PoolProcess) -> None:
    ((results, errors),), _ = process.run(FUNCTION, "item", [[1, 0, 2]])
    assert results == [10, None, 5]
    assert list(errors) == [1]
    assert isinstance(errors[1], ZeroDivisionError)


def test_messages_grow_while_chunks_are_short_and_shrink_when_they_are_long() -> None:
    process: Any = _Process(actor=None)
    process.note_function("f")
    sizes = []
    for _ in range(9):
        process.note_duration("f", process.num_together, 1e-7 * process.num_together)
        sizes.append(process.num_together)
    assert sizes == [2, 4, 8, 16, 32, 64, _MOST_TOGETHER, _MOST_TOGETHER, _MOST_TOGETHER]
    process.note_duration("f", 1, 0.5)
    assert (process.num_together, process.num_ahead) == (1, 2)


def test_durations_of_another_function_are_forgotten() -> None:
    process: Any = _Process(actor=None)
    process.note_function("f")
    process.note_duration("f", 1, 1e-7)
    assert process.num_together == 2
    process.note_function("g")
    assert process.num_together == 1
    process.note_duration("f", 1, 1e-7)  # a late answer
    assert process.num_together == 1
