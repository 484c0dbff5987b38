"""Leases: executors that each serve one caller, whose calls this node does not see."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from raycompat._dask import worker as adapter
from raycompat._messages.executors import Abandon, BeginLease, LeaseServed
from raycompat._messages.leases import LeaseAlive, LeaseEnded, Revoke
from raycompat._node import accelerators
from raycompat._node.calls import Running
from raycompat._node.executor_pool import END_S, Executor, ExecutorDied
from raycompat._node.runtime_env import RuntimeEnvFailed
from raycompat._protocol import failures

if TYPE_CHECKING:
    from raycompat._node.node import Node


class Leases:
    """All leases of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def run(self, key: str) -> Any:
        """Lease an executor to a caller until the lease ends (see `task_bodies.run_lease`)."""
        adapter.secede(self._node.worker, key)
        running = self._node.calls.granted.get(key)
        if running is None:
            return None  # revoked while Dask started it
        how, error = "", None
        try:
            if not running.cancelled and running.grant["job"] in self._node.jobs.setups:
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
            self._node.calls.drop(running)
        self._node.tell(LeaseEnded(key, running.grant["owner"], how, error))
        return None

    async def _serve(self, running: Running) -> tuple[str, bool]:
        """Run a lease; return how the executor's process has ended ("" if it still runs).

        The second value is whether all answers of a living process were read.
        """
        grant = running.grant
        executor = await self._node.pool.acquire(
            self._node.jobs.kind(grant), *await self._node.jobs.prepare(grant)
        )
        running.executor = running.process = executor
        self._node.sockets[grant["key"]] = socket_name = f"raycompat-{uuid.uuid4().hex}"
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
            del self._node.sockets[grant["key"]]
            self._node.pool.release(executor, spent=False)
        return "", True

    def begun(self, key: str) -> None:
        """Handle an executor's report that it accepts its caller's calls."""
        running, socket_name = self._node.calls.granted.get(key), self._node.sockets.get(key)
        if running is None or socket_name is None:
            return
        self._node.tell(LeaseAlive(key, running.grant["owner"], socket_name))

    def revoke(self, message: Revoke) -> None:
        """End a lease after the running call, because others wait."""
        running = self._node.calls.granted.get(message.key)
        if running is not None:
            running.cancelled = True
            if running.executor is not None:
                running.executor.send(message)

    def abandon(self, running: Running, executor: Executor) -> None:
        """End a lease whose caller has ended; end the executor too if it runs a call."""
        executor.send(Abandon(running.grant["key"], END_S))

        def look_again() -> None:
            if running.executor is executor:
                self._node.pool.kill(executor)

        asyncio.get_running_loop().call_later(END_S + 1, look_again)
