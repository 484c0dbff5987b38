"""Actors: each has its own executor, which is restarted as long as restarts are left."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Any

from raycompat._dask import worker as adapter
from raycompat._messages.actors import ActorAlive, ActorEnded, ActorRestarting, RestartActor
from raycompat._messages.executors import Failed
from raycompat._node.executor_pool import Executor, ExecutorDied, describe_exit
from raycompat._node.granted_calls import GrantedCalls, Running
from raycompat._node.ground import Ground
from raycompat._node.jobs import Jobs
from raycompat._node.runtime_env import RuntimeEnvFailed
from raycompat._protocol import failures
from raycompat._protocol.values import to_wire


@dataclass(slots=True, eq=False)
class Actor:
    """An actor on this node: its process."""

    executor: Executor
    #: Why it died for good, or is about to: a pickled error for its callers.
    error: bytes | None = None
    #: Whether its process was killed by a caller, and restarts if restarts are left.
    is_killed: bool = False


class Actors:
    """All actors of a node, by their keys."""

    def __init__(self, ground: Ground, granted: GrantedCalls, jobs: Jobs) -> None:
        self._ground = ground
        self._granted = granted
        self._jobs = jobs
        self.by_key: dict[str, Actor] = {}

    async def run(self, key: str, payload: bytes, values: tuple[object, ...]) -> Any:
        """Run an actor until it ends for good; restart it before that (see `task_bodies.run_actor`)."""
        adapter.secede(self._ground.worker, key)
        running = self._granted.by_key.get(key)
        if running is None:
            return None  # revoked while Dask started it
        grant, spec = running.grant, running.grant["actor"]
        assert spec is not None
        try:
            while not running.ended and grant["job"] in self._jobs.setups:
                kind = (*self._jobs.kind(grant), key)
                executor = await self._ground.pool.start_executor(
                    kind, *await self._jobs.prepare(grant)
                )
                actor = Actor(executor)
                self._ground.sockets[key] = f"raycompat-{uuid.uuid4().hex}"
                error = await self._live(running, actor, payload, values)
                left = spec["max_restarts"] - grant["num_restarts"]
                again = actor.error is None and not running.ended
                if not again or (left <= 0 and spec["max_restarts"] >= 0):
                    self._ground.tell(ActorEnded(key, error, executor.pid))
                    return None
                grant["num_restarts"] += 1
                self._ground.tell(ActorRestarting(key, error))
        except RuntimeEnvFailed as failed:
            text = f"Could not create the actor because its runtime environment failed:\n{failed}"
            self._ground.tell(ActorEnded(key, failures.runtime_env_failed(text)))
        finally:
            self._granted.drop(running)
            self.by_key.pop(key, None)
            self._ground.sockets.pop(key, None)
        return None

    async def _live(
        self, running: Running, actor: Actor, payload: bytes, values: tuple[Any, ...]
    ) -> bytes:
        """Build the actor, wait until its process has ended, and return the pickled reason.

        If the actor ends for good, the reason is also stored as its error.
        """
        key, executor = running.grant["key"], actor.executor
        running.executor = running.process = executor
        self.by_key[key] = actor
        try:
            outcome = await self._granted.run(
                executor, running, payload, [to_wire(value) for value in values]
            )
        except ExecutorDied as died:
            text = f"it ended in the constructor, {died}"
            return actor.error or self._why_it_died(running, actor, text)
        if isinstance(outcome, Failed):
            actor.error = outcome.error
            executor.leave()
            return actor.error
        socket_name, restarts = self._ground.sockets[key], running.grant["num_restarts"]
        self._ground.tell(ActorAlive(key, executor.pid, socket_name, incarnation=restarts))
        code = await asyncio.shield(executor.ended)
        return actor.error or self._why_it_died(running, actor, f"it ended {describe_exit(code)}.")

    def _why_it_died(self, running: Running, actor: Actor, how: str) -> bytes:
        key, spec = running.grant["key"], running.grant["actor"]
        assert spec is not None
        if running.ended:
            text = f"{failures.DEAD_BECAUSE}all references to it were removed."
            return failures.actor_died(text, key)
        if actor.is_killed:
            return failures.actor_killed(key)
        how = actor.executor.ended_for_memory or how
        return failures.actor_died(
            f"{failures.DEAD_BECAUSE}its worker process has died. Its process: {how}",
            key,
            class_name=spec["class_name"],
            name=spec["name"] or "",
            ray_namespace=spec["namespace"],
            pid=actor.executor.pid,
            node_ip_address=self._ground.ip,
        )

    def note_exit(self, key: str, error: bytes) -> None:
        """Record that an actor exits by itself; later callers get `error`."""
        actor = self.by_key.get(key)
        if actor is not None:
            actor.error = error

    def restart(self, message: RestartActor) -> None:
        """End an actor's process; it starts again if restarts are left."""
        actor = self.by_key.get(message.key)
        if actor is not None:
            actor.is_killed = True
            self._ground.pool.kill(actor.executor)
