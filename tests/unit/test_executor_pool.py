"""The executors of a node: one that is being killed gets no more calls."""

from __future__ import annotations

import asyncio
import socket

import pytest
from _node_parts import RecordedForkserver, done, run

from raycompat._messages.calls import CancelCall
from raycompat._messages.executors import Leave, Spent
from raycompat._node import executor_pool
from raycompat._node.executor_pool import Executor, ExecutorPool


@pytest.fixture
def pool():
    return ExecutorPool(
        num_cpus=2,
        on_message=lambda *message: None,
        on_end=lambda executor: None,
        goes_on=lambda job: True,
        logs=None,
    )


def test_an_idle_executor_that_is_killed_is_not_idle(tmp_path):
    async def test(machine):
        await machine.start("f-1")
        await machine.answer(1, done("f-1"))
        (executor,) = machine.node.pool.idle
        machine.node.pool.kill(executor)
        assert machine.node.pool.idle == []
        assert machine.instructions[-1] == ("kill", 1)

    run(tmp_path, test)


def test_an_executor_that_is_killed_does_not_become_idle(tmp_path):
    """Its last answer has arrived before it was killed."""

    async def test(machine):
        await machine.start("f-1")
        assert await machine.handle(CancelCall("f-1", force=True, recursive=False)) == [("kill", 1)]
        await machine.answer(1, done("f-1"))
        assert machine.node.pool.idle == []

    run(tmp_path, test)


def test_of_idle_executors_those_that_exceed_the_cpus_end_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(executor_pool, "_IDLE_S", 0.01)

    async def test(machine):
        for pid in range(1, 5):
            await machine.start(f"f-{pid}")
        num_before = len(machine.instructions)
        for pid in range(1, 4):
            await machine.answer(pid, done(f"f-{pid}"))

        def left():
            told = machine.instructions[num_before:]
            return [about[0] for who, *about in told if isinstance(about[-1], Leave)]

        async with asyncio.timeout(30):
            while len(machine.node.pool.idle) > 1:  # one has a call, and there are two CPUs
                await asyncio.sleep(0.001)
        assert (left(), [each.pid for each in machine.node.pool.idle]) == ([1, 2], [3])
        await machine.answer(4, done("f-4"))
        assert left() == [1, 2]

    run(tmp_path, test)


def test_the_rank_of_executors_is_checked_when_a_node_starts(monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "-3")
    with pytest.raises(
        ValueError, match=r"RAY_worker_niceness='-3': expected a number from 0 to 19"
    ):
        ExecutorPool(1, print, print, bool, logs=None)


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

    class Ending(RecordedForkserver):
        def close(self, within_s: float = 0.0) -> None:
            theirs.close()
            pool._on_exit(4, -9)

    async def run() -> set[asyncio.Task[None]]:
        pool._plain = Ending([])
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
        pool._by_pid[4] = executor = Executor(pool, ("job",), 4, RecordedForkserver([]))
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


def test_an_executor_that_can_run_no_more_calls_leaves(tmp_path):
    async def test(machine):
        await machine.start("f-1")
        told = await machine.answer(1, Spent(), done("f-1"))
        assert ("executor", 1, Leave(None)) in told
        assert machine.node.pool.idle == []

    run(tmp_path, test)
