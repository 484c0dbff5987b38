"""A node on a model of its Dask worker and of its processes, which records what it decides.

`Machine.handle` gives the node a message of the scheduler, `answer` one of an executor, and `die` ends
an executor. Each returns the node's instructions, so a test can say::

    assert await machine.handle(Revoke("lease-1")) == [
        ("executor", 1, Revoke("lease-1"))
    ]
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock

from distributed import Security

from raycompat._messages.calls import GrantCall
from raycompat._messages.executor_setup import Program
from raycompat._messages.executors import Succeeded
from raycompat._messages.jobs import BeginJob
from raycompat._node import node as node_module
from raycompat._node.executor_pool import Executor, ExecutorPool
from raycompat._protocol import frames
from raycompat._protocol.message import FromExecutor, FromNode, Message, ToExecutor, ToNode
from raycompat._protocol.runtime_env import EMPTY

JOB, OTHER_JOB, OWNER = "01000000", "02000000", "driver"

VALUES = [("inline", b"value", ())]

#: What a node tells the scheduler, an executor or the forkserver: which of them, and what.
Instruction = tuple[Any, ...]

#: Rounds of the event loop in which everything that follows from an event has happened.
_MANY_ROUNDS = 20


def _kinds(of: type[Message]) -> dict[str, type[Message]]:
    found = {}
    for kind in of.__subclasses__():
        found |= _kinds(kind) or {kind.op: kind}
    return found


class RecordedWorker:
    """The Dask worker of a node: it has two threads, and records what is sent to the scheduler."""

    address = "tcp://10.0.0.1:1000"
    security = Security()
    interval: object = None
    recent_message_log: object = None

    class state:  # noqa: N801  (Dask's name)
        nthreads = 2
        total_resources = {"memory": 1 << 30, "GPU": 1, "NPU": 1}

    class memory_manager:  # noqa: N801  (Dask's name)
        memory_limit = 1 << 30

    class scheduler:  # noqa: N801  (Dask's name)
        address = "tcp://scheduler:1"

    def __init__(self, folder: Path, instructions: list[Instruction]) -> None:
        self.local_directory = str(folder)
        self.batched_stream = self
        self._instructions = instructions

    def handle_stimulus(self, event: object) -> None:
        """A coroutine gives back its thread: no test is about threads."""

    def send(self, wire: dict[str, Any]) -> None:
        fields = dict(wire)
        kind = _kinds(FromNode)[fields.pop("op")]
        self._instructions.append(("scheduler", kind(**fields)))


class RecordedForkserver:
    """Records which processes end, instead of ending them."""

    was_ready = False

    def __init__(self, instructions: list[Instruction]) -> None:
        self._instructions = instructions

    def kill(self, pid: int) -> None:
        self._instructions.append(("kill", pid))

    def close(self, within_s: float = 0.0) -> None:
        """All processes are models, which end with the test."""


class RecordedWriter:
    """The node's end of the connection to an executor."""

    def __init__(self, pid: int, instructions: list[Instruction]) -> None:
        self._pid, self._instructions = pid, instructions

    def write(self, frame: bytes) -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(frame)
        coroutine = frames.read_async(reader)
        try:
            coroutine.send(None)
        except StopIteration as read:
            op, *fields = read.value
            self._instructions.append(("executor", self._pid, _kinds(ToExecutor)[op](*fields)))

    def close(self) -> None:
        """The process has ended."""


class RecordedPool(ExecutorPool):
    """Numbers its executors from 1 instead of forking them."""

    instructions: list[Instruction]

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self.readers: dict[int, asyncio.StreamReader] = {}
        self._plain = RecordedForkserver(self.instructions)

    async def _start_executor(self, kind, setup, prepared):
        pid = 1 + len(self.readers)
        self.instructions.append(("fork", pid))
        executor = self._by_pid[pid] = Executor(self, kind, pid, self._plain)
        executor.logs = self._logs.open({}, kind[0], pid)
        reader = self.readers[pid] = asyncio.StreamReader()
        executor._writer = RecordedWriter(pid, self.instructions)
        self.background(executor._read(reader, executor._writer))
        return executor


