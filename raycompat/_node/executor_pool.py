"""The executors of a node: forked on demand, kept for the next call, ended when told.

An executor belongs to one job and one runtime environment. A task executor runs one call
at a time; an actor's executor is sent its calls as they come and runs them in that order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from raycompat._node import forkserver
from raycompat._node.forkserver import MAX_PACKET_BYTES
from raycompat._node.logs import ExecutorLogs, Logs
from raycompat._node.runtime_env import Prepared
from raycompat._protocol import frames

#: Forks that the forkserver is asked for at once. Its socket has room for some twenty requests.
_MANY_FORKS = 16

#: Seconds that an executor has to leave by itself before it is killed.
LEAVE_S = 5.0


class ExecutorDied(Exception):
    """An executor's process ended before it answered. The text says how it ended."""

    def __init__(self, text: str, exit_code: int | None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def describe_exit(code: int | None) -> str:
    """Say in words how a process ended."""
    if code is None:
        return "in an unknown way"
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


class Executor:
    """The node's end of one executor process."""

    def __init__(self, pool: ExecutorPool, kind: tuple[Any, ...], pid: int) -> None:
        self.kind = kind
        self.pid = pid
        self.calls_begun = 0
        self.exit_code: int | None = None
        #: Done when the process has been reaped.
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.alive = True
        self._pool = pool
        #: Why it was ended, if it was to save the node's memory.
        self.ended_for_memory = ""
        self._outcomes: dict[str, asyncio.Future[tuple[Any, ...]]] = {}
        self._writer: asyncio.StreamWriter
        self.logs: ExecutorLogs

    async def connect(self, connection: socket.socket) -> None:
        """Start reading what the executor says."""
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        self._pool.background(self._read(reader))

    def send(self, *message: Any) -> None:
        """Send one message; nothing happens when the process is gone."""
        if self.alive:
            self._writer.write(frames.encode(message))

    async def call(self, key: str, *message: Any) -> tuple[Any, ...]:
        """Send `message` and return the executor's answer about `key`.

        Raises
        ------
        ExecutorDied
            When the process ends first.
        """
        outcome: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()
        self._outcomes[key] = outcome
        self.calls_begun += 1
        self.send(*message)
        if not self.alive:
            code = await asyncio.shield(self.ended)
            raise ExecutorDied(describe_exit(code), code)
        try:
            return await outcome
        finally:
            self._outcomes.pop(key, None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while (message := await frames.read_async(reader)) is not None:
            operation, key, *rest = message
            if operation in ("done", "failed"):
                self.logs.drain()
                outcome = self._outcomes.get(key)
                if outcome is not None and not outcome.done():
                    outcome.set_result((operation, *rest))
            else:
                self._pool.on_message(self, operation, key, rest)
        self.alive = False
        self._writer.close()
        # The process is on its way out, or it has closed its end in spite of us.
        self._pool.kill(self)
        code = await asyncio.shield(self.ended)
        self.logs.close()
        self._pool.forget(self)
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_exception(ExecutorDied(describe_exit(code), code))

    def leave(self, *, soon: bool = True) -> None:
        """Ask the process to end by itself: `soon`, or it is killed; else when its calls have ended."""
        self.send("exit")
        if not soon:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(LEAVE_S, self._pool.kill, self)
        self.ended.add_done_callback(lambda _: timer.cancel())


class _Forked:
    """A child that was forked, not started: what a pool asks of a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return how the process has ended; None if it has not."""
        return self._look(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait until the process has ended."""
        return self._look(0)

    def _look(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self._pid, how)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


#: A forkserver that no pool has yet.
_early: list[tuple[socket.socket, _Forked]] = []


def fork_early() -> None:
    """Fork the forkserver of the pool that this process will have: so it need not import again.

    Call it in the main thread of a process that has no other thread, and has opened nothing yet.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    node = os.getpid()
    pid = os.fork()
    if not pid:
        ours.close()
        forkserver.run(theirs, node)
    theirs.close()
    _early.append((ours, _Forked(pid)))


def _start_forkserver() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = dict(os.environ)
    # One thread: a forkserver with a pool of BLAS threads could not fork safely.
    environment.setdefault("OMP_NUM_THREADS", "1")
    module = "raycompat._node.forkserver"
    server = subprocess.Popen(
        [sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid())],
        pass_fds=[theirs.fileno()],
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return ours, server


class ExecutorPool:
    """All executors of a node, and the forkserver that they come from."""

    def __init__(
        self,
        max_idle: int,
        on_message: Callable[[Executor, str, str, list[Any]], None],
        on_end: Callable[[Executor], None],
        logs: Logs,
    ) -> None:
        self.on_message = on_message
        self._on_end = on_end
        self._logs = logs
        self._max_idle = max_idle
        self._idle: list[Executor] = []
        self._by_pid: dict[int, Executor] = {}
        self._numbers = itertools.count()
        self._forks: dict[int, asyncio.Future[int]] = {}
        self._fork_limit = asyncio.Semaphore(_MANY_FORKS)
        self._ended_jobs: set[str] = set()
        self._exits: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._ready: asyncio.Future[int]
        self._control: socket.socket
        self._server: subprocess.Popen[bytes] | _Forked

    def background(self, coroutine: Any) -> None:
        """Run a coroutine of the pool's for as long as it takes."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start(self) -> None:
        """Start the forkserver, if there is none yet. Call it in the node's main thread.

        Children die with the thread that starts them.
        """
        self._control, self._server = _early.pop() if _early else _start_forkserver()
        self._control.setblocking(False)
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(self._control.fileno(), self._on_control)

    def _on_control(self) -> None:
        while True:
            try:
                packet = self._control.recv(MAX_PACKET_BYTES)
            except BlockingIOError:
                return
            if not packet:
                asyncio.get_running_loop().remove_reader(self._control.fileno())
                self._on_forkserver_death()
                return
            self._on_packet(packet)

    def _on_packet(self, packet: bytes) -> None:
        operation, *rest = pickle.loads(packet)
        if operation == "ready":
            self._ready.set_result(rest[0])
        elif operation == "forked":
            self._forks.pop(rest[0]).set_result(rest[1])
        elif operation == "failed":
            text = f"The node could not start a process: {rest[1]}"
            self._forks.pop(rest[0]).set_exception(OSError(text))
        else:
            self._on_exit(*rest)

    def _on_exit(self, pid: int, code: int) -> None:
        executor = self._by_pid.pop(pid, None)
        if executor is None:
            self._exits[pid] = code
        elif not executor.ended.done():
            executor.exit_code = code
            executor.ended.set_result(code)

    def _on_forkserver_death(self) -> None:
        error = RuntimeError(
            "The process that raycompat forks executors from has died. Restart the node (the Dask "
            "worker); its log says why it died."
        )
        for fork in [self._ready, *self._forks.values()]:
            if not fork.done():
                fork.set_exception(error)
        self._forks.clear()
        for pid in list(self._by_pid):
            self._on_exit(pid, -signal.SIGKILL)

    async def start_executor(
        self, kind: tuple[Any, ...], setup: dict[str, Any], prepared: Prepared
    ) -> Executor:
        """Start a new executor for the job and the environment that `kind` names.

        Raises
        ------
        OSError
            When the machine has no room for one more process, or the environment is too large.
        """
        await asyncio.shield(self._ready)
        async with self._fork_limit:
            return await self._fork(kind, setup, prepared)

    async def _fork(
        self, kind: tuple[Any, ...], setup: dict[str, Any], prepared: Prepared
    ) -> Executor:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output_read, output_write = os.pipe()
        errors_read, errors_write = os.pipe()
        number = next(self._numbers)
        self._forks[number] = forked = asyncio.get_running_loop().create_future()
        request = {
            "op": "fork",
            "number": number,
            "variables": prepared.variables,
            "interpreter": prepared.interpreter,
            "setup": setup,
        }
        # The packet socket is full only when the forkserver is far behind: then wait for room.
        self._control.setblocking(True)
        try:
            socket.send_fds(
                self._control,
                [pickle.dumps(request)],
                [theirs.fileno(), output_write, errors_write],
            )
            self._control.setblocking(False)
            pid = await forked
        except BaseException:
            self._forks.pop(number, None)
            ours.close()
            os.close(output_read)
            os.close(errors_read)
            raise
        finally:
            self._control.setblocking(False)
            theirs.close()
            os.close(output_write)
            os.close(errors_write)
        executor = Executor(self, kind, pid)
        self._by_pid[pid] = executor
        streams = {output_read: "stdout", errors_read: "stderr"}
        executor.logs = self._logs.open(streams, kind[0], pid)
        await executor.connect(ours)
        if pid in self._exits:
            self._by_pid[pid] = executor
            self._on_exit(pid, self._exits.pop(pid))
        return executor

    async def acquire(
        self,
        kind: tuple[Any, ...],
        setup: dict[str, Any],
        prepared: Prepared,
        *,
        fresh: bool = False,
    ) -> Executor:
        """Return an idle executor of that kind, or a new one; `fresh` insists on a new one."""
        if not fresh:
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index].kind == kind and self._idle[index].alive:
                    return self._idle.pop(index)
        return await self.start_executor(kind, setup, prepared)

    def release(self, executor: Executor, *, spent: bool) -> None:
        """Take an executor back after a call; a `spent` one, or one too many, leaves."""
        if not executor.alive:
            return
        if executor.kind[0] in self._ended_jobs:
            self.kill(executor)
        elif spent or self._closed:
            executor.leave(soon=False)
        else:
            self._idle.append(executor)
            if len(self._idle) > self._max_idle:
                self._idle.pop(0).leave(soon=False)

    def forget(self, executor: Executor) -> None:
        """Strike out an executor whose process has ended."""
        if executor in self._idle:
            self._idle.remove(executor)
        self._on_end(executor)

    @property
    def pids(self) -> list[int]:
        """The processes of all executors."""
        return list(self._by_pid)

    @property
    def idle(self) -> list[Executor]:
        """The executors that run nothing."""
        return list(self._idle)

    def kill(self, executor: Executor) -> None:
        """Kill the process of an executor, if it still runs (the forkserver knows)."""
        if not executor.ended.done() and self._server.poll() is None:
            request = pickle.dumps({"op": "kill", "pid": executor.pid})
            self._control.setblocking(True)
            try:
                self._control.send(request)
            finally:
                self._control.setblocking(False)

    def end_job(self, job: str) -> list[Executor]:
        """Kill every executor of a job, and what is being forked for it when it is there.

        Return those that are being killed.
        """
        self._ended_jobs.add(job)
        executors = [each for each in self._by_pid.values() if each.kind[0] == job]
        for executor in executors:
            self.kill(executor)
        return executors

    def close(self) -> None:
        """Have the forkserver end with all executors, and wait until they are gone.

        Without giving the event loop a turn: the loop may be about to end, and whoever awaits anything
        then is cancelled.
        """
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.setblocking(True)
        with contextlib.suppress(OSError):  # it has died
            self._control.shutdown(socket.SHUT_WR)
            while packet := self._control.recv(MAX_PACKET_BYTES):
                self._on_packet(packet)
        self._control.close()
        self._server.wait()
        self._on_forkserver_death()
        for task in list(self._tasks):
            task.cancel()
