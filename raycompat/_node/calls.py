"""The scheduler's messages about the calls of a node: grant, cancel, credit and end."""

from __future__ import annotations

import asyncio
import logging

from raycompat._messages.calls import CancelCall, CancelDirect, Credit, End, GrantCall
from raycompat._messages.executors import Interrupt, KillIfRunning
from raycompat._node.actors import Actors
from raycompat._node.executor_pool import Executor, ExecutorDied, ExecutorPool
from raycompat._node.granted_calls import GrantedCalls, Running
from raycompat._node.leases import Leases

logger = logging.getLogger(__name__)

#: Seconds for an executor to report which call it runs.
_ANSWER_S = 1.0


class Calls:
    """Handles the messages about granted calls."""

    def __init__(
        self, pool: ExecutorPool, granted: GrantedCalls, actors: Actors, leases: Leases
    ) -> None:
        self._pool = pool
        self._granted = granted
        self._actors = actors
        self._leases = leases

    def grant(self, message: GrantCall) -> None:
        """Record the resources of a call, which Dask will start."""
        self._granted.by_key[message.grant["key"]] = Running(message.grant)

    def cancel(self, message: CancelCall) -> None:
        """Cancel a call, or fail it with the given error."""
        running = self._granted.by_key.get(message.key)
        if running is None:
            return
        running.cancelled = True
        running.failure = message.error
        if running.executor is None:
            return
        if message.force:
            self._pool.kill(running.executor)
        else:
            running.executor.send(Interrupt(message.key, message.recursive))

    def cancel_direct(self, message: CancelDirect) -> None:
        """End a call that was sent to an actor or a lease; by force, the executor too."""
        party, key = message.party, message.key
        holder = self._actors.by_key.get(party) or self._granted.by_key.get(party)
        executor = holder.executor if holder is not None else None
        if executor is None:
            return
        if message.force:
            self._pool.background(self._kill_if_running(executor, party, key))
        else:
            executor.send(Interrupt(key, message.recursive))

    async def _kill_if_running(self, executor: Executor, lease: str, key: str) -> None:
        question = f"{lease} {key}"
        asked = executor.call(question, KillIfRunning(lease, key, question))
        try:
            await asyncio.wait_for(asked, _ANSWER_S)
        except TimeoutError:  # user code holds the interpreter lock, so the call runs
            self._pool.kill(executor)
        except ExecutorDied as died:
            logger.debug("%s was ended by force: it ended %s", key, died)

    def credit(self, message: Credit) -> None:
        """Pass the acknowledgement of items on to a generator."""
        running = self._granted.by_key.get(message.key)
        if running is not None and running.executor is not None:
            running.executor.send(message)

    def end(self, message: End) -> None:
        """End a call that no process needs any more, or an actor that must die with an error."""
        key, error = message.key, message.error
        running = self._granted.by_key.get(key)
        if running is None:
            return
        running.ended = True
        actor = self._actors.by_key.get(key)
        if actor is not None:
            actor.error = error or actor.error
            if error is None:
                actor.executor.leave()
            elif message.gracefully:
                self._pool.end(actor.executor)
            else:
                self._pool.kill(actor.executor)
        elif running.executor is not None and running.grant["kind"] == "lease":
            self._leases.abandon(running, running.executor)
        elif running.executor is not None:
            self._pool.end(running.executor)
        if running.executor is None:
            self._granted.drop(running)  # its Dask task may never start