async def _settle() -> None:
    for _ in range(_MANY_ROUNDS):
        await asyncio.sleep(0)


class Machine:
    """A node of two CPUs, a GPU and an NPU."""

    def __init__(self, folder: Path) -> None:
        self.instructions: list[Instruction] = []
        RecordedPool.instructions = self.instructions
        self.node = node_module.Node(RecordedWorker(folder, self.instructions))
        self.tasks: list[asyncio.Task[Any]] = []
        self._handlers = self.node.stream_handlers()

    async def begin(self, job: str = JOB) -> None:
        """Let a driver connect."""
        setup = {
            "driver_host": "elsewhere",
            "driver_pid": 7,
            "runtime_env": EMPTY,
            "frameworks": [],
            "log_to_driver": False,
            "program": Program(argv=[], cwd="/").dumps(),
        }
        await self.handle(BeginJob(job, "n", setup))

    async def handle(self, message: ToNode) -> list[Instruction]:
        """Handle a message of the scheduler; return the instructions that follow."""
        num_before = len(self.instructions)
        fields = message.to_wire()
        self._handlers[fields.pop("op")](**fields)
        await _settle()
        return self.instructions[num_before:]

    @staticmethod
    def grant(key: str, **about: Any) -> dict[str, Any]:
        """Return the grant of a call."""
        return {
            "key": key,
            "kind": "task",
            "name": "f",
            "job": JOB,
            "owner": OWNER,
            "retries": 0,
            "max_calls": 0,
            "runtime_env": EMPTY,
            "resources": {"CPU": 1.0},
            "gpus": [],
            "group": None,
            "actor": None,
            "num_restarts": 0,
            "results": None,
            **about,
        }

    async def start(self, key: str, kind: str = "task", **about: Any) -> list[Instruction]:
        """Grant a call, and let Dask start its task; return the instructions that follow."""
        await self.handle(GrantCall(self.grant(key, kind=kind, **about)))
        return await self.run(key, kind)

    async def run(self, key: str, kind: str = "task") -> list[Instruction]:
        """Let Dask start the task of a call that was granted."""
        num_before = len(self.instructions)
        run = {
            "task": lambda: self.node.run_call(key, b"payload", ()),
            "lease": lambda: self.node.run_lease(key),
            "actor": lambda: self.node.run_actor(key, b"payload", ()),
        }[kind]
        self.tasks.append(asyncio.ensure_future(run()))
        await _settle()
        return self.instructions[num_before:]

    async def answer(self, pid: int, *messages: FromExecutor) -> list[Instruction]:
        """Let an executor send messages; return the instructions that follow."""
        num_before = len(self.instructions)
        for message in messages:
            self.node.pool.readers[pid].feed_data(frames.encode(message.to_frame()))
        await _settle()
        return self.instructions[num_before:]

    async def die(self, pid: int, code: int = -9) -> list[Instruction]:
        """Let an executor's process end; return the instructions that follow."""
        num_before = len(self.instructions)
        self.node.pool._on_exit(pid, code)
        self.node.pool.readers[pid].feed_eof()
        await _settle()
        # Its connection has ended, and the forkserver checks whether it still runs.
        return [each for each in self.instructions[num_before:] if each != ("kill", pid)]


def done(key: str) -> Succeeded:
    """Return the answer that a call has ended with `VALUES`."""
    return Succeeded(key, VALUES, ())


def run(folder: Path, test) -> None:
    """Run the coroutine function `test` with a node."""

    async def body() -> None:
        with mock.patch.object(node_module, "ExecutorPool", RecordedPool):
            machine = Machine(folder)
        await machine.begin()
        try:
            await test(machine)
        finally:
            for task in machine.tasks:
                task.cancel()
            await asyncio.gather(*machine.tasks, return_exceptions=True)
            machine.node.pool.close()
            machine.node.logs.close()
            machine.node.store.close()

    asyncio.run(body())
