"""Leases: executors that each serve one caller, whose calls this node does not see."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from raycompat._dask import worker as adapter
from raycompat._messages.executors import Abandon, BeginLease, LeaseServed
from raycompat._messages.leases import LeaseAlive, LeaseEnded, Revoke
from raycompat._node import accelerators
from raycompat._node.executor_pool import END_S, Executor, ExecutorDied
from raycompat._node.granted_calls import GrantedCalls, Running
from raycompat._node.ground import Ground
from raycompat._node.jobs import Jobs
from raycompat._node.runtime_env import RuntimeEnvFailed
from raycompat._protocol import failures


class Leases:
    """All leases of a node."""

    def __init__(self, ground: Ground, granted: GrantedCalls, jobs: Jobs) -> None:
        self._ground = ground
        self._granted = granted
        self._jobs = jobs

    async def run(self, key: str) -> Any:
        """Lease an executor to a caller until the lease ends (see `task_bodies.run_lease`)."""
        adapter.secede(self._ground.worker, key)
        running = self._granted.by_key.get(key)
        if running is None:
            return None  # revoked while Dask started it
        how, error = "", None
        try:
            if not running.cancelled and running.grant["job"] in self._jobs.setups:
                how, is_complete = await self._serve(running)
                if not is_complete:
                    text = "ended its lease with answers that its caller did not take"
                    error = failures.crashed(running.grant["name"], text)
                if how and running.failure is not None:
                    error = running.failure
                elif running.process is not None and running.process.ended_for_memory:
                    error = failures.out_of_memory(running.process.ended_for_memory)
        except RuntimeEnvFailed as failed:
            error = failures.runtime_env_failed(str(failed))
        finally:
            self._granted.drop(running)
        self._ground.tell(LeaseEnded(key, running.grant["owner"], how, error))
        return None

    async def _serve(self, running: Running) -> tuple[str, bool]:
        """Run a lease; return how the executor's process has ended ("" if it still runs).

        The second value is whether all answers of a living process were read.
        """
        grant = running.grant
        executor = await self._ground.pool.acquire(
            self._jobs.kind(grant), *await self._jobs.prepare(grant)
        )
        running.executor = running.process = executor
        self._ground.sockets[grant["key"]] = socket_name = f"raycompat-{uuid.uuid4().hex}"
        key = grant["key"]
        begin = BeginLease(
            key, socket_name, grant["resources"], accelerators.variable(), grant["group"]
        )
        try:
            if not running.cancelled and not running.ended:
                served = await executor.call(key, begin)
                return "", isinstance(served, LeaseServed) and served.is_complete
        except ExecutorDied as died:
            return f"ended {died}", True
        finally:
            running.executor = None
            del self._ground.sockets[grant["key"]]
            self._ground.pool.release(executor, spent=False)
        return "", True

    def begun(self, key: str) -> None:
        """Handle an executor's report that it accepts its caller's calls."""
        running, socket_name = self._granted.by_key.get(key), self._ground.sockets.get(key)
        if running is None or socket_name is None:
            return
        self._ground.tell(LeaseAlive(key, running.grant["owner"], socket_name))

    def revoke(self, message: Revoke) -> None:
        """End a lease after the running call, because others wait."""
        running = self._granted.by_key.get(message.key)
        if running is not None:
            running.cancelled = True
            if running.executor is not None:
                running.executor.send(message)

    def abandon(self, running: Running, executor: Executor) -> None:
        """End a lease whose caller has ended; end the executor too if it runs a call."""
        executor.send(Abandon(running.grant["key"], END_S))

        def look_again() -> None:
            if running.executor is executor:
                self._ground.pool.kill(executor)

        asyncio.get_running_loop().call_later(END_S + 1, look_again)
