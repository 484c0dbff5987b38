"""The executors of a node: one that is being killed gets no more calls."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest

from raycompat._node import executor_pool
from raycompat._node.executor_pool import Executor, ExecutorPool


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


class Forkserver:
    """Forks when the machine has room for a process: not the first time."""

    def __init__(self) -> None:
        self.num_tries = 0
        self.has_forked = asyncio.Event()

    async def wait_until_ready(self) -> None:
        """It is ready."""

    async def fork(self, request, descriptors) -> int:
        self.num_tries += 1
        if self.num_tries == 1:
            raise OSError("The node could not start a process: Resource temporarily unavailable")
        self.has_forked.set()
        return 4


def test_a_pulse_that_the_machine_cannot_start_is_tried_again(pool, monkeypatch):
    monkeypatch.setattr(executor_pool, "_PULSE_PAUSE_S", 0.01)

    async def run() -> None:
        pool._plain = Forkserver()
        await pool.start_pulse({})
        await asyncio.wait_for(pool._plain.has_forked.wait(), 30)

    asyncio.run(run())


def test_nothing_runs_on_when_the_pool_has_been_closed(pool):
    """The ends of executors are reported during `close`, after which nothing reads their connections."""
    ours, theirs = socket.socketpair()

    def end() -> None:
        theirs.close()
        pool._on_exit(4, -9)

    async def run() -> set[asyncio.Task[None]]:
        pool._plain = SimpleNamespace(close=end)
        pool._by_pid[4] = executor = Executor(pool, ("job",), 4, pool._plain)
        await executor.connect(ours)
        pool.close()
        for _ in range(5):
            await asyncio.sleep(0)  # lets the callbacks run, and what they start
        executor._writer.transport.abort()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(run()) == set()
