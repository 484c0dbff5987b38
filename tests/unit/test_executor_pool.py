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
        num_cpus=2,
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
        is_spent=False,
        killed=killed,
        ended=SimpleNamespace(done=lambda: False),
        forkserver=SimpleNamespace(kill=killed.append),
    )


def test_an_idle_executor_that_is_killed_is_not_idle(pool, executor):
    async def run() -> None:
        pool.release(executor, spent=False)

    asyncio.run(run())
    assert pool.idle == [executor]
    pool.kill(executor)
    assert (pool.idle, executor.killed) == ([], [4])


def test_an_executor_that_is_killed_does_not_become_idle(pool, executor):
    """Its last answer has arrived before it was killed."""
    pool.kill(executor)
    pool.release(executor, spent=False)
    assert pool.idle == []


def test_of_idle_executors_those_that_exceed_the_cpus_end_after_a_while(pool, monkeypatch):
    monkeypatch.setattr(executor_pool, "_IDLE_S", 0.01)
    left: list[int] = []

    def make(pid: int) -> SimpleNamespace:
        return SimpleNamespace(
            pid=pid,
            kind=("job",),
            alive=True,
            is_ending=False,
            idle_since=0.0,
            is_spent=False,
            leave=lambda *, soon: left.append(pid),
        )

    async def run() -> None:
        executors = [make(pid) for pid in range(4)]
        pool._idle = list(executors)
        for _ in executors:
            await pool.acquire(("job",), {}, None)
        for executor in executors[:3]:
            pool.release(executor, spent=False)
        assert left == []  # not yet
        while len(pool.idle) + 1 > 2:  # one has a call, so the node of two CPUs keeps one more
            await asyncio.sleep(0.001)
        assert (left, [each.pid for each in pool.idle]) == ([0, 1], [2])
        pool.release(executors[3], spent=False)
        await asyncio.sleep(0)
        assert left == [0, 1]

    asyncio.run(asyncio.wait_for(run(), 30))


def test_the_rank_of_executors_is_checked_when_a_node_starts(monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "-3")
    with pytest.raises(
        ValueError, match=r"RAY_worker_niceness='-3': expected a number from 0 to 19"
    ):
        ExecutorPool(1, print, print, bool, SimpleNamespace())


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

    def end(within_s: float) -> None:
        theirs.close()
        pool._on_exit(4, -9)

    async def run() -> set[asyncio.Task[None]]:
        pool._plain = SimpleNamespace(close=end, kill=lambda pid: None)
        pool._by_pid[4] = executor = Executor(pool, ("job",), 4, pool._plain)
        await executor.connect(ours)
        pool.close()
        for _ in range(5):
            await asyncio.sleep(0)  # lets the callbacks run, and what they start
        executor._writer.transport.abort()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(run()) == set()


def test_an_executor_s_end_while_the_event_loop_ends_is_not_waited_for(pool):
    """The loop cancels its tasks, and then the end of a process is reported, whose output nobody reads."""
    ours, theirs = socket.socketpair()

    async def run() -> None:
        pool._by_pid[4] = executor = Executor(
            pool, ("job",), 4, SimpleNamespace(kill=lambda pid: None)
        )
        await executor.connect(ours)
        await asyncio.sleep(0)  # the reader begins
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        theirs.close()
        pool._on_exit(4, -9)
        for _ in range(5):
            await asyncio.sleep(0)  # lets the callbacks run, and what they start
        executor._writer.transport.abort()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_an_executor_that_can_run_no_more_calls_leaves(pool, executor):
    left: list[bool] = []
    executor.is_spent, executor.leave = True, lambda *, soon: left.append(soon)
    pool.release(executor, spent=False)
    assert pool.idle == [] and left == [False]
