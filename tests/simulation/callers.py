"""Drivers with the product's own session: its object table, lease pools and channels to actors.

Only the outside of a process is a model: the Dask client, connections, files, and the user's program,
which never waits.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import virtual_time
from drivers import Actor, Driver, Held, actor_spec
from processes import CallConnection

from raycompat._caller import connections, put, scheduler_messages, send
from raycompat._caller.by_channel import Channel
from raycompat._caller.by_lease import LeasePool
from raycompat._caller.by_scheduler import SchedulerSender
from raycompat._caller.calls import Call
from raycompat._caller.generator import ObjectRefGenerator
from raycompat._caller.home import Home
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, PENDING, Entry
from raycompat._caller.sender import Sender
from raycompat._caller.session import Session
from raycompat._caller.setup import Setup
from raycompat._host import clock, segment
from raycompat._messages.actors import ActorBuilt, ActorState, KillActor
from raycompat._messages.groups import GroupReady
from raycompat._messages.jobs import ForgetCode
from raycompat._pickling.serialization import INLINE_LIMIT_BYTES
from raycompat._protocol import failures, ids
from raycompat._protocol.resource_set import LEASED, LeaseKind, ResourceSet
from raycompat._protocol.strategy import Strategy
from raycompat._protocol.values import InlineValue, SegmentLink
from raycompat.exceptions import OutOfDiskError

if TYPE_CHECKING:
    from world import World

#: The size of a value that goes to the object store.
_LARGE_BYTES = 1_000_000

#: Seconds that a driver waits for its leases when it leaves.
_RETURN_S = 1.0

#: Seconds that a program needs for the items of a generator.
_TAKE_S = 0.003

clock.monotonic = virtual_time.monotonic  # type: ignore[assignment]


# --- the outside of a process -------------------------------------------------------------------


@dataclass
class Block:
    """A pickled value, of which only the size and the references matter."""

    size: int
    refs: tuple[str, ...] = ()


class Place:
    """Where a process writes large values: the model of a `StorePlace`."""

    limit_bytes = 2**30
    directories = ("",)

    #: All places, by the names of their stores: the product's functions for files know only the name.
    by_store: dict[str, Place] = {}

    def __init__(self, world: World, host: str, writer: str) -> None:
        self.host, self.store = host, writer
        self._world, self._number = world, 0
        self.by_store[writer] = self

    def save(self, block: Block) -> InlineValue | SegmentLink:
        if block.size <= INLINE_LIMIT_BYTES:
            return InlineValue(b"value", block.refs)
        if any(node.store.is_full for node in self._world.nodes if node.store.host == self.host):
            raise OSError(errno.ENOSPC, "the store is full")
        self._number += 1
        path = f"{self.host}/{self.store}/{self._number}"
        self._world.segments[path] = self.store
        return SegmentLink(path, block.size, self.host, block.refs)

    def remove(self, path: str) -> None:
        self._world.segments.pop(path, None)

    def take(self, path: str) -> str:
        """Own the segment that another process has written."""
        if path not in self._world.segments:
            raise FileNotFoundError(2, "no such segment", path)
        self._world.segments[path] = self.store
        return path


def _home_at(node: Any, here: str) -> Home:
    """Return the home of a process on the host `here`, as `_caller.home.home_at`."""
    place = next(each for each in Place.by_store.values() if each.host == here)
    return Home(
        node["node_id"],
        node["address"],
        node["ip"],
        node["pid"],
        node["labels"],
        node["host"],
        cast("Any", place),
    )


async def _connect(session: Session, place: Any, party: Any) -> None:
    """Connect to a process, as `_caller.connections.connect`."""
    caller = cast("Client", session.client).caller
    await asyncio.sleep(caller.world.network.delay())
    serving = caller.world.sockets.get(place.socket)
    if session.closed:
        return
    if serving is None:
        party.connect_failed()
        return
    connection = CallConnection(caller.world.network, party, serving)
    caller.connections.append(connection)
    party.connected(connection, place.incarnation)


scheduler_messages.home_at = _home_at  # type: ignore[attr-defined]
connections.connect = connections.through_the_scheduler = _connect
segment.take = lambda path, store: Place.by_store[store].take(path)
segment.read = lambda path: b"value"


class Client:
    """The model of a Dask client: it has one stream, and the event loop is that of the simulation."""

    status = "running"

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.id = caller.client
        self.loop = SimpleNamespace(asyncio_loop=asyncio.get_running_loop())
        self._periodic_callbacks = {"scheduler-info": SimpleNamespace(stop=lambda: None)}
        self._stream_handlers: dict[str, Any] = {}
        self._reconnect: Any = None
        self.scheduler_comm = SimpleNamespace(interval=0, recent_message_log=None, send=self._send)

    def _send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.caller.connection.send(message)

    def sync(self, function: Any, *arguments: Any) -> Any:
        """Run a coroutine that does not wait."""
        coroutine = function(*arguments)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("the simulated program must not wait")

    def receive(self, message: dict[str, Any]) -> None:
        """Handle a message of the scheduler."""
        handler = self._stream_handlers.get(message.pop("op"))
        if handler is not None:
            handler(**message)


# --- what a driver holds ------------------------------------------------------------------------


@dataclass
class HeldRef(Held):
    """A reference of the program."""

    ref: ObjectRef[Any] | None = None
    #: The arguments of a call that are references.
    arguments: Sequence[Entry] = ()


@dataclass
class HeldStream(Held):
    """A generator of the program, which takes the items or leaves them."""

    items: ObjectRefGenerator[Any] | None = None
    num_taken: int = 0
    num_expected: int = 0


class Handle:
    """A handle of an actor, as `raycompat.actor.ActorHandle` keeps it."""

    def __init__(self, ref: ObjectRef[Any], channel: Channel) -> None:
        self.ref, self.channel = ref, channel

    def __del__(self) -> None:
        session = self.ref._session
        session.table.dropped.append(self.channel)
        session.wake()


@dataclass
class HeldActor(Actor):
    """An actor, and the handle of the program."""

    handle: Handle | None = None

    @property
    def state(self) -> str:
        assert self.handle is not None
        return self.handle.channel._report.state


def _drop(kept: object) -> None:
    """Drop what the function that calls this has kept."""


class Caller(Driver):
    """A driver with a session."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.connections: list[CallConnection] = []
        self.is_elsewhere = number % 3 == 0

    # --- the life of a driver -------------------------------------------------------------------

    def begin(self) -> None:
        node = (self.world.living_nodes() or [self.world.add_node({"CPU": 2.0})])[0]
        host = f"laptop-{self.number}" if self.is_elsewhere else node.store.host
        place = Place(self.world, host, f"driver-{self.number}")
        home = Home(
            f"{node.number:056x}",
            node.address,
            node.ip,
            node.number,
            {},
            node.store.host,
            cast("Any", place),
        )
        self.model = Client(self)
        setup = Setup(self.job, "n", home, "scheduler", True, host, uses_leases=True)
        self.session = Session(setup, cast("Any", self.model))
        self.session.table._report = lambda entry: None  # it would start a thread
        super().begin()

    def send(self, message: Any) -> None:
        self.session.send(message)

    def _on_message(self, message: dict[str, Any]) -> None:
        if self.is_gone:
            return
        operation, fields = message["op"], {k: v for k, v in message.items() if k != "op"}
        if operation == GroupReady.op:
            self._on_group_ready(GroupReady(**fields))
        elif operation == ActorBuilt.op:
            self._answer(fields["key"])
        elif operation == ActorState.op:
            self.world.note(f"{self.client} hears: {fields['key']} is {fields['state']}")
            if fields["state"] == "DEAD":
                self._answer(fields["key"], fields["error"])
        self.model.receive(message)

    def stop(self, *, stopped: bool) -> None:
        super().stop(stopped=stopped)
        for connection in self.connections:
            connection.hold(held=stopped)

    def leave(self) -> None:
        if not self.is_leaving and not self.is_gone:
            self.is_leaving = True
            self.world.background(self._leave())

    async def _leave(self) -> None:
        session = self.session
        session.return_leases()
        self.send(ForgetCode(self.function))
        session._flush()
        await asyncio.sleep(_RETURN_S)
        if self.is_gone:
            return
        session._flush()
        held, self.held = self.held, {}  # nothing reads the answers any more
        session._end_work()
        for entry in list(session.table.own.values()):
            assert isinstance(entry.value, SegmentLink)
            session.home.place.remove(entry.value.path)
        held.clear()
        self._end(keep=1_000_000)

    def _end(self, keep: int) -> None:
        if self.is_gone:
            return
        self.session.closed = True
        super()._end(keep)
        for connection in self.connections:
            connection.close()
        self.held.clear()
        self.home = self.session.home.address
        Place.by_store.pop(f"driver-{self.number}", None)

    # --- references -----------------------------------------------------------------------------

    def _hold(self, held: HeldRef, ref: ObjectRef[Any]) -> None:
        held.ref = ref
        self.held[held.key] = held
        entry, table = ref._entry, self.session.table

        def settled(entry: Entry) -> None:
            self._answer(held.key, entry.error if entry.state is FAILED else None)

        if not table.when_settled(entry, settled):
            settled(entry)

    def _answer(self, key: str, error: bytes | None = None) -> None:
        held = self.held.get(key)
        # After `kill`, a call that is on its way may still begin.
        is_killed = error is not None and "ray.kill" in failures.text_of(error)
        if error is not None and held is not None and held.kind == "call" and not is_killed:
            self.world.failed.add(key)
        if error is None and isinstance(held, HeldRef):
            for entry in held.arguments:
                if entry.state is FAILED:
                    self.world.errors.records.append(f"{key} has a value, and {entry.key} failed")
        super()._answer(key, error)

    def _release_if_due(self, held: Held) -> None:
        """Do nothing: the session releases keys."""

    def drop(self, held: Held) -> None:
        held.is_dropped = True
        self.held.pop(held.key, None)
        if isinstance(held, HeldRef):
            held.ref = None
        elif isinstance(held, HeldActor):
            held.handle = None
        elif isinstance(held, HeldStream):
            held.items = None

    def _refs(self, keys: list[str]) -> list[ObjectRef[Any]]:
        found = [self.held.get(key) for key in keys]
        return [each.ref for each in found if isinstance(each, HeldRef) and each.ref is not None]

    # --- calls ----------------------------------------------------------------------------------

    def submit(
        self,
        amounts: dict[str, float],
        does: dict[str, Any],
        *,
        deps: list[str],
        retries: int,
        strategy: Strategy,
    ) -> HeldRef:
        call = self._new_call("f", does, deps, retries)
        call.request = ResourceSet.from_amounts(amounts)
        call.strategy = strategy
        is_leased = call.request.units().keys() <= LEASED
        kind = LeaseKind.of(call.request) if is_leased else None
        return self._call(call, send.sender_of(self.session, call, lease_kind=kind), deps)

    def _new_call(self, name: str, does: dict[str, Any], deps: list[str], retries: int) -> Call:
        key = ids.call_key(name, ids.new_task_id())
        call = Call(key, self.function if name == "f" else name, name)
        call.retries = retries
        call.arguments = json.dumps({**does, "state": key}).encode()
        refs = self._refs(deps)
        call.dependencies = [ref._entry for ref in refs]
        call.holds = tuple(refs)
        if not refs:
            self.world.planned[key] = does["how"]
        return call

    def _call(self, call: Call, sender: Any, deps: list[str]) -> HeldRef:
        if call.retries >= 0:
            self.world.most_begun[call.key] = 1 + call.retries
        held = HeldRef(call.key, "call", arguments=call.dependencies)
        self._hold(held, send.call(self.session, call, sender))
        return held

    def generate(
        self,
        actor: Held | None,
        does: dict[str, Any],
        *,
        max_items: int | None,
        retries: int,
        is_taken: bool,
    ) -> None:
        """Call a generator, of an actor or of a function; take its items, or leave them."""
        call = self._new_call("f" if actor is None else "m", does, [], retries)
        self.world.planned.pop(call.key, None)
        call.num_returns, call.max_items = "streaming", max_items
        if isinstance(actor, HeldActor) and actor.handle is not None:
            sender: Sender = actor.handle.channel
            call.holds = (actor.handle,)
        else:
            call.request = ResourceSet.from_amounts({"CPU": 1.0})
            kind = LeaseKind.of(call.request)
            sender = send.sender_of(self.session, call, lease_kind=kind)
        if retries >= 0:
            self.world.most_begun[call.key] = 1 + retries
        held = HeldStream(call.key, "call", num_expected=does["items"])
        self.held[held.key] = held
        held.items = send.call(self.session, call, sender)
        if is_taken:
            self._take(held)
        else:
            held.is_answered = True  # it may wait for ever until somebody takes an item

    def _take(self, held: HeldStream) -> None:
        """Take the items of a generator that are there, and later the next ones."""
        if held.items is None or self.is_gone:
            return
        stream = held.items._stream
        while stream._ready:
            ref = stream.next()
            entry = ref._entry
            if entry.state is FAILED:
                self._answer(held.key, entry.error)
                return
            if ids.return_key(held.key, held.num_taken) != entry.key:
                self.world.errors.records.append(f"{entry.key} is item {held.num_taken}")
            held.num_taken += 1
        if not stream.is_exhausted():
            later = asyncio.get_running_loop().call_later
            if not self.session.table.when_settled(
                stream.next_entry(), lambda _: later(_TAKE_S, self._take, held)
            ):
                later(_TAKE_S, self._take, held)
            return
        if held.num_taken != held.num_expected:
            self.world.errors.records.append(f"{held.key} has yielded {held.num_taken} items")
        self._answer(held.key)

    def announce(
        self, amounts: dict[str, float], does: dict[str, Any], fate: str, retries: int
    ) -> None:
        """Make a call whose result another process needs, perhaps before it is ready."""
        does["size"] = _LARGE_BYTES if fate == "large" else 0
        does["how"] = "fails" if fate == "fails" else "returns"
        held = self.submit(amounts, does, deps=[], retries=retries, strategy="DEFAULT")
        if held.ref is not None:
            self.session.sharing.publish(held.ref._entry)

    def cancel(self, held: Held, *, force: bool) -> None:
        if isinstance(held, HeldRef) and held.ref is not None:
            held.is_cancelled = True
            by_channel = isinstance(held.ref._entry.channel, Channel)
            send.cancel(self.session, held.ref, force=force and not by_channel, recursive=False)

    def cancel_all(self) -> None:
        for call in list(self.session.calls.values()):
            if call.key in self.held:
                self.held[call.key].is_cancelled = True
            if call.actor is None:
                call.sender.cancel(call, force=False, recursive=False)

    def ask_for_lease(
        self, amounts: dict[str, float], calls: list[dict[str, Any]], strategy: Strategy
    ) -> None:
        """Make some calls, which a lease runs."""
        for does in calls:
            self.submit(
                {"CPU": amounts.get("CPU", 1.0)}, does, deps=[], retries=0, strategy=strategy
            )

    # --- actors ---------------------------------------------------------------------------------

    def make_actor(
        self,
        amounts: dict[str, float],
        keep: dict[str, float],
        does: dict[str, Any],
        *,
        name: str | None,
        detached: bool,
        max_restarts: int,
        strategy: Strategy,
    ) -> None:
        key = self._new_key("A", ids.ACTOR_ID_BYTES)
        call = Call(key, self.function, "A.__init__")
        call.request, call.keep = ResourceSet.from_amounts(amounts), ResourceSet.from_amounts(keep)
        call.strategy = strategy
        call.arguments = json.dumps({**does, "state": key}).encode()
        call.actor = actor_spec(name, detached=detached, max_restarts=max_restarts)
        if name is None:
            self._create(key, call, None)
        else:
            self.world.background(self._reserve(key, call, call.actor))

    def _create(self, key: str, spec: Any, name: str | None) -> None:
        ref = send.call(self.session, spec, self.session.by_scheduler)
        held = HeldActor(key, "actor", name=name)
        held.handle = Handle(ref, self.session.channel(key, in_order=True))
        self.held[key] = held

    def call_method(
        self, actor: Held, does: dict[str, Any], *, deps: list[str], retries: int
    ) -> None:
        """Call an actor."""
        if not isinstance(actor, HeldActor) or actor.handle is None:
            return
        call = self._new_call("m", does, deps, retries)
        self.world.planned.pop(call.key, None)  # it fails with its actor
        call.waits_for_restart = retries != 0
        call.holds = (*call.holds, actor.handle)
        self._call(call, actor.handle.channel, deps)

    def kill(self, actor: Actor, *, no_restart: bool) -> None:
        assert isinstance(actor, HeldActor)
        assert actor.handle is not None
        self.send(KillActor(actor.key, no_restart))
        if no_restart:
            actor.handle.channel.kill()

    def unwatch(self, actor: Actor) -> None:
        """Do nothing: a session watches an actor as long as it has a handle."""

    # --- values ---------------------------------------------------------------------------------

    def put(self, size: int) -> None:
        self._put(Block(_LARGE_BYTES if size else 10), ())

    def _put(self, block: Block, holds: tuple[Any, ...]) -> None:
        try:
            ref = put.put_block(self.session, cast("Any", block), holds)
        except OutOfDiskError:
            self.world.note(f"{self.client} has no room for {block.size} bytes")
            return
        self._hold(HeldRef(ref._key, "value"), ref)

    def promise(self, after_s: float) -> None:
        """Let the scheduler know the result of a call before it is ready."""
        for held in self.held.values():
            if isinstance(held, HeldRef) and held.ref is not None and not held.is_answered:
                self.session.sharing.publish(held.ref._entry)
                return

    def lend(self, key: str, borrower: Driver) -> None:
        """Pass a reference to another driver, as a program that sends it does."""
        refs = self._refs([key])
        if not refs:
            return
        sharing = self.session.sharing
        sharing.publish(refs[0]._entry)

        def send_it() -> None:
            if not borrower.is_gone:
                borrower.borrow(key, kept=refs)

        if not sharing.when_synced(send_it):
            send_it()

    def borrow(self, key: str, kept: object = None) -> None:
        if key in self.held:
            return
        sharing = self.session.sharing
        with self.session.lock:
            sharing.borrow(key)
            ref: ObjectRef[Any] = ObjectRef._from_key(key, self.session)
        self._hold(HeldRef(key, "value"), ref)
        sharing.when_synced(lambda: _drop(kept))  # its owner keeps the reference until then

    def pin(self, carrier: str, key: str) -> None:
        """Put a value that contains a reference."""
        refs = self._refs([key])
        if refs:
            block = Block(10, (self.session.sharing.publish(refs[0]._entry),))
            self._put(block, tuple(refs))

    # --- invariants -----------------------------------------------------------------------------

    def waits_here(self, key: str, waits: Callable[[str], bool]) -> bool:
        call = self.session.calls.get(key)
        held = self.held.get(key)
        if isinstance(held, HeldStream) and held.is_answered:  # nobody takes its items
            return True
        if call is None or isinstance(call.sender, SchedulerSender):
            return False
        if any(each.state is PENDING and waits(each.key) for each in call.dependencies):
            return True
        if isinstance(call.sender, LeasePool):
            return any(waits(lease) for lease in call.sender._asked)
        assert isinstance(call.sender, Channel)
        in_order = itertools.chain(call.sender._unanswered, call.sender._queue)
        earlier = itertools.takewhile(lambda each: each != key, in_order)
        return waits(call.sender.key) or any(waits(each) for each in earlier)

    def inventory(self) -> dict[str, Any]:
        """Return what is left in the session when nothing is held."""
        session = self.session
        session.table.collect_dropped()
        session.flush()
        return {
            "calls": [
                key
                for key, call in session.calls.items()
                if call.actor is None or not call.actor["detached"]
            ],
            "objects": session.table.entries,
            "own segments": session.table.own,
            "channels": session.channels,
            "leases": session.leases,
            "ending": session._scheduler_messages._ending,
            "when handled": session.sharing._when_handled,
            "values to give": session.sharing._to_give,
            "unwritten calls": session.unflushed,
            **{
                f"{name} of {kind}": getattr(pool, f"_{name}")
                for kind, pool in session._pools.items()
                for name in ("waiting", "leases", "idle", "asked", "failed")
            },
        }
