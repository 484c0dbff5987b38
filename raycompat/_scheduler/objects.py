"""Values in the scheduler: the node that stores each, the values that it pins, and lost values.

A value that a process has *put* becomes a Dask task that adopts it on the process's node; it cannot be
computed again. A *promise* is such a task that waits for its value. Either its owner has not made the
value yet, or the node that got it left before storing it, and the owner must send it again. Results of
calls are the calls' own tasks, which Dask runs again when all copies are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from raycompat._messages.objects import (
    Adopt,
    Borrow,
    Discard,
    Fulfil,
    GiveAgain,
    Load,
    Located,
    NotAdopted,
    ObjectFreed,
    Pick,
    Pin,
    Promise,
    Unload,
    WatchObject,
)
from raycompat._protocol import failures, task_bodies
from raycompat._protocol.grouped_dict import GroupedDict
from raycompat._protocol.values import CallFailed, Wire
from raycompat._scheduler.pins import Pins
from raycompat._scheduler.restarts import cause

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler
    from raycompat._scheduler.owners import Owners

#: The name under which tasks are kept for graphs of other clients.
LOADS = "raycompat-loads"

#: Seconds for which a task is kept after the release of its reference and after the last graph with it:
#: another graph may be on its way. And the most seconds for which it waits for the first one.
_LINGERS_S, _UNUSED_S = 1.0, 15.0


class _Put(NamedTuple):
    """A value that a client has given."""

    client: str
    #: The node that is to store it, and the value as it travels; None when a node has stored it.
    given: tuple[str, Wire] | None
    #: Whether the client keeps the value too, because it is small.
    is_kept: bool


class Objects:
    """The puts, promises and errors of values."""

    def __init__(self, dask: DaskScheduler, owners: Owners) -> None:
        self.pins = Pins(dask)
        #: The errors of values that could not be made, by key.
        self.errors = owners.errors
        #: Keys of promised values, with the clients that own them.
        self.promises: GroupedDict[str, str] = GroupedDict(lambda owner: owner)
        self._dask = dask
        self._tell_owner = owners.tell
        #: The values that clients have given to nodes, by key.
        self._puts: dict[str, _Put] = {}
        self._awaited: dict[str, asyncio.Event] = {}
        #: Lost values that no task or client needed: they fail if one comes to need them.
        self._unneeded: set[str] = set()
        self._graph_came = asyncio.Event()
        #: The clients that have made tasks for graphs of Dask, by key.
        self._lingering: dict[str, str] = {}
        #: When the last graph with such a task has come, by key.
        self._used: dict[str, float] = {}
        #: The clients that wait until objects are not needed any more, by key.
        self._watched: dict[str, str] = {}

    def borrow(self, client: str, message: Borrow) -> None:
        """Keep a value for one more client; or report to it that the value is lost."""
        key = message.key
        state = self._dask.state_of(key)
        if key in self._unneeded:
            self._dask.want([key], client)
            self._unneeded.discard(key)
            self._lose(key)
        elif state in ("forgotten", "released"):  # released: only what has failed refers to it
            self._tell_owner(client, key, failures.object_lost(key))
        else:
            self._dask.want([key], client)

    def adopt(self, client: str, message: Adopt) -> None:
        """Let a node store a value that a process of its host has written."""
        if self._dask.known(message.key):  # yielded again by a retried generator
            self._dask.want([message.key], client)
            self.discard(message.worker, message.wire)
        else:
            self.promise(client, Promise(message.key))
            self.fulfil(client, Fulfil(message.key, message.wire, message.worker))

    def promise(self, client: str, message: Promise) -> None:
        """Add a value that the client will make: a task that runs when the value arrives."""
        key = message.key
        self.promises[key] = client
        self._dask.add_task(client, key, task_bodies.adopt, ((),), (), parked=True)

    def fulfil(self, client: str, message: Fulfil) -> None:
        """Fulfil a promise with a value or an error."""
        key, wire = message.key, message.wire
        # Released: what needed the value has failed, and is still referred to.
        is_unneeded = self._dask.state_of(key) == "released"
        if wire is not None and (key not in self.promises or is_unneeded):
            self.discard(message.worker, wire)
            wire = None
        if key not in self.promises:
            return
        if wire is None:
            self.break_promise(key, message.error or failures.object_lost(key))
            return
        keeper = self.keeper(message.worker, [wire])
        if keeper is not None:
            del self.promises[key]
            self._puts[key] = _Put(client, (keeper, wire), is_kept=wire[0] == "inline")
            self._dask.fulfil(key, task_bodies.adopt, (wire,), keeper)
            self.pins.add(key, wire[-1])
        elif client in self._dask.clients():
            self._dask.notify_client(client, GiveAgain(key))
        else:
            self.break_promise(key, failures.owner_died(key))

    def keeper(self, worker: str, wires: Sequence[Any]) -> str | None:
        """Return the node that stores values: `worker`, or another one if it is paused or has left;
        None if none can.

        Segments are on the host of `worker`; small values are in their wires.
        """
        is_small = all(wire[0] != "segment" for wire in wires)
        if is_small and not self._dask.is_running(worker):
            worker = next(iter(self._dask.running_workers()), worker)
        return worker if worker in self._dask.workers() else None

    def not_adopted(self, worker: str, message: NotAdopted) -> None:
        """Record the error of a task that adopts a value, before it fails."""
        if self._dask.known(message.key):
            self.errors[message.key] = message.error

    def given_segments(self) -> Iterator[str]:
        """Iterate over the paths of the segments that no node has adopted yet."""
        wires = (put.given[1] for put in self._puts.values() if put.given is not None)
        return (wire[1] for wire in wires if wire[0] == "segment")

    def discard(self, worker: str, wire: Wire) -> None:
        """Ask a node to remove a value without references."""
        if worker in self._dask.workers():
            self._dask.notify_node(worker, Discard(wire))

    def _break_promises_of(self, client: str) -> None:
        """Fail the promises of a client that has left."""
        loop = asyncio.get_running_loop()
        for key in self.promises.members(client):
            loop.call_soon(self.break_promise, key, failures.owner_died(key))

    def break_promise(self, key: str, error: bytes) -> None:
        """Fail a promise that cannot be fulfilled."""
        if self.promises.pop(key, None) is not None:
            self.errors[key] = error
            self._dask.fail(key, CallFailed(error, "the value could not be made"))

    def pick(self, client: str, message: Pick) -> None:
        """Make one of several results of a call a separate value."""
        key, call, arguments = message.key, message.call, (message.index,)
        if self._dask.known(call):
            self._dask.add_task(client, key, task_bodies.pick, arguments, (call,), parked=False)
        else:
            self._tell_owner(client, key, failures.object_lost(key))

    def load(self, client: str, message: Load) -> None:
        """Add a task for Dask's tasks that returns the object itself, not its stored form."""
        key, source = message.key, message.source
        if self._dask.known(key):
            self._dask.want([key], client)
        elif self._dask.known(source):
            self._dask.add_task(client, key, task_bodies.load, (), (source,), parked=False)
        else:
            return
        self._dask.want([key], LOADS)
        self._lingering[key] = client

    def unload(self, client: str, message: Unload) -> None:
        """Release tasks of a client when graphs with them have come.

        A graph can come after the release of a reference in it, by the same client too: Dask prepares
        it in a thread. Nothing says whether one is on its way at all.
        """
        self._release_loads(client, message.keys, asyncio.get_running_loop().time())

    def _release_loads(self, client: str, keys: list[str], since: float) -> None:
        loop = asyncio.get_running_loop()
        mine = [key for key in keys if self._lingering.get(key) == client]
        released = [key for key in mine if loop.time() >= self._due(key, since)]
        for key in released:
            del self._lingering[key]
            self._used.pop(key, None)
        if released:
            self._dask.release(released, LOADS)
        if len(released) < len(mine):
            later = [key for key in mine if key in self._lingering]
            loop.call_later(_LINGERS_S / 2, self._release_loads, client, later, since)

    def _due(self, key: str, since: float) -> float:
        """Return when a task may go whose reference was released."""
        used = self._used.get(key)
        return since + _UNUSED_S if used is None else max(since, used) + _LINGERS_S

    async def store(self, client: str, key: str, source: str) -> None:
        """Make an object of the value of a Dask task, once Dask knows that task."""
        while client in self._dask.clients():
            if self._dask.known(source):
                self._dask.add_task(client, key, task_bodies.store, (), (source,), parked=False)
                return
            await self._graph_came.wait()

    def graph_came(self, tasks: Iterable[str], wanted: Iterable[str]) -> None:
        """Wake those who wait for a new Dask graph; note the tasks of references that it uses.

        Its `tasks` need some, and its client wants the results of some.
        """
        if self._lingering:
            now = asyncio.get_running_loop().time()
            for key in chain(wanted, self._dask.dependencies_of(tasks)):
                if key in self._lingering:
                    self._used[key] = now
        self._graph_came.set()
        self._graph_came = asyncio.Event()

    def client_left(self, client: str) -> None:
        """Drop what a client has promised, or made for graphs of Dask.

        Called while Dask removes the client.
        """
        self._break_promises_of(client)
        keys = [key for key, owner in self._lingering.items() if owner == client]
        self.unload(client, Unload(keys))

    def pin(self, client: str, message: Pin) -> None:
        """Keep the objects to which a value refers as long as the value."""
        if self._dask.known(message.carrier):
            self.pins.add(message.carrier, message.keys)

    def watch(self, client: str, message: WatchObject) -> None:
        """Report to a client when no process needs an object any more."""
        key = message.key
        self._watched[key] = client
        if not self._dask.known(key):
            self._report_freed(key)

    def _report_freed(self, key: str) -> None:
        self._dask.notify_client(self._watched.pop(key), ObjectFreed(key))

    def follow(self, key: str, start: str, finish: str) -> None:
        """Follow Dask: a value was stored, lost or forgotten. Called during the transition."""
        loop = asyncio.get_running_loop()
        if finish in ("memory", "erred", "forgotten") and key in self._awaited:
            self._awaited.pop(key).set()
        put = self._puts.get(key)
        if put is not None and finish == "memory":
            self._puts[key] = put._replace(given=None)
        elif put is not None and start in ("memory", "processing"):
            loop.call_soon(self._lose, key)
        elif key in self._unneeded and (start, finish) == ("released", "waiting"):
            self._unneeded.discard(key)
            loop.call_soon(self._lose, key)
        if finish == "forgotten":
            if self.pins.carries(key):
                loop.call_soon(self.pins.drop, key)
            if key in self._watched:
                loop.call_soon(self._report_freed, key)
            self.promises.pop(key, None)
            self.errors.pop(key, None)
            self._unneeded.discard(key)
            self._puts.pop(key, None)
            if put is not None and put.given is not None:
                loop.call_soon(self.discard, *put.given)

    def _lose(self, key: str) -> None:
        """Request a lost put again from its client, or fail it; not before it is needed."""
        state = self._dask.state_of(key)
        if key not in self._puts or state in ("memory", "erred", "forgotten"):
            return
        if not self._dask.is_needed(key):
            self._unneeded.add(key)
            return
        put = self._puts.pop(key)
        if put.given is not None or (put.is_kept and put.client in self._dask.clients()):
            self.promises[key] = put.client
            self._dask.park(key)
            if put.given is not None:
                worker, wire = put.given
                self.fulfil(put.client, Fulfil(key, wire, worker))
            else:
                self._dask.notify_client(put.client, GiveAgain(key))
        else:
            self.errors[key] = error = failures.object_lost(key, cause())
            self._dask.fail(key, CallFailed(error, "the value was lost"))

    def node_left(self, worker: str) -> None:
        """Find other nodes for the values that a node was given and could not adopt before it left."""
        for key, put in self._puts.items():
            if put.given is not None and put.given[0] == worker:
                asyncio.get_running_loop().call_soon(self._lose_given_to, worker, key)

    def _lose_given_to(self, worker: str, key: str) -> None:
        put = self._puts.get(key)
        if put is not None and put.given is not None and put.given[0] == worker:
            self._lose(key)  # else Dask has told of the loss already

    async def locate(self, keys: list[str], besides: Sequence[str] = ()) -> Located:
        """Wait until values are made; return the nodes of each, or its error.

        Nodes in `besides` do not count, because the caller cannot reach them.
        """
        holders: dict[str, list[str]] = {}
        errors: dict[str, bytes] = {}
        for key in keys:
            while True:
                state = self._dask.state_of(key)
                all_who = self._dask.holders(key)
                who = [each for each in all_who if each not in besides]
                if who or state in ("erred", "forgotten"):
                    break
                await self._awaited.setdefault(key, asyncio.Event()).wait()
            if state == "memory":
                holders[key] = who
            elif state == "forgotten":
                errors[key] = failures.object_lost(key)
            else:
                blamed = self._dask.blamed_key(key) or key
                known = self.errors.get(blamed)
                text = self._dask.error_text(key)
                errors[key] = known or failures.internal(f"It failed in Dask: {text}")
        return {"holders": holders, "errors": errors}

    async def missing(self, lost_by: dict[str, list[str]]) -> None:
        """Handle a report that nodes do not have values that Dask expects there."""
        for key, holders in lost_by.items():
            for holder in holders:
                self._dask.release_replica(key, holder)
