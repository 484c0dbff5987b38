"""Jobs on a node: the settings, environments and functions of their executors."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from dataclasses import replace
from typing import Any

from raycompat._dask import servers as dask_servers
from raycompat._dask import streams as adapter
from raycompat._dask import worker as dask_worker
from raycompat._messages.executor_setup import ExecutorSetup, Program
from raycompat._messages.executors import FunctionCode, NoFunction
from raycompat._messages.jobs import (
    BeginJob,
    ForgetFunctions,
    FunctionOf,
    JobEnded,
    NamesFramework,
    without_program,
)
from raycompat._node import accelerators
from raycompat._node.executor_pool import Executor
from raycompat._node.ground import Ground
from raycompat._node.runtime_env import Prepared, RuntimeEnvFailed
from raycompat._protocol import import_paths, runtime_env
from raycompat._protocol.call_spec import Grant
from raycompat._protocol.message import ask

logger = logging.getLogger(__name__)

#: raycompat's library that starts a process for each of many short pieces of work. Its import takes
#: 40 ms, more than the rest of the start of a process.
_TUNE = "raycompat.tune"


class Jobs:
    """All jobs of a node, and the functions that were fetched for them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        #: The settings of executors, by job.
        self.setups: dict[str, ExecutorSetup] = {}
        self._functions: dict[str, asyncio.Task[bytes]] = {}
        #: Gives the worker's messages their pause again; None while no job is open.
        self._take_back: adapter.TakeBack | None = None
        #: The executors to which each function was sent.
        self._receivers: dict[str, weakref.WeakSet[Executor]] = {}

    def begin(self, message: BeginJob) -> None:
        """Record a new driver, with the settings for the executors of its job."""
        job, setup = message.job, message.setup
        if self._take_back is None:
            self._take_back = dask_worker.send_batches_at_once(self._ground.worker)
        if setup["log_to_driver"]:
            self._ground.logs.follow(job)
        self.setups[job] = ExecutorSetup(
            job=job,
            namespace=message.namespace,
            settings=without_program(setup),
            program=Program.loads(setup["program"]),
            node_id=self._ground.id,
            node_address=self._ground.worker.address,
            node_pid=os.getpid(),
            node_paths=import_paths.of_this_process(),
            ip=self._ground.ip,
            labels=self._ground.labels,
            gpus_are_named=accelerators.preset() is not None,
            place=self._ground.store.place,
            scheduler=self._ground.worker.scheduler.address,
            security=dask_servers.client_security(self._ground.worker),
            logs=str(self._ground.logs.directory),
        )
        if runtime_env.is_eager(setup["runtime_env"]):
            self._ground.pool.background(self._prepare_early(job, setup["runtime_env"]))

    async def _prepare_early(self, job: str, environment: str) -> None:
        """Start the set-up of a job's environment before a call needs it."""
        try:
            await self._ground.envs.prepare(job, environment)
        except RuntimeEnvFailed as failed:
            logger.warning("The runtime environment of job %s: %s", job, failed)

    def note_framework(self, message: NamesFramework) -> None:
        """Fork the job's new executors with a framework imported from now on."""
        if message.job in self.setups:
            settings = self.setups[message.job].settings
            settings["frameworks"] = sorted({*settings["frameworks"], message.framework})

    def end(self, message: JobEnded) -> None:
        """Forget a job. If it has detached actors, only its driver and tasks end."""
        job = message.job
        self._ground.logs.unfollow(job)
        setup = self.setups.get(job)
        driver = _driver(setup) if setup is not None else None
        others = [each for name, each in self.setups.items() if name != job]
        is_there = any(_driver(each) == driver for each in others)
        if driver is not None and driver[0] == self._ground.store.place.host and not is_there:
            self._ground.store.clean_up_after(driver[1])
        if message.for_good:
            self._functions.clear()  # other jobs fetch their functions again
            self._receivers.clear()
            self.setups.pop(job, None)
            if not self.setups:
                self.take_back()
            self._ground.pool.background(self._clean_up_after(job, self._ground.pool.end_job(job)))

    def take_back(self) -> None:
        """Take back what was changed in the worker for the jobs."""
        if self._take_back is not None:
            self._take_back()
            self._take_back = None

    async def _clean_up_after(self, job: str, executors: list[Executor]) -> None:
        """Remove the files of a job when its executors, which use them, have ended."""
        await asyncio.gather(*(asyncio.shield(executor.ended) for executor in executors))
        self._ground.store.end_job(job)
        self._ground.envs.end_job(job)

    async def prepare(self, grant: Grant) -> tuple[ExecutorSetup, Prepared]:
        """Set up a call's environment; return the settings and the environment of its executor.

        Raises
        ------
        RuntimeEnvFailed
            When the set-up fails.
        """
        setup = self.setups[grant["job"]]
        try:
            prepared = await self._ground.envs.prepare(grant["job"], grant["runtime_env"])
        except RuntimeEnvFailed as failed:
            raise RuntimeEnvFailed(f"[Node {self._ground.ip}] {failed}") from failed
        complete = replace(
            setup,
            runtime_env=grant["runtime_env"],
            env_paths=prepared.paths,
            cwd=prepared.cwd or setup.program.cwd,
        )
        return complete, prepared

    @staticmethod
    def kind(grant: Grant) -> tuple[Any, ...]:
        """Return the kind of executor that a call needs: its job and runtime environment."""
        return (grant["job"], grant["runtime_env"])

    def forget_code(self, message: ForgetFunctions) -> None:
        """Forget functions and classes that no call needs any more, in the executors too."""
        gone: dict[Executor, list[str]] = {}
        for function in message.functions:
            self._functions.pop(function, None)
            for executor in self._receivers.pop(function, ()):
                gone.setdefault(executor, []).append(function)
        for executor, loaded in gone.items():
            executor.send(ForgetFunctions(loaded))

    async def send_function(self, executor: Executor, function: str) -> None:
        """Send an executor a function or class that its calls refer to."""
        fetching = self._functions.get(function)
        if fetching is None:
            fetching = asyncio.ensure_future(
                ask(self._ground.worker.scheduler, FunctionOf(function, job=executor.kind[0]))
            )
            self._functions[function] = fetching
        try:
            code = await fetching
            self._receivers.setdefault(function, weakref.WeakSet()).add(executor)
            executor.send(FunctionCode(function, code))
            if _TUNE.encode() in code:
                self._ground.pool.import_library(_TUNE)
        except (OSError, LookupError) as error:  # the next call fetches it again
            self._functions.pop(function, None)
            reason = f"The scheduler did not send it: {error}"
            executor.send(NoFunction(function, reason))


def _driver(setup: ExecutorSetup) -> tuple[str, int]:
    """Return the host and the pid of a job's driver."""
    return setup.settings["driver_host"], setup.settings["driver_pid"]
