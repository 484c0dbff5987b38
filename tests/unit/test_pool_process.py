"""A process of a multiprocessing pool: the chunks of one message."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import pytest

from raycompat.util.multiprocessing import pool_process
from raycompat.util.multiprocessing.pool import _MOST_TOGETHER, Pool, _Chunk, _Process
from raycompat.util.multiprocessing.pool_process import Function, PoolProcess

FUNCTION = Function("id of the function", 1, [])


@pytest.fixture
def process() -> PoolProcess:
    """Return a process that has loaded its function, so that it needs no cluster."""
    made = PoolProcess(None, ())
    made._function_id, made._function = FUNCTION.id, lambda number: 10 // number
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
    process.note_function(FUNCTION)
    sizes = []
    for _ in range(9):
        process.note_duration(FUNCTION, process.num_together, 1e-7 * process.num_together)
        sizes.append(process.num_together)
    assert sizes == [2, 4, 8, 16, 32, 64, _MOST_TOGETHER, _MOST_TOGETHER, _MOST_TOGETHER]
    process.note_duration(FUNCTION, 1, 0.5)
    assert (process.num_together, process.num_ahead) == (1, 2)


def test_durations_are_known_for_the_next_call_with_the_same_code_alone() -> None:
    process: Any = _Process(actor=None)
    process.note_function(FUNCTION)
    for _ in range(3):
        process.note_duration(FUNCTION, 1, 1e-7)
    again = FUNCTION._replace(id="the next call")
    process.note_function(again)
    assert (process.num_together, process.num_ahead) == (8, 2)
    process.note_duration(FUNCTION, 1, 0.5)  # a late answer of the call before
    assert process.num_together == 8
    process.note_function(Function("other", 2, []))
    assert (process.num_together, process.num_ahead) == (1, 2)


def shares(numbers_running: list[int], num_waiting: int) -> list[int]:
    """Return the sizes of the next messages of processes whose chunks are all known to be short."""
    pool: Any = Pool.__new__(Pool)
    pool._maxtasksperchild, pool._crew = 0, [_Process(actor=None) for _ in numbers_running]
    chunk = _Chunk(FUNCTION, "item", [1], accept=print, is_part=True)
    pool._waiting = deque([chunk] * num_waiting)
    sizes = []
    for process, number in zip(pool._crew, numbers_running, strict=True):
        process.num_running = number
        process.note_function(FUNCTION)
        process.num_together = _MOST_TOGETHER
    for process in pool._crew:
        if pool._waiting:
            sizes.append(len(pool._take(process)))
            process.num_running += 1
    return sizes


def test_short_chunks_are_shared_evenly_by_the_processes_that_are_least_busy() -> None:
    assert shares([0, 0], 8) == [4, 4]
    assert shares([0, 0, 0], 8) == [3, 3, 2]
    assert shares([0, 1], 8) == [8]
    assert shares([0, 0], 1000) == [_MOST_TOGETHER, _MOST_TOGETHER]
