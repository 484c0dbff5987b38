"""The executors of a node: forked on demand, kept for later calls, ended on request.

An executor belongs to one job and one runtime environment. It runs tasks one at a time, serves a
lease, or becomes an actor. Callers send the calls of leases and actors directly to it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from raycompat._messages import executors
from raycompat._messages.executor_setup import ExecutorSetup
from raycompat._messages.executors import (
    Answer,
    EndNow,
    Failed,
    Leave,
    Leaving,
    Owns,
    Spent,
    Unprepared,
    WhatIsOwned,
)
from raycompat._node.forkserver_client import ForkserverClient, ForkserverDied
from raycompat._node.logs import ExecutorLogs, Logs
from raycompat._node.process_use import ProcessUse
from raycompat._node.runtime_env import Prepared
from raycompat._protocol import failures, frames, settings
from raycompat._protocol.message import FromExecutor, ToExecutor
from raycompat._protocol.plain import Row

logger = logging.getLogger(__name__)

#: The number of ended executors that the state API still shows.
_MANY_ENDED = 200

#: Seconds between the end of a pulse and the start of the next one.
_PULSE_PAUSE_S = 0.5

#: Idle executors per CPU that are kept for a moment, and seconds until those that exceed the CPUs are
#: ended, as in Ray.
_MOST_IDLE, _IDLE_S = 2, 1.0

#: Ray's environment variables for the rank of executors; their defaults and maximum values.
_NICENESS: Final = ("RAY_worker_niceness", 15.0, 19.0)
_OOM_SCORE: Final = ("RAY_worker_oom_score_adjustment", 1000.0, 1000.0)

#: Seconds for an executor to begin with its exit handlers, before it is killed.
LEAVE_S = 5.0

#: Seconds for the exit handlers of an executor that no caller needs; `ray.shutdown` waits for them.
END_S = 5.0

#: Seconds for an executor to note that its time is over, before it is killed.
_GRACE_S = 1.0


class ExecutorDied(Exception):
    """An executor's process ended before it answered. The text describes how it ended."""

    def __init__(self, text: str, exit_code: int | None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def describe_exit(code: int | None) -> str:
    """Describe how a process ended, in words."""
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

    def __init__(
        self, pool: ExecutorPool, kind: tuple[Any, ...], pid: int, forkserver: ForkserverClient
    ) -> None:
        self.kind = kind
        self.pid = pid
        self._use = ProcessUse(pid)
        #: Its start and its end, in seconds since 1970.
        self.started, self.stopped = time.time(), 0.0
        #: The forkserver from which it was forked.
        self.forkserver = forkserver
        self.calls_begun = 0
        #: When its last call has ended, on the clock of the event loop.
        self.idle_since = 0.0
        self.exit_code: int | None = None
        #: Done when the process has been reaped.
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.alive = True
        #: Whether it must end: it gets no more calls.
        self.is_ending = False
        #: Whether other processes need this one for its calls, actors or objects, by its last report.
        self.owns = False
        #: Whether it can run no more calls, because user code has changed its process.
        self.is_spent = False
        #: Why it could not run calls, as it has said before its end.
        self._why_unprepared = ""
        #: Its id in reports of metrics; empty if it has reported none.
        self.measures_as = ""
        self._pool = pool
        #: The reason, if it was ended because the node lacked memory.
        self.ended_for_memory = ""
        self._outcomes: dict[str, asyncio.Future[Answer]] = {}
        self._writer: asyncio.StreamWriter | None = None
        #: Kills the process when its time is over.
        self._too_late: asyncio.TimerHandle | None = None
        self.logs: ExecutorLogs

    async def connect(self, connection: socket.socket) -> None:
        """Start reading the executor's messages."""
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        self._pool.background(self._read(reader, self._writer))
        self.ended.add_done_callback(lambda _: self._pool.background(self._read_rest(connection)))

    def send(self, message: ToExecutor) -> None:
        """Send one message; do nothing when the process has ended."""
        if self.alive and self._writer is not None:
            self._writer.write(frames.encode(message.to_frame()))

    async def call(self, key: str, message: ToExecutor) -> Answer:
        """Send `message` and return the executor's answer about `key`.

        Raises
        ------
        ExecutorDied
            When the process ends first.
        """
        outcome: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._outcomes[key] = outcome
        self.calls_begun += 1
        try:
            self.send(message)
        except Exception as error:  # it cannot be written
            del self._outcomes[key]
            return Failed.of(key, failures.unwritable("The call", frames.described(error)))
        if not self.alive:
            code = await asyncio.shield(self.ended)
            raise ExecutorDied(self.describe_end(code), code)
        try:
            return await outcome
        finally:
            self._outcomes.pop(key, None)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._take_messages(reader)
        finally:  # also when the event loop ends: `_read_rest` must not wait for what nobody reads
            self.alive = False
        writer.close()
        # The process is ending, or has closed its end by itself.
        self._pool.kill(self)
        code = await asyncio.shield(self.ended)
        self.logs.close()
        self._pool.forget(self)
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_exception(ExecutorDied(self.describe_end(code), code))

    async def _take_messages(self, reader: asyncio.StreamReader) -> None:
        while (content := await frames.read_async(reader)) is not None:
            if isinstance(content, frames.Unreadable):
                self._take_unreadable(content)
                continue
            try:
                message = executors.of_frame(content)
            except Exception as error:  # it has other fields
                self._take_unreadable(frames.Unreadable(content, frames.described(error)))
                continue
            try:
                self._take(message)
            except Exception:  # the next messages, answers among them, are still read
                logger.exception("raycompat could not handle an executor's %s", message.op)

    def _take(self, message: FromExecutor) -> None:
        match message:
            case Answer():
                try:
                    self.logs.drain()
                finally:  # the files of the output may be broken, and the caller waits
                    self._conclude(message)
            case Owns():
                self.owns = message.is_owner
            case Leaving():
                self._kill_after(executors.EXIT_WORK_S + _GRACE_S)
            case Spent():
                self.is_spent = True
            case Unprepared():
                self._why_unprepared = message.why
            case _:
                self._pool.on_message(self, message)

    def _conclude(self, answer: Answer) -> None:
        outcome = self._outcomes.get(answer.key)
        if outcome is not None and not outcome.done():
            outcome.set_result(answer)

    def _take_unreadable(self, message: frames.Unreadable) -> None:
        """Fail the call whose answer could not be read; all calls if it is not known whose it is."""
        logger.error("raycompat could not read a message of process %d: %s", self.pid, message.why)
        keys = [message.key] if executors.is_about_results(message.kind) else []
        error = failures.unreadable("The answer of the call", message.why)
        for key in keys if message.kind else list(self._outcomes):
            self._conclude(Failed.of(key, error))

    async def _read_rest(self, connection: socket.socket) -> None:
        """Let `_read` handle what the ended process has written, and then end.

        A child that the process has forked may still have its end of the connection open.
        """
        if not self.alive:
            return
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while self.alive and poll.poll(0):
            await asyncio.sleep(0)
        if self.alive and self._writer is not None:
            self._writer.transport.abort()

    def describe_end(self, code: int | None) -> str:
        """Describe how the process ended, in words."""
        how = describe_exit(code)
        return f"{how}: {self._why_unprepared}" if self._why_unprepared else how

    def describe(self) -> Row:
        """Describe this process for the state API; times are in seconds since 1970."""
        rss_bytes, cpu_percent = (None, None) if self.stopped else self._use.measure()
        return {
            "pid": self.pid,
            "rss_bytes": rss_bytes,
            "cpu_percent": cpu_percent,
            "job": self.kind[0],
            "started": self.started,
            "stopped": self.stopped,
            "exit_code": self.exit_code,
            "ended_for_memory": self.ended_for_memory,
        }

    def leave(self, *, soon: bool = True) -> None:
        """Let the process end: `soon`, with a kill after a wait; otherwise after its calls."""
        self.send(Leave(LEAVE_S - _GRACE_S if soon else None))
        if soon:
            self._kill_after(LEAVE_S)

    def end(self) -> None:
        """Let the process end at once: its call is interrupted, and its exit handlers run."""
        if self.is_ending:
            return
        self.is_ending = True
        if self._writer is None:  # it has run no user code
            self._pool.kill(self)
            return
        self.send(EndNow(END_S))
        self._kill_after(END_S + _GRACE_S)

    def _kill_after(self, delay_s: float) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
        timer = asyncio.get_running_loop().call_later(delay_s, self._pool.kill, self)
        self._too_late = timer
        self.ended.add_done_callback(lambda _: timer.cancel())


#: The variable that selects the Keras behind ``tf.keras``; TensorFlow reads it when it is imported.
_LEGACY_KERAS = "TF_USE_LEGACY_KERAS"


def _may_be_preloaded(prepared: Prepared) -> bool:
    """Return whether an executor can be forked with a framework imported, and then get its variables.

    It cannot if the environment has variables, because a framework may read them during the import.
    GPUs do not prevent it: the forkserver checks that the import has not opened a GPU's driver.
    """
    has_others = any(
        name != _LEGACY_KERAS and not name.startswith("RAYCOMPAT_") for name in prepared.variables
    )
    return prepared.interpreter is None and not has_others


class ExecutorPool:
    """All executors of a node, and the forkservers from which they are forked."""

    def __init__(
        self,
        num_cpus: int,
        on_message: Callable[[Executor, FromExecutor], None],
        on_end: Callable[[Executor], None],
        goes_on: Callable[[str], bool],
        logs: Logs,
    ) -> None:
        """`goes_on` returns whether a job still runs."""
        self.on_message = on_message
        self._on_end = on_end
        self._goes_on = goes_on
        self._logs = logs
        self._num_cpus = num_cpus
        #: How far executors rank below other processes: their niceness and their score for the kernel.
        self._rank = (int(settings.number(*_NICENESS)), int(settings.number(*_OOM_SCORE)))
        #: The executors without a call, those with the oldest last call first.
        self._idle: list[Executor] = []
        #: The number of executors that serve a task or a lease.
        self._num_working = 0
        self._is_trimming = False
        self._by_pid: dict[int, Executor] = {}
        self._exits: dict[int, int] = {}
        #: The most recent executors that have ended.
        self._ended: deque[Row] = deque(maxlen=_MANY_ENDED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._plain = ForkserverClient(self._on_exit, self._on_forkserver_death)
        #: Forkservers with frameworks imported, by the frameworks and the value of `_LEGACY_KERAS`.
        #: Each starts at the first use.
        self._with_frameworks: dict[tuple[str, ...], ForkserverClient] = {}
        #: raycompat's libraries that new executors have imported already.
        self._libraries: list[str] = []

        #: The process that sends this node's pulse, and its settings.
        self._pulse = -1
        self._pulse_about: dict[str, Any] = {}

    def background(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine of the pool as a task, unless the pool has been closed."""
        if self._closed:
            coroutine.close()
            return
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start(self) -> None:
        """Start the forkserver. Call it in the node's main thread."""
        self._plain.start()

    async def wait_until_ready(self) -> None:
        """Wait until executors can be forked.

        Raises
        ------
        ForkserverDied
            When the forkserver could not start.
        """
        await self._plain.wait_until_ready()

    def import_library(self, library: str) -> None:
        """Fork executors with one of raycompat's libraries imported from now on."""
        if library not in self._libraries:
            self._libraries.append(library)
            for forkserver in (self._plain, *self._with_frameworks.values()):
                forkserver.import_module(library)

    async def start_pulse(self, about: dict[str, Any]) -> None:
        """Start the process that reports that this node is alive; restart it whenever it ends."""
        self._pulse_about = about
        await self._plain.wait_until_ready()
        try:
            with open(os.devnull, "wb") as output, socket.socket() as nothing:
                descriptors = [nothing.fileno(), output.fileno(), 2]
                self._pulse = await self._plain.fork({"pulse": about}, descriptors)
        except OSError as error:
            logger.warning("The process that reports that this node is alive: %s", error)
            self.background(self._restart_pulse())
            return
        if self._pulse in self._exits:  # it has already ended
            self._on_exit(self._pulse, self._exits.pop(self._pulse))

    async def _restart_pulse(self) -> None:
        await asyncio.sleep(_PULSE_PAUSE_S)  # so that one that cannot run does not take a CPU
        await self.start_pulse(self._pulse_about)

    def _on_exit(self, pid: int, code: int) -> None:
        if pid == self._pulse and not self._closed:
            self.background(self._restart_pulse())
            return
        executor = self._by_pid.pop(pid, None)
        if executor is None:
            self._exits[pid] = code
        elif not executor.ended.done():
            executor.exit_code = code
            executor.ended.set_result(code)

    def _on_forkserver_death(self, forkserver: ForkserverClient) -> None:
        for executor in list(self._by_pid.values()):
            if executor.forkserver is forkserver:
                self._on_exit(executor.pid, -signal.SIGKILL)
        if forkserver.was_ready and not self._closed:
            forkserver.close()
            self._replace(forkserver)

    def _replace(self, forkserver: ForkserverClient) -> None:
        """Start another forkserver for one that was killed; one with frameworks at the next use."""
        logger.warning(
            "A process that raycompat forks executors from was killed; another replaces it."
        )
        if forkserver is self._plain:
            self._plain = ForkserverClient(
                self._on_exit, self._on_forkserver_death, preload=self._libraries
            )
            self._plain.start()
            self.background(self.start_pulse(self._pulse_about))
        for which, each in list(self._with_frameworks.items()):
            if each is forkserver:
                del self._with_frameworks[which]

    async def _find_forkserver(self, setup: ExecutorSetup, prepared: Prepared) -> ForkserverClient:
        """Return the forkserver for an executor: one with the frameworks that its code names."""
        frameworks = [
            each for each in setup.settings["frameworks"] if importlib.util.find_spec(each)
        ]
        if not frameworks or not _may_be_preloaded(prepared):
            await self._plain.wait_until_ready()
            return self._plain
        keras = {name: text for name, text in prepared.variables.items() if name == _LEGACY_KERAS}
        which = (*frameworks, *keras.values())
        forkserver = self._with_frameworks.get(which)
        if forkserver is None:
            forkserver = self._with_frameworks[which] = ForkserverClient(
                self._on_exit,
                self._on_forkserver_death,
                preload=[*frameworks, *self._libraries],
                variables=keras,
            )
            forkserver.start()
        try:
            await forkserver.wait_until_ready()
        except ForkserverDied:  # the log says why; executors then import it themselves
            await self._plain.wait_until_ready()
            return self._plain
        return forkserver

    async def start_executor(
        self, kind: tuple[Any, ...], setup: ExecutorSetup, prepared: Prepared
    ) -> Executor:
        """Start a new executor for the job and the environment that `kind` names.

        Raises
        ------
        OSError
            When the machine cannot start another process.
        ForkserverDied
            When the forkserver does not work.
        """
        try:
            return await self._start_executor(kind, setup, prepared)
        except ForkserverDied:  # it was killed just now: ask the next one
            return await self._start_executor(kind, setup, prepared)

    async def _start_executor(
        self, kind: tuple[Any, ...], setup: ExecutorSetup, prepared: Prepared
    ) -> Executor:
        forkserver = await self._find_forkserver(setup, prepared)
        async with forkserver.fork_limit:
            return await self._fork(forkserver, kind, setup, prepared)

    async def _fork(
        self,
        forkserver: ForkserverClient,
        kind: tuple[Any, ...],
        setup: ExecutorSetup,
        prepared: Prepared,
    ) -> Executor:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output_read, output_write = os.pipe()
        errors_read, errors_write = os.pipe()
        request = {
            "variables": prepared.variables,
            "rank": self._rank,
            "interpreter": prepared.interpreter,
            "setup": setup,
        }
        try:
            descriptors = [theirs.fileno(), output_write, errors_write]
            pid = await forkserver.fork(request, descriptors)
        except BaseException:
            ours.close()
            os.close(output_read)
            os.close(errors_read)
            raise
        finally:
            theirs.close()
            os.close(output_write)
            os.close(errors_write)
        executor = Executor(self, kind, pid, forkserver)
        self._by_pid[pid] = executor
        streams = {output_read: "stdout", errors_read: "stderr"}
        executor.logs = self._logs.open(streams, kind[0], pid)
        await executor.connect(ours)
        if pid in self._exits:
            self._on_exit(pid, self._exits.pop(pid))
        return executor

    async def acquire(
        self,
        kind: tuple[Any, ...],
        setup: ExecutorSetup,
        prepared: Prepared,
        *,
        fresh: bool = False,
    ) -> Executor:
        """Return an idle executor of this kind, or a new one; `fresh` requires a new one."""
        self._num_working += 1
        if not fresh:
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index].kind == kind and self._idle[index].alive:
                    return self._idle.pop(index)
        try:
            return await self.start_executor(kind, setup, prepared)
        except BaseException:
            self._num_working -= 1
            raise

    def release(self, executor: Executor, *, spent: bool) -> None:
        """Return an executor after a call; a `spent` one is ended, and after a while one too many."""
        self._num_working -= 1
        if not executor.alive or executor.is_ending:
            return
        if not self._goes_on(executor.kind[0]):
            self.kill(executor)
        elif spent or executor.is_spent or self._closed:
            executor.leave(soon=False)
        else:
            executor.idle_since = asyncio.get_running_loop().time()
            self._idle.append(executor)
            if len(self._idle) > _MOST_IDLE * self._num_cpus:
                self._idle.pop(0).leave(soon=False)
            self._trim()

    def is_idle(self, executor: Executor) -> bool:
        """Return whether an executor waits for another call."""
        return executor in self._idle

    def _trim(self) -> None:
        """End idle executors until there are no more than CPUs; those that work have theirs.

        More of them start when calls wait for others, and lend their CPUs.
        """
        if self._is_trimming or self._closed:
            return
        loop = asyncio.get_running_loop()
        while self._idle and len(self._idle) + self._num_working > self._num_cpus:
            left_s = self._idle[0].idle_since + _IDLE_S - loop.time()
            if left_s > 0:
                self._is_trimming = True
                loop.call_later(left_s, self._trim_again)
                return
            self._idle.pop(0).leave(soon=False)

    def _trim_again(self) -> None:
        self._is_trimming = False
        self._trim()

    def forget(self, executor: Executor) -> None:
        """Remove an executor whose process has ended."""
        executor.stopped = time.time()
        self._ended.append(executor.describe())
        if executor in self._idle:
            self._idle.remove(executor)
        self._on_end(executor)

    def ask_what_is_owned(self) -> None:
        """Ask all executors whether other processes need them; `Executor.owns` is soon up to date."""
        for executor in self._by_pid.values():
            executor.send(WhatIsOwned())

    @property
    def pids(self) -> list[int]:
        """The pids of all executors."""
        return list(self._by_pid)

    def describe(self) -> list[Row]:
        """Describe the executors that run, for the state API."""
        return [each.describe() for each in self._by_pid.values()]

    def describe_ended(self) -> list[Row]:
        """Describe the most recent executors that have ended."""
        return list(self._ended)

    @property
    def idle(self) -> list[Executor]:
        """The executors without a call."""
        return list(self._idle)

    def kill(self, executor: Executor) -> None:
        """Kill an executor's process; the forkserver checks whether it still runs."""
        executor.is_ending = True
        if executor in self._idle:
            self._idle.remove(executor)
        if not executor.ended.done():
            executor.forkserver.kill(executor.pid)

    def end(self, executor: Executor) -> None:
        """Let an executor end that is not needed any more."""
        executor.end()
        if executor in self._idle:
            self._idle.remove(executor)

    def end_job(self, job: str) -> list[Executor]:
        """Let every executor of a job end, and return them.

        An executor that is still being forked is killed when it is released.
        """
        executors = [each for each in self._by_pid.values() if each.kind[0] == job]
        for executor in executors:
            self.end(executor)
        return executors

    def close(self) -> None:
        """End the forkservers and all executors, and wait until they have ended.

        This blocks the event loop on purpose: the loop may be ending, and would cancel every coroutine
        that awaits.
        """
        self._closed = True
        for executor in list(self._by_pid.values()):
            self.end(executor)
        self._plain.kill(self._pulse)
        deadline = time.monotonic() + END_S + _GRACE_S
        for forkserver in (*self._with_frameworks.values(), self._plain):
            forkserver.close(deadline - time.monotonic())
        for task in list(self._tasks):
            task.cancel()
