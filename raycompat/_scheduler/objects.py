"""Values of the cluster as the scheduler sees them: who keeps each, what it keeps alive, who lost it.

A value that a process has *put* becomes a Dask task that adopts it on the process's node: it cannot be
made anew. A *promise* is such a task that waits for its value: its owner has yet to make it, or has
given it to a node that left before it kept it, and is asked to give it again. Results of calls are
the calls' own tasks, which Dask runs again when all copies are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask
from raycompat._protocol import entry, failures
from raycompat._protocol.grouped_dict import GroupedDict
from raycompat._protocol.operations import ToCaller, ToNode
from raycompat._protocol.values import CallFailed
from raycompat._scheduler.pins import Pins

if TYPE_CHECKING:
    from distributed import Scheduler


class Objects:
    """See the module."""

    def __init__(self, scheduler: Scheduler, tell_owner: Callable[[str, str, bytes], None]) -> None:
        self.pins = Pins(scheduler)
        #: Why values could not be made, by key.
        self.errors: dict[str, bytes] = {}
        #: Keys of values that their owners, clients, are still waiting for themselves.
        self.promises: GroupedDict[str, str] = GroupedDict(lambda owner: owner)
        self._scheduler = scheduler
        self._tell_owner = tell_owner
        #: Values that cannot be made anew; until a node has one: who gives it, to which, and its wire.
        self._given: dict[str, tuple[str, str, Any] | None] = {}
        self._awaited: dict[str, asyncio.Event] = {}
        self._graph_came = asyncio.Event()

    def borrow(self, client: str, key: str) -> None:
        """Keep a value for one client more; or tell it that the value is gone."""
        if dask.known(self._scheduler, key):
            self._scheduler.client_desires_keys([key], client)
        else:
            self._tell_owner(client, key, failures.object_lost(key))

    def adopt(self, client: str, key: str, wire: Any, worker: str) -> None:
        """Give a node a value that a process of its host has written."""
        if dask.known(self._scheduler, key):  # made again by a generator that was run again
            self._scheduler.client_desires_keys([key], client)
            self.discard(worker, wire)
        else:
            self.promise(client, key)
            self.fulfil(client, key, wire, worker)

    def promise(self, client: str, key: str, owner: str | None = None) -> None:
        """Make a value known that its owner is waiting for: a task that runs when it has come.

        The owner is the client that wants it, unless another is named: "" is the scheduler.
        """
        self.promises[key] = client if owner is None else owner
        dask.add_task(self._scheduler, client, key, entry.adopt, ((),), (), parked=True)

    def fulfil(
        self, client: str, key: str, wire: Any, worker: str, error: bytes | None = None
    ) -> None:
        """Keep a promise, or break it with an error."""
        if key not in self.promises:
            if wire is not None:
                self.discard(worker, wire)
            return
        if error is not None:
            self.break_promise(key, error)
            return
        keeper = self.keeper(worker, [wire])
        if keeper is not None:
            del self.promises[key]
            self._given[key] = (client, keeper, wire)
            dask.fulfil(self._scheduler, key, entry.adopt, (wire,), keeper)
            self.pins.add(key, wire[-1])
        elif client in self._scheduler.clients:
            dask.tell_client(self._scheduler, client, {"op": ToCaller.GIVE_AGAIN, "key": key})
        else:
            self.break_promise(key, failures.owner_died(key))

    def keeper(self, worker: str, wires: Sequence[Any]) -> str | None:
        """Return the node that is to keep values in place of `worker` if that is gone, if any can.

        Segments are on the host of `worker`; what is small is in the wire.
        """
        if worker not in self._scheduler.workers and all(wire[0] != "segment" for wire in wires):
            worker = next(iter(dask.running_workers(self._scheduler)), worker)
        return worker if worker in self._scheduler.workers else None

    def not_adopted(self, worker: str, key: str, error: bytes) -> None:
        """Hear from a node why the task that adopts a value is about to fail."""
        if dask.known(self._scheduler, key):
            self.errors[key] = error

    def given_segments(self) -> Iterator[str]:
        """Iterate over the paths of the segments that no node has adopted yet."""
        wires = (given[2] for given in self._given.values() if given is not None)
        return (wire[1] for wire in wires if wire[0] == "segment")

    def discard(self, worker: str, wire: Any) -> None:
        """Ask a node to remove a value that has no reference any more."""
        if worker in self._scheduler.workers:
            dask.tell_worker(self._scheduler, worker, {"op": ToNode.DISCARD, "wire": wire})

    def break_promises_of(self, client: str) -> None:
        """Fail what a client that is gone was waiting for; called in the middle of its removal."""
        loop = asyncio.get_running_loop()
        for key in self.promises.members(client):
            loop.call_soon(self.break_promise, key, failures.owner_died(key))

    def break_promise(self, key: str, error: bytes) -> None:
        """Fail a value that will not come."""
        if self.promises.pop(key, None) is not None:
            self.errors[key] = error
            dask.fail(self._scheduler, key, CallFailed(error, "the value could not be made"))

    def pick(self, client: str, key: str, call: str, index: int) -> None:
        """Make one of several results of a call a value of its own."""
        if dask.known(self._scheduler, call):
            dask.add_task(self._scheduler, client, key, entry.pick, (index,), (call,), parked=False)
        else:
            self._tell_owner(client, key, failures.object_lost(key))

    def load(self, client: str, key: str, source: str) -> None:
        """Make a task of Dask's own whose value is that of an object, not what is stored for it."""
        if dask.known(self._scheduler, key):
            self._scheduler.client_desires_keys([key], client)
        elif dask.known(self._scheduler, source):
            dask.add_task(self._scheduler, client, key, entry.load, (), (source,), parked=False)

    async def store(self, client: str, key: str, source: str) -> None:
        """Make an object of the value of a Dask task, once Dask knows of that."""
        while client in self._scheduler.clients:
            if dask.known(self._scheduler, source):
                dask.add_task(
                    self._scheduler, client, key, entry.store, (), (source,), parked=False
                )
                return
            await self._graph_came.wait()

    def graph_came(self) -> None:
        """Hear that Dask has taken a graph in."""
        self._graph_came.set()
        self._graph_came = asyncio.Event()

    def pin(self, client: str, carrier: str, keys: list[str]) -> None:
        """Keep what a value refers to as long as the value."""
        if dask.known(self._scheduler, carrier):
            self.pins.add(carrier, keys)

    def follow(self, key: str, start: str, finish: str) -> None:
        """Follow Dask: a value came, was lost, or is forgotten. Called in the middle of that."""
        loop = asyncio.get_running_loop()
        if finish in ("memory", "erred", "forgotten") and key in self._awaited:
            self._awaited.pop(key).set()
        if key in self._given and finish == "memory":
            self._given[key] = None
        elif key in self._given and start in ("memory", "processing"):
            loop.call_soon(self._lose, key)
        if finish == "forgotten":
            if self.pins.carries(key):
                loop.call_soon(self.pins.drop, key)
            self.promises.pop(key, None)
            self.errors.pop(key, None)
            given = self._given.pop(key, None)
            if given is not None:
                loop.call_soon(self.discard, *given[1:])

    def _lose(self, key: str) -> None:
        """Ask for, or fail, what cannot be made anew; it may be that nobody wants it any more."""
        state, _ = dask.locate(self._scheduler, key)
        if key not in self._given or state in ("memory", "erred", "forgotten"):
            return
        given = self._given.pop(key)
        if given is not None:
            client, worker, wire = given
            self.promises[key] = client
            dask.park(self._scheduler, key)
            self.fulfil(client, key, wire, worker)
        else:
            self.errors[key] = error = failures.object_lost(key)
            dask.fail(self._scheduler, key, CallFailed(error, "the value was lost"))

    async def locate(
        self, keys: list[str], besides: Sequence[str] = ()
    ) -> dict[str, dict[str, Any]]:
        """Return which nodes have values, once all are made, and the errors of those that are not.

        Nodes of `besides` do not count: whoever asks cannot reach them.
        """
        holders: dict[str, list[str]] = {}
        errors: dict[str, bytes] = {}
        for key in keys:
            while True:
                state, all_who = dask.locate(self._scheduler, key)
                who = [each for each in all_who if each not in besides]
                if who or state in ("erred", "forgotten"):
                    break
                await self._awaited.setdefault(key, asyncio.Event()).wait()
            if state == "memory":
                holders[key] = who
            elif state == "forgotten":
                errors[key] = failures.object_lost(key)
            else:
                blamed = dask.blamed_key(self._scheduler, key) or key
                known = self.errors.get(blamed)
                text = dask.error_text(self._scheduler, key)
                errors[key] = known or failures.internal(f"It failed in Dask: {text}")
        return {"holders": holders, "errors": errors}

    async def missing(self, lost_by: dict[str, list[str]]) -> None:
        """Hear that nodes did not give values that they should have."""
        for key, holders in lost_by.items():
            for holder in holders:
                dask.release_replica(self._scheduler, key, holder)
