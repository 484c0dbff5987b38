"""Jobs on a node: how executors of each are started, in which environment, and their functions."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._node import accelerators
from raycompat._node.executor_pool import Executor
from raycompat._node.runtime_env import Prepared, RuntimeEnvFailed
from raycompat._protocol import runtime_env
from raycompat._protocol.call_spec import Grant

if TYPE_CHECKING:
    from raycompat._node.node import Node

logger = logging.getLogger(__name__)


class Jobs:
    """See the module."""

    def __init__(self, node: Node) -> None:
        self._node = node
        #: What executors are to know, by job.
        self.setups: dict[str, dict[str, Any]] = {}
        self._functions: dict[str, asyncio.Task[bytes]] = {}

    def begin(self, job: str, namespace: str, setup: dict[str, Any]) -> None:
        """Hear of a driver: what executors are to be told that run its code."""
        if setup["log_to_driver"]:
            self._node.logs.follow(job)
        self.setups[job] = {
            **{name: value for name, value in setup.items() if name != "program"},
            **pickle.loads(setup["program"]),
            "job": job,
            "namespace": namespace,
            "node_id": self._node.id,
            "node_pid": os.getpid(),
            "ip": self._node.ip,
            "gpus_are_named": accelerators.preset() is not None,
            "labels": self._node.labels,
            "node_address": self._node.worker.address,
            "scheduler": self._node.worker.scheduler.address,
            "security": dask.client_security(self._node.worker),
            "place": self._node.store.place.describe(),
        }
        if runtime_env.is_eager(setup["runtime_env"]):
            self._node.pool.background(self._prepare_early(job, setup["runtime_env"]))

    async def _prepare_early(self, job: str, environment: str) -> None:
        """Begin to set a job's environment up, before a call needs it."""
        try:
            await self._node.envs.prepare(job, environment)
        except RuntimeEnvFailed as failed:
            logger.warning("The runtime environment of job %s: %s", job, failed)

    def note_tensorflow(self, job: str) -> None:
        """From now on the job's new executors have TensorFlow imported when they begin."""
        if job in self.setups:
            self.setups[job]["names_tensorflow"] = True

    def end(self, job: str, for_good: bool) -> None:
        """Forget a job; when it has detached actors its driver only is gone, and what Dask ends."""
        self._node.logs.unfollow(job)
        setup = self.setups.get(job)
        driver = (setup["driver_host"], setup["driver_pid"]) if setup is not None else None
        others = [each for name, each in self.setups.items() if name != job]
        is_there = any((each["driver_host"], each["driver_pid"]) == driver for each in others)
        if driver is not None and driver[0] == self._node.store.place.host and not is_there:
            self._node.store.clean_up_after(driver[1])
        if for_good:
            self._functions.clear()  # what others need is asked for again
            self.setups.pop(job, None)
            self._node.pool.background(self._clean_up_after(job, self._node.pool.end_job(job)))

    async def _clean_up_after(self, job: str, executors: list[Executor]) -> None:
        """Remove the files of a job when its executors, which run in them, have ended."""
        await asyncio.gather(*(asyncio.shield(executor.ended) for executor in executors))
        self._node.envs.end_job(job)

    async def prepare(self, grant: Grant) -> tuple[dict[str, Any], Prepared]:
        """Set a call's environment up; return what its executor is to be told and started with.

        Raises
        ------
        RuntimeEnvFailed
            When that is not possible.
        """
        setup = self.setups[grant["job"]]
        try:
            prepared = await self._node.envs.prepare(grant["job"], grant["runtime_env"])
        except RuntimeEnvFailed as failed:
            raise RuntimeEnvFailed(f"[Node {self._node.ip}] {failed}") from failed
        about = {
            "runtime_env": grant["runtime_env"],
            "env_paths": prepared.paths,
            "cwd": prepared.cwd or setup["cwd"],
        }
        return {**setup, **about}, prepared

    @staticmethod
    def kind(grant: Grant) -> tuple[Any, ...]:
        """Return what an executor must be made for: the job, and its runtime environment."""
        return (grant["job"], grant["runtime_env"])

    async def send_function(self, executor: Executor, function: str) -> None:
        """Send an executor a function or class that its calls refer to."""
        fetching = self._functions.get(function)
        if fetching is None:
            fetching = asyncio.ensure_future(
                self._node.worker.scheduler.raycompat_function(function=function)
            )
            self._functions[function] = fetching
        try:
            executor.send("function", function, await fetching)
        except OSError as error:  # asked for again at the next need
            self._functions.pop(function, None)
            executor.send("no-function", function, f"The scheduler did not send it: {error}")
