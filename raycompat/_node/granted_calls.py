"""Granted calls of a node: the record of each task, lease and actor, and its run in an executor."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from raycompat._messages.calls import Freed
from raycompat._messages.executors import Answer, Failed, Run
from raycompat._node import accelerators, numbers
from raycompat._node.executor_pool import LEAVE_S, Executor, ExecutorDied
from raycompat._node.ground import Ground
from raycompat._protocol import accelerator_kinds, failures
from raycompat._protocol.accelerator_kinds import GPU
from raycompat._protocol.call_spec import Grant


@dataclass(slots=True, eq=False)
class Running:
    """A call that was granted to this node."""

    grant: Grant
    executor: Executor | None = None
    cancelled: bool = False
    #: The pickled error of a cancelled call, if it is not `TaskCancelledError`.
    failure: bytes | None = None
    ended: bool = False
    is_dropped: bool = False
    #: The last process that ran it.
    process: Executor | None = None
    #: Its accelerators beside GPUs.
    numbers: numbers.Taken = field(default_factory=dict)

    @property
    def is_retryable(self) -> bool:
        """Whether it is retried if its process ends. For leases, their callers decide."""
        grant = self.grant
        if grant["actor"] is not None:
            return grant["actor"]["max_restarts"] != 0
        return grant["kind"] == "lease" or grant["retries"] != 0


class GrantedCalls:
    """All granted calls of a node, by their keys, from the grant to the end."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.by_key: dict[str, Running] = {}

    def drop(self, running: Running) -> None:
        """Forget a call, unless it has been granted again."""
        key = running.grant["key"]
        if self.by_key.get(key) is running:
            del self.by_key[key]
        if accelerator_kinds.any_in(running.grant["resources"]) and not running.is_dropped:
            self._ground.pool.background(self._free_accelerators(running))
        running.is_dropped = True

    async def _free_accelerators(self, running: Running) -> None:
        """Free a call's accelerators when its process, which uses their memory, has ended.

        With ``max_calls=0`` the process stays, by the user's wish.
        """
        if running.process is not None and not self._ground.pool.is_idle(running.process):
            await asyncio.wait([running.process.ended], timeout=LEAVE_S)
        self._ground.numbers.give(running.numbers)
        self._ground.tell(Freed(running.grant["key"]))

    async def run(
        self, executor: Executor, running: Running, payload: bytes, wires: list[Any]
    ) -> Answer:
        """Run a call, or build an actor, in an executor; return its outcome.

        Raises
        ------
        ExecutorDied
            When its process has ended.
        """
        grant = running.grant
        if running.cancelled or running.ended:
            return self.cancelled(running)
        run = Run(
            key=grant["key"],
            payload=payload,
            wires=wires,
            name=grant["name"],
            resources=grant["resources"],
            accelerators=self._accelerators(running),
            gpu_variable=accelerators.variable(),
            group=grant["group"],
            actor=grant["actor"],
            num_restarts=grant["num_restarts"],
            socket=self._ground.sockets.get(grant["key"], ""),
        )
        name = grant["actor"]["class_name"] if grant["actor"] else grant["name"]
        executor.logs.begin(name, grant["key"])
        return await executor.call(grant["key"], run)

    def _accelerators(self, running: Running) -> dict[str, list[str]]:
        """Return the ids of the accelerators of a call, by resource: the same for each of its tries."""
        if not running.numbers:
            running.numbers = self._ground.numbers.take(running.grant["resources"])
        gpus = accelerators.visible_ids(index for index, _ in running.grant["gpus"])
        return {**numbers.ids(running.numbers), **({GPU: gpus} if gpus else {})}

    def cancelled(self, running: Running) -> Failed:
        """Return the outcome of a call that was cancelled."""
        key = running.grant["key"]
        error = running.failure or failures.cancelled(key)
        return Failed(key, error, f"{running.grant['name']} was cancelled")

    def crashed(self, running: Running, died: ExecutorDied) -> Failed:
        """Return the outcome of a call whose process has ended."""
        if running.cancelled:
            return self.cancelled(running)
        key = running.grant["key"]
        if running.process is not None and running.process.ended_for_memory:
            text = running.process.ended_for_memory
            return Failed(key, failures.out_of_memory(text), text, may_retry=True)
        text = failures.crash_text(running.grant["name"], f"ended {died}")
        return Failed(key, failures.worker_crashed(text), text, may_retry=True)
