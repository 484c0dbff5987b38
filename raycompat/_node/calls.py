"""Granted calls of a node: tasks, leases and actors, from the grant to the end."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raycompat._messages.calls import CancelCall, CancelDirect, Credit, End, Freed, GrantCall
from raycompat._messages.executors import Answer, Failed, Interrupt, KillIfRunning, Run
from raycompat._node import accelerators, numbers
from raycompat._node.executor_pool import LEAVE_S, Executor, ExecutorDied
from raycompat._protocol import accelerator_kinds, failures
from raycompat._protocol.accelerator_kinds import GPU
from raycompat._protocol.call_spec import Grant

if TYPE_CHECKING:
    from raycompat._node.node import Node

logger = logging.getLogger(__name__)

#: Seconds for an executor to report which call it runs.
_ANSWER_S = 1.0


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


class Calls:
    """All granted calls of a node, by their keys."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.granted: dict[str, Running] = {}

    def grant(self, message: GrantCall) -> None:
        """Record the resources of a call, which Dask will start."""
        self.granted[message.grant["key"]] = Running(message.grant)

    def cancel(self, message: CancelCall) -> None:
        """Cancel a call, or fail it with the given error."""
        running = self.granted.get(message.key)
        if running is None:
            return
        running.cancelled = True
        running.failure = message.error
        if running.executor is None:
            return
        if message.force:
            self._node.pool.kill(running.executor)
        else:
            running.executor.send(Interrupt(message.key, message.recursive))

    def cancel_direct(self, message: CancelDirect) -> None:
        """End a call that was sent to an actor or a lease; by force, the executor too."""
        party, key = message.party, message.key
        holder = self._node.actors.by_key.get(party) or self.granted.get(party)
        executor = holder.executor if holder is not None else None
        if executor is None:
            return
        if message.force:
            self._node.pool.background(self._kill_if_running(executor, party, key))
        else:
            executor.send(Interrupt(key, message.recursive))

    async def _kill_if_running(self, executor: Executor, lease: str, key: str) -> None:
        question = f"{lease} {key}"
        asked = executor.call(question, KillIfRunning(lease, key, question))
        try:
            await asyncio.wait_for(asked, _ANSWER_S)
        except TimeoutError:  # user code holds the interpreter lock, so the call runs
            self._node.pool.kill(executor)
        except ExecutorDied as died:
            logger.debug("%s was ended by force: it ended %s", key, died)

    def credit(self, message: Credit) -> None:
        """Pass the acknowledgement of items on to a generator."""
        running = self.granted.get(message.key)
        if running is not None and running.executor is not None:
            running.executor.send(message)

    def end(self, message: End) -> None:
        """End a call that no process needs any more, or an actor that must die with an error."""
        key, error = message.key, message.error
        running = self.granted.get(key)
        if running is None:
            return
        running.ended = True
        actor = self._node.actors.by_key.get(key)
        if actor is not None:
            actor.error = error or actor.error
            if error is None:
                actor.executor.leave()
            elif message.gracefully:
                self._node.pool.end(actor.executor)
            else:
                self._node.pool.kill(actor.executor)
        elif running.executor is not None and running.grant["kind"] == "lease":
            self._node.leases.abandon(running, running.executor)
        elif running.executor is not None:
            self._node.pool.end(running.executor)
        if running.executor is None:
            self.drop(running)  # its Dask task may never start

    def drop(self, running: Running) -> None:
        """Forget a call, unless it has been granted again."""
        key = running.grant["key"]
        if self.granted.get(key) is running:
            del self.granted[key]
        if accelerator_kinds.any_in(running.grant["resources"]) and not running.is_dropped:
            self._node.pool.background(self._free_accelerators(running))
        running.is_dropped = True

    async def _free_accelerators(self, running: Running) -> None:
        """Free a call's accelerators when its process, which uses their memory, has ended.

        With ``max_calls=0`` the process stays, by the user's wish.
        """
        if running.process is not None and not self._node.pool.is_idle(running.process):
            await asyncio.wait([running.process.ended], timeout=LEAVE_S)
        self._node.numbers.give(running.numbers)
        self._node.tell(Freed(running.grant["key"]))

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
            socket=self._node.sockets.get(grant["key"], ""),
        )
        name = grant["actor"]["class_name"] if grant["actor"] else grant["name"]
        executor.logs.begin(name, grant["key"])
        return await executor.call(grant["key"], run)

    def _accelerators(self, running: Running) -> dict[str, list[str]]:
        """Return the ids of the accelerators of a call, by resource: the same for each of its tries."""
        if not running.numbers:
            running.numbers = self._node.numbers.take(running.grant["resources"])
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
