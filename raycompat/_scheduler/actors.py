"""The states of actors, from the reservation of a name to the end, and the reports to their callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from raycompat._messages.actors import (
    ActorAlive,
    ActorBuilt,
    ActorEnded,
    ActorName,
    ActorRestarting,
    FoundActor,
    FreeName,
    KillActor,
    RestartActor,
    UnwatchActor,
    WatchActor,
)
from raycompat._messages.calls import CancelCall, End
from raycompat._protocol import failures
from raycompat._protocol.call_spec import ActorSpec, CallSpec
from raycompat._protocol.resource_set import ResourceSet
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.call_table import group_of

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground

#: The scheduler client that holds the keys of detached actors, so that they outlive their drivers.
DETACHED = "raycompat-detached"


class Actors:
    """The actors of the cluster. Each has a call in `Calls`, which holds its resources."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._dask = ground.dask
        self._directory = ground.actors
        #: Hear of each actor that has died, with its error.
        self.on_death: list[Callable[[ActorRow, bytes], None]] = []

    @property
    def rows(self) -> dict[str, ActorRow]:
        """All actors in the directory, by key."""
        return self._directory.rows

    def internal_ids(self) -> set[str]:
        """Return the ids of the actors that raycompat's own code has made."""
        return {key.rpartition("-")[2] for key, row in self.rows.items() if row.is_internal}

    def client_left(self, client: str) -> None:
        """End the actors of a client that has left, and remove its reservations and watches.

        Called while Dask removes the client.
        """
        for key, call in self._ground.calls.of_owner(client).items():
            actor = call.spec["actor"]
            if actor is not None and not actor["detached"]:
                error = failures.actor_died(failures.OWNER_DIED, key)
                end = partial(self.end, key, error, gracefully=True)
                asyncio.get_running_loop().call_soon(end)
        for row in list(self.rows.values()):
            row.watchers.discard(client)
            if row.reserved_by == client:
                self.free_name(row.key)

    def has_detached(self, job: str) -> bool:
        """Return whether living actors of a job are detached from its driver."""
        return any(
            row.detached and row.state != "DEAD" and row.job == job for row in self.rows.values()
        )

    def job_ended(self, job: str) -> None:
        """Mark the actors of a job as dead, because its code is about to be removed.

        Names that its processes have reserved become free: they will not submit the actors.
        """
        for row in [row for row in self.rows.values() if row.job == job]:
            self.free_name(row.key)
            self.bury(row.key, failures.actor_died(failures.OWNER_DIED, row.key))

    def expect(self, client: str, spec: CallSpec) -> None:
        """Add an actor that a client has submitted."""
        actor = spec["actor"]
        assert actor is not None
        row = self._directory.rows.get(spec["key"])
        if row is None:
            row = _new_row(spec["key"], spec["job"], actor)
            self._directory.reserve(row)
        row.state, row.keep, row.runtime_env = "PENDING", spec["keep"], spec["runtime_env"]
        row.group = group_of(self._ground.calls.by_key.get(spec["key"]))
        self._ground.next_change.notify()

    async def reserve(self, client: str, key: str, job: str, actor: ActorSpec) -> FoundActor | None:
        """Reserve a name for an actor that `client` will submit, or return the actor that has it.

        Raises
        ------
        ValueError
            When the client has left.
        """
        if client not in self._dask.clients():
            raise ValueError(f"{client} has left the cluster")
        row = _new_row(key, job, actor)
        row.state, row.reserved_by = "RESERVED", client
        taken = self._directory.reserve(row)
        return None if taken is None else {"key": taken.key, "about": taken.about}

    async def find(self, name: str, namespace: str) -> FoundActor | None:
        """Return the key and description of the actor with that name; None if there is none."""
        while (row := self._directory.find(name, namespace)) is not None:
            if row.state != "RESERVED":
                return {"key": row.key, "about": row.about}
            await self._ground.next_change.wait()
        return None

    def of_name(self, name: str, namespace: str) -> ActorRow | None:
        """Return the actor with that name now; None if there is none."""
        return self._directory.find(name, namespace)

    def named(self, namespace: str | None) -> list[ActorName]:
        """List the names of living actors."""
        return self._directory.named(namespace)

    def free_name(self, key: str) -> None:
        """Remove the reservation of an actor that will not be submitted."""
        row = self._directory.rows.get(key)
        if row is not None and row.state == "RESERVED":
            self._directory.forget(key)
            self._ground.next_change.notify()

    def withdraw(self, client: str, message: FreeName) -> None:
        """Handle a client's message that it will not submit an actor."""
        self.free_name(message.key)

    def watch(self, client: str, message: WatchActor) -> None:
        """Report an actor's state to a client, now and after every change."""
        key = message.key
        row = self._directory.rows.get(key)
        if row is None:
            error = failures.actor_died("The actor is dead, and all references were removed.", key)
            row = ActorRow(key=key, job="", state="DEAD", error=error)
        row.watchers.add(client)
        self._report(client, row)

    def unwatch(self, client: str, message: UnwatchActor) -> None:
        """Stop the reports to a client."""
        row = self._directory.rows.get(message.key)
        if row is not None:
            row.watchers.discard(client)

    def _report(self, client: str, row: ActorRow) -> None:
        self._dask.notify_client(client, row.report())

    def _report_to_all(self, row: ActorRow) -> None:
        for client in row.watchers:
            self._report(client, row)

    def alive(self, worker: str, message: ActorAlive) -> None:
        """Handle a node's report that an actor's process accepts calls."""
        key = message.key
        call, row = self._ground.calls.by_key.get(key), self._directory.rows.get(key)
        if call is None or row is None or row.state == "DEAD":
            return
        row.state, row.address, row.pid, row.socket = "ALIVE", worker, message.pid, message.socket
        row.incarnation, row.host = message.incarnation, self._ground.nodes.info[worker]["host"]
        self._ground.watcher.actor_came(row, call)
        if call.holding is not None:
            keep = ResourceSet.from_units(call.spec["keep"])
            call.holding = self._ground.ledger.shrink(call.holding, keep)
        self._dask.notify_client(call.owner, ActorBuilt(key))
        self._report_to_all(row)
        self._ground.next_round.soon()

    def restarting(self, worker: str, message: ActorRestarting) -> None:
        """Handle a node's report that an actor's process has ended and another one starts."""
        self.restarts(message.key, message.error)

    def restarts(self, key: str, error: bytes) -> None:
        """Record that an actor's process has ended and that another one starts."""
        row = self._directory.rows.get(key)
        if row is not None and row.state != "DEAD":
            row.error = error
            if row.address is not None:  # otherwise it never ran: its callers still wait
                row.state = "RESTARTING"
            row.incarnation += 1
            self._report_to_all(row)

    def ended(self, worker: str, message: ActorEnded) -> None:
        """Handle a node's report that an actor has ended for good."""
        row = self._directory.rows.get(message.key)
        if row is not None and row.state != "DEAD" and message.pid:
            row.address, row.pid = worker, message.pid  # so that its output is found
        self.bury(message.key, message.error)

    def forget(self, key: str, owner: str) -> None:
        """Remove an actor that has no references any more."""
        text = failures.NO_REFERENCES
        if owner not in self._dask.clients():
            text = failures.OWNER_DIED
        error = failures.actor_died(text, key)
        self.bury(key, error)
        self._ground.owners.tell(owner, key, error, unknown=True)  # it may never have started
        if key in self.rows:
            self._ground.watcher.actor_left(self.rows[key])
        self._directory.forget(key)

    def kill(self, client: str, message: KillActor) -> None:
        """End an actor, or its process, on request of a client."""
        key = message.key
        row = self._directory.rows.get(key)
        if row is None or key not in self._ground.calls.by_key:
            return
        if row.state == "DEAD":  # its name may still be taken
            if message.no_restart:
                self._directory.bury(key, row.error or b"", frees_name=True)
            return
        if not message.no_restart:
            if row.address is not None:
                self._dask.notify_node(row.address, RestartActor(key))
            return
        self.end(key, failures.actor_killed(key), frees_name=True)

    def end(
        self, key: str, error: bytes, *, frees_name: bool = False, gracefully: bool = False
    ) -> None:
        """End an actor for good; `gracefully` lets its process run its exit handlers."""
        call = self._ground.calls.by_key.get(key)
        if call is None:
            return
        address = call.address
        if address is not None:  # first: the end of a detached actor's task lets its process leave
            self._dask.notify_node(address, End(key, error, gracefully))
        self.bury(key, error, frees_name=frees_name)
        if address is None:
            self._ground.owners.fail(key, error)

    def end_call(self, key: str, error: bytes) -> None:
        """Fail a call or an actor wherever it is; its process is killed, without a retry."""
        call = self._ground.calls.by_key.get(key)
        if call is None:  # the end of another call was the last that needed it
            return
        if call.spec["kind"] == "actor":
            self.end(key, error, frees_name=True)
        elif call.address is None:
            self._ground.owners.fail(key, error)
        else:
            message = CancelCall(key, force=True, recursive=False, error=error)
            self._dask.notify_node(call.address, message)

    def bury(self, key: str, error: bytes, *, frees_name: bool = False) -> None:
        """Mark an actor as dead with its error, and notify its watchers."""
        row = self._directory.rows.get(key)
        if row is None or row.state == "DEAD":
            return
        if row.state == "PENDING" and key in self._ground.calls.by_key:
            self._ground.watcher.actor_failed(row, self._ground.calls.by_key[key], error)
        self._directory.bury(key, error, frees_name=frees_name or row.detached)
        self._ground.watcher.actor_died(row, error)
        for hear in self.on_death:
            hear(row, error)
        self._report_to_all(row)
        if key in self._ground.calls.by_key:
            self._ground.owners.tell(self._ground.calls.by_key[key].owner, key, error)
        if row.detached and DETACHED in self._dask.clients():
            self._dask.release([key], DETACHED)


def _new_row(key: str, job: str, actor: ActorSpec) -> ActorRow:
    return ActorRow(
        key=key,
        job=job,
        name=actor["name"],
        namespace=actor["namespace"],
        detached=actor["detached"],
        about=actor["about"],
        class_name=actor["class_name"],
        is_internal=actor["is_internal"],
    )
