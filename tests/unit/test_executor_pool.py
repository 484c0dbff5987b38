"""The executors of a node: one that is being killed gets no more calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from raycompat._node.executor_pool import ExecutorPool


@pytest.fixture
def pool():
    return ExecutorPool(
        max_idle=2,
        on_message=lambda *message: None,
        on_end=lambda executor: None,
        goes_on=lambda job: True,
        logs=SimpleNamespace(),
    )


@pytest.fixture
def executor():
    killed: list[int] = []
    return SimpleNamespace(
        pid=4,
        kind=("job",),
        alive=True,
        is_ending=False,
        killed=killed,
        ended=SimpleNamespace(done=lambda: False),
        forkserver=SimpleNamespace(kill=killed.append),
    )


def test_an_idle_executor_that_is_killed_is_not_idle(pool, executor):
    pool.release(executor, spent=False)
    assert pool.idle == [executor]
    pool.kill(executor)
    assert (pool.idle, executor.killed) == ([], [4])


def test_an_executor_that_is_killed_does_not_become_idle(pool, executor):
    """Its last answer has arrived before it was killed."""
    pool.kill(executor)
    pool.release(executor, spent=False)
    assert pool.idle == []
