"""Tasks: calls of remote functions that Dask schedules one by one; executors run and retry them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raycompat._dask import worker as adapter
from raycompat._messages.calls import Result, Tried
from raycompat._messages.executors import Answer, Failed, Succeeded
from raycompat._node.executor_pool import ExecutorDied
from raycompat._node.granted_calls import GrantedCalls, Running
from raycompat._node.ground import Ground
from raycompat._node.jobs import Jobs
from raycompat._node.runtime_env import RuntimeEnvFailed
from raycompat._protocol import accelerator_kinds, failures
from raycompat._protocol.values import CallFailed, SegmentValue, SeveralValues, to_wire


class _Ended(Exception):
    """No process needs the call any more."""


class Tasks:
    """Runs the tasks of a node."""

    def __init__(
        self,
        ground: Ground,
        granted: GrantedCalls,
        jobs: Jobs,
        collect_garbage_soon: Callable[[], None],
    ) -> None:
        self._ground = ground
        self._granted = granted
        self._jobs = jobs
        self._collect_garbage_soon = collect_garbage_soon

    async def run(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Run a call in an executor; return what Dask stores (see `task_bodies.run_call`)."""
        adapter.secede(self._ground.worker, key)
        running = self._granted.by_key.get(key)
        if running is None:
            return None  # revoked while Dask started it
        results = running.grant["results"]
        try:
            wires = [to_wire(value) for value in values]
            if results is not None:  # its owner ran it by a lease
                return self._keep_results(key, results)
            outcome = await self._run_task(running, payload, wires)
        except _Ended:
            return None
        except CallFailed:
            self._collect_garbage_soon()
            raise
        finally:
            self._granted.drop(running)
        if isinstance(outcome, Failed) and any(isinstance(value, SegmentValue) for value in values):
            self._collect_garbage_soon()
        return self._finish(running, outcome)

    async def _run_task(self, running: Running, payload: bytes, wires: list[Any]) -> Answer:
        """Run a task until it succeeds, has no retries left, or is not needed any more."""
        grant = running.grant
        retries = grant["retries"]
        while True:
            if running.ended:
                raise _Ended
            if grant["job"] not in self._jobs.setups:
                return self._owner_died(grant["key"])
            if running.cancelled:
                return self._granted.cancelled(running)
            try:
                setup, prepared = await self._jobs.prepare(grant)
            except RuntimeEnvFailed as failed:
                text = str(failed)
                return Failed(grant["key"], failures.runtime_env_failed(text), text)
            executor = await self._ground.pool.acquire(
                self._jobs.kind(grant),
                setup,
                prepared,
                fresh=accelerator_kinds.any_in(grant["resources"]),
            )
            running.executor = running.process = executor
            try:
                outcome = await self._granted.run(executor, running, payload, wires)
                retry = isinstance(outcome, Failed) and outcome.may_retry
            except ExecutorDied as died:
                outcome, retry = self._granted.crashed(running, died), True
            finally:
                running.executor = None
                spent = 0 < grant["max_calls"] <= executor.calls_begun
                self._ground.pool.release(executor, spent=spent)
            if running.ended:
                raise _Ended
            if retry and grant["job"] not in self._jobs.setups:
                return self._owner_died(grant["key"])
            if running.cancelled or not retry or retries == 0:
                return outcome
            retries -= 1
            assert isinstance(outcome, Failed)
            why = failures.failure_of(outcome.error)
            self._ground.tell(Tried(grant["key"], retries, why))

    @staticmethod
    def _owner_died(key: str) -> Failed:
        """Return the outcome of a call whose job has ended: other jobs may refer to its result."""
        return Failed.of(key, failures.owner_died(key))

    def _finish(self, running: Running, outcome: Answer) -> Any:
        key, owner = running.grant["key"], running.grant["owner"]
        pid = running.process.pid if running.process is not None else None
        if isinstance(outcome, Failed):
            self._ground.tell(Result(key, owner, pid, error=outcome.error))
            raise CallFailed(outcome.error, outcome.text)
        assert isinstance(outcome, Succeeded)
        stored = self._keep(outcome.values)
        self._ground.tell(Result(key, owner, pid, outcome.values, phases=outcome.phases))
        return stored

    def _keep_results(self, key: str, wires: list[object]) -> object:
        try:
            return self._keep(wires)
        except FileNotFoundError as error:
            text = "the result of a leased call is lost, because its caller has ended"
            raise CallFailed(failures.owner_died(key), text) from error

    def _keep(self, wires: list[Any]) -> Any:
        """Store the results of a call; return the value for Dask."""
        stored = [self._ground.store.adopt(wire) for wire in wires]
        return stored[0] if len(stored) == 1 else SeveralValues(tuple(stored))
