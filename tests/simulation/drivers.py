"""Model drivers: they send the messages of real callers, and check that each request gets its answer."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from connections import Connection
from processes import CallConnection, call_message

from raycompat._dask import client as adapter
from raycompat._messages import direct
from raycompat._messages.actors import (
    ActorBuilt,
    ActorState,
    FreeName,
    KillActor,
    UnwatchActor,
    WatchActor,
)
from raycompat._messages.calls import (
    Cancel,
    CancelByLease,
    CancelDirect,
    Done,
    EndedByLease,
    Schedule,
    Submit,
)
from raycompat._messages.executor_setup import Program
from raycompat._messages.groups import AwaitGroup, CreateGroup, GroupReady, RemoveGroup
from raycompat._messages.jobs import BeginJob, Export, ForgetCode, HomeMoved
from raycompat._messages.leases import LeaseGranted, LeaseOver, Pressure
from raycompat._messages.objects import Adopt, Borrow, Fulfil, GiveAgain, Pin, Promise, ReleaseKeys
from raycompat._protocol import failures, ids
from raycompat._protocol.call_spec import ActorSpec, new_spec
from raycompat._protocol.message import handled
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.runtime_env import EMPTY
from raycompat._protocol.strategy import InGroup, OnNode, Strategy

if TYPE_CHECKING:
    from world import World

#: The settings of a program, which no process reads here.
_PROGRAM = Program(argv=[]).dumps()

#: Seconds after which a driver returns an idle lease.
_IDLE_S = 0.2


@dataclass
class Held:
    """A key that a driver holds in Dask: a call, an actor, a lease or a value."""

    key: str
    kind: Literal["call", "actor", "lease", "value"]
    #: Whether the driver has its answer, and the text of its error.
    is_answered: bool = False
    error: str = ""
    #: Whether the scheduler knows the key. Then Dask reports the end, and the key is held until then.
    is_unknown: bool = False
    is_over_in_dask: bool = False
    #: Whether the driver has dropped its reference.
    is_dropped: bool = False
    #: Whether this driver runs the call by a lease: then it keeps the reference until that has ended.
    runs_by_lease: bool = False
    is_released: bool = False
    is_cancelled: bool = False


@dataclass
class Actor(Held):
    """An actor, as its driver knows it."""

    name: str | None = None
    states: list[str] = field(default_factory=list)
    is_watched: bool = True

    @property
    def state(self) -> str:
        """The last state that was reported."""
        return self.states[-1] if self.states else "PENDING"


@dataclass
class Lease(Held):
    """A lease, as its driver knows it."""

    request: dict[str, int] = field(default_factory=dict)
    connection: CallConnection | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    unanswered: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_granted: bool = False
    is_over: bool = False
    is_returned: bool = False
    idle: asyncio.TimerHandle | None = None


@dataclass
class Group:
    """A placement group, as its driver knows it."""

    id: str
    is_awaited: bool = False
    is_ready: bool = False
    is_removed: bool = False


def actor_spec(name: str | None, *, detached: bool, max_restarts: int) -> ActorSpec:
    """Return the description of an actor."""
    return ActorSpec(
        name=name,
        namespace="n",
        detached=detached,
        about=b"",
        class_name="A",
        max_restarts=max_restarts,
        is_async=False,
        max_concurrency=0,
        groups={},
        is_internal=False,
    )


def _send_calls(lease: Lease, connection: CallConnection) -> None:
    """Send the calls that a lease has, in one write."""
    for call in lease.calls:
        lease.unanswered[call["key"]] = call
        connection.post(call_message(call["key"], call), now=False)
    connection.flush()
    lease.calls = []


class _AtLease:
    """The driver's end of the connection to an executor."""

    def __init__(self, driver: Driver, lease: Lease) -> None:
        self._driver, self._lease = driver, lease

    def on_message(self, message: direct.FromProcess) -> None:
        if not self._driver.is_gone:
            self._driver.on_message(self._lease, message)

    def disconnected(self, connection: CallConnection) -> None:
        self._lease.connection = None


class Driver:
    """One driver."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.client = f"DaskClient-{number}"
        self.job = f"{number:08x}"
        self.function = f"f-{number}"
        self.is_gone = self.is_leaving = False
        self.is_pressed = False
        self.held: dict[str, Held] = {}
        self.groups: dict[str, Group] = {}
        self.promised: dict[str, tuple[Any, ...] | None] = {}
        self.given: dict[str, tuple[Any, ...]] = {}
        self.home: str | None = None
        self._count = 0
        self._handlers = dict(
            [
                handled(Done, self._on_done),
                handled(ActorBuilt, lambda message: self._answer(message.key)),
                handled(ActorState, self._on_actor_state),
                handled(LeaseGranted, self._on_granted),
                handled(LeaseOver, self._on_over),
                handled(Pressure, self._on_pressure),
                handled(HomeMoved, self._on_home_moved),
                handled(GiveAgain, self._on_give_again),
                handled(GroupReady, self._on_group_ready),
                handled(CancelByLease, lambda message: None),
            ]
        )
        self.connection = Connection(world.network, self.client, self._on_message, self.die)

    # --- the life of a driver -------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the job."""
        nodes = self.world.living_nodes()
        self.home = nodes[0].address if nodes else None
        setup = {
            "program": _PROGRAM,
            "runtime_env": EMPTY,
            "driver_pid": self.number,
            "driver_host": "host-1",
            "home": self.home,
            "uses_leases": True,
            "as_ray": False,
            "ray_version": None,
            "old_forms": [],
            "frameworks": [],
            "log_to_driver": False,
            "submission": "",
        }
        self.send(BeginJob(self.job, "n", setup))  # type: ignore[arg-type]
        self.send(Export(self.job, self.function, b"code"))

    def send(self, message: Any) -> None:
        """Send a message to the scheduler."""
        if not self.is_gone:
            self.connection.send(message.to_wire())

    def leave(self) -> None:
        """Release everything and end."""
        if self.is_gone:
            return
        self.send(ForgetCode(self.function))
        self._end(keep=1_000_000)

    def stop(self, *, stopped: bool) -> None:
        """Read nothing for a while, as a process that is stopped."""
        if stopped:
            self.connection.hold()
        else:
            self.connection.release()

    def die(self, keep: int = 0) -> None:
        """End without a word; `keep` of the last messages still arrive."""
        self._end(keep)

    def _end(self, keep: int) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self.world.note(f"{self.client} ends")
        self.connection.hang_up(keep)
        for each in self.held.values():
            if isinstance(each, Lease) and each.connection is not None:
                each.connection.close()
        for path in [p for p, by in self.world.segments.items() if by == f"driver-{self.number}"]:
            if self.home is None or self.world.node_at(self.home) is None:
                self.world.segments.pop(path)

    def _new_key(self, name: str, num_bytes: int = ids.TASK_ID_BYTES) -> str:
        self._count += 1
        return f"{name}-{self.number:08x}{self._count:0{2 * num_bytes - 8}x}"

    def _on_message(self, message: dict[str, Any]) -> None:
        if self.is_gone:
            return
        operation = message.pop("op")
        if operation in self._handlers:
            self._handlers[operation](**message)
        elif operation == "key-in-memory":
            self._is_over_in_dask(message["key"])
            held = self.held.get(message["key"])
            if held is not None and held.kind == "value":
                self._answer(held.key)
        elif operation == "task-erred":
            self._is_over_in_dask(message["key"])
            held = self.held.get(message["key"])
            if held is not None and held.kind == "value":
                self._answer(held.key, adapter.error_bytes(message["exception"]))
        elif operation == "cancelled-keys":
            for key in message["keys"]:
                if key in self.held:
                    self.held[key].is_unknown = True
                    self._answer(key, failures.object_lost(key))

    # --- answers --------------------------------------------------------------------------------

    def _on_done(self, message: Done) -> None:
        held = self.held.get(message.key)
        if held is None:
            return
        if message.unknown:
            held.is_unknown = True
        if isinstance(held, Lease):
            self._lease_over(held)
        self._answer(message.key, message.error)

    def _answer(self, key: str, error: bytes | None = None) -> None:
        held = self.held.get(key)
        if held is None:
            return
        if not held.is_answered:
            held.is_answered = True
            held.error = failures.text_of(error) if error is not None else ""
            self.world.note(f"{self.client} has the answer to {key}: {held.error or 'a value'}")
            self.world.answered(held)
        self._release_if_due(held)

    def _is_over_in_dask(self, key: str) -> None:
        held = self.held.get(key)
        if held is not None:
            held.is_over_in_dask = True
            self._release_if_due(held)

    def _release_if_due(self, held: Held) -> None:
        """Release a dropped key, but not between the answer to a call and its end in Dask."""
        if not held.is_dropped or held.is_released or held.runs_by_lease:
            return
        is_ending = held.is_answered and not held.is_over_in_dask and not held.is_unknown
        if held.kind in ("call", "lease") and is_ending:
            return
        held.is_released = True
        self.send(ReleaseKeys([held.key]))
        self.held.pop(held.key, None)

    def drop(self, held: Held) -> None:
        """Drop the reference."""
        if not held.is_dropped:
            held.is_dropped = True
            self._release_if_due(held)

    # --- calls ----------------------------------------------------------------------------------

    def submit(
        self,
        amounts: dict[str, float],
        does: dict[str, Any],
        *,
        deps: list[str],
        retries: int,
        strategy: Strategy,
    ) -> Held:
        """Submit a call through the scheduler."""
        key = self._new_key("f")
        does["state"] = key
        held = self.held[key] = Held(key, "call")
        spec = new_spec(
            "task",
            key,
            "f",
            self.job,
            ResourceSet.from_amounts(amounts),
            deps=deps,
            payload=pickle.dumps(call_message(key, does)),
            strategy=strategy,
            retries=retries,
            function=self.function,
        )
        if not deps:  # otherwise it may fail because of them
            self.world.planned[key] = does["how"]
        self.send(Submit([spec]))
        return held

    def announce(
        self, amounts: dict[str, float], does: dict[str, Any], fate: str, retries: int
    ) -> None:
        """Announce a call that this driver runs by a lease, and report its end later."""
        key = self._new_key("f")
        does["state"] = key
        self.held[key] = Held(key, "call", runs_by_lease=True)
        spec = new_spec(
            "task",
            key,
            "f",
            self.job,
            ResourceSet.from_amounts(amounts),
            payload=pickle.dumps(call_message(key, does)),
            retries=retries,
            function=self.function,
            runs_by_lease=True,
        )
        self.world.planned[key] = does["how"]
        self.send(Submit([spec]))
        later = asyncio.get_running_loop().call_later
        later(does["lasts_s"], self._conclude, key, fate, retries)

    def _conclude(self, key: str, fate: str, retries: int) -> None:
        held = self.held.get(key)
        if held is None or self.is_gone:
            return
        held.runs_by_lease = False
        if held.is_answered:  # by an error of the scheduler
            pass
        elif fate == "given up":
            self.send(Schedule(key, retries))
        elif fate == "fails":
            error = failures.crashed("f", "failed as planned")
            self._answer(key, error)
            self.send(EndedByLease(key, None, self.home or "", error))
        else:
            self._answer(key)
            wire = self._write(1000 if fate == "large" else 0)
            self.send(EndedByLease(key, [wire], self.home or "", None))
        self._release_if_due(held)

    def _write(self, size: int) -> tuple[Any, ...]:
        node = self.world.node_at(self.home) if self.home is not None else None
        if size and node is not None and not node.store.is_full:
            return node.store.write(f"driver-{self.number}", size)
        return ("inline", b"value", ())

    def cancel(self, held: Held, *, force: bool) -> None:
        """Cancel a call."""
        held.is_cancelled = True
        self.send(Cancel(held.key, force, recursive=False))

    def cancel_all(self) -> None:
        """Cancel the calls that are left; here it is enough to drop their references."""

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
        """Make an actor; reserve its name first."""
        key = self._new_key("A", ids.ACTOR_ID_BYTES)
        does["state"] = key
        about = actor_spec(name, detached=detached, max_restarts=max_restarts)
        spec = new_spec(
            "actor",
            key,
            "A",
            self.job,
            ResourceSet.from_amounts(amounts),
            keep=ResourceSet.from_amounts(keep),
            payload=pickle.dumps(call_message(key, does)),
            strategy=strategy,
            actor=about,
            function=self.function,
        )
        if name is None:
            self._create(key, spec, None)
        else:
            self.world.background(self._reserve(key, spec, about))

    async def _reserve(self, key: str, spec: Any, about: ActorSpec) -> None:
        reserve = self.world.parts.actors.reserve
        try:
            taken = await self.world.ask(lambda: reserve(self.client, key, self.job, about))
        except ValueError:
            return  # the client has left
        if self.is_gone:
            return
        if taken is not None:
            self.world.note(f"{self.client} finds the name {about['name']} taken")
        elif self.world.chance(0.1):
            self.send(FreeName(key))
        else:
            self._create(key, spec, about["name"])

    def _create(self, key: str, spec: Any, name: str | None) -> None:
        self.held[key] = Actor(key, "actor", name=name)
        self.send(Submit([spec]))
        self.send(WatchActor(key))

    def _on_actor_state(self, message: ActorState) -> None:
        held = self.held.get(message.key)
        if isinstance(held, Actor):
            held.states.append(message.state)
            if message.state == "DEAD":
                self._answer(message.key, message.error)

    def kill(self, actor: Actor, *, no_restart: bool) -> None:
        """End an actor, or its process."""
        self.send(KillActor(actor.key, no_restart))

    def unwatch(self, actor: Actor) -> None:
        """Want no more reports."""
        actor.is_watched = False
        self.send(UnwatchActor(actor.key))

    # --- leases ---------------------------------------------------------------------------------

    def ask_for_lease(
        self, amounts: dict[str, float], calls: list[dict[str, Any]], strategy: Strategy
    ) -> None:
        """Ask for a lease for some calls."""
        key = self._new_key("lease")
        request = ResourceSet.from_amounts(amounts)
        for number, call in enumerate(calls):
            call["key"] = call["state"] = f"{key}-{number}"
        self.held[key] = Lease(key, "lease", request=request.units(), calls=calls)
        self.send(Submit([new_spec("lease", key, "f", self.job, request, strategy=strategy)]))

    def _on_granted(self, message: LeaseGranted) -> None:
        lease = self.held.get(message.key)
        if not isinstance(lease, Lease) or lease.is_over or lease.is_dropped:
            return
        lease.is_granted = True
        self._answer(lease.key)
        serving = self.world.sockets.get(message.socket)
        if serving is None:
            return  # it has ended: the report is on its way
        lease.connection = CallConnection(self.world.network, _AtLease(self, lease), serving)
        lease.connection.post((direct.HELLO, "host", self.client), now=True)
        _send_calls(lease, lease.connection)
        self._rest(lease)

    def on_message(self, lease: Lease, message: direct.FromProcess) -> None:
        """Handle an answer of an executor."""
        match message:
            case (direct.DONE | direct.FAILED, key, *_):
                lease.unanswered.pop(key, None)
            case (direct.RETURNED, calls):
                returned = [lease.unanswered.pop(key, None) for key, _ in calls]
                lease.calls += [call for call in returned if call is not None]
            case (direct.OPEN,) if lease.connection is not None:
                _send_calls(lease, lease.connection)
            case (direct.BYE,) if lease.connection is not None:
                lease.connection.close()
                lease.connection = None
        self._rest(lease)

    def _rest(self, lease: Lease) -> None:
        """Return a lease without calls, at once or after a while."""
        if lease.unanswered or lease.connection is None or lease.is_returned:
            return
        if self.is_pressed:
            self.return_lease(lease)
        elif lease.idle is None:
            loop = asyncio.get_running_loop()
            lease.idle = loop.call_later(_IDLE_S, self.return_lease, lease)

    def return_lease(self, lease: Lease) -> None:
        """Return a lease, or withdraw the request for it."""
        lease.idle = None
        if self.is_gone or lease.is_returned or lease.unanswered:
            return
        if lease.connection is not None:
            lease.is_returned = True
            lease.connection.post((direct.RETURN,), now=True)
        elif not lease.is_granted:
            self.drop(lease)

    def cancel_in(self, lease: Lease, *, force: bool) -> None:
        """Cancel the first call that was sent to a lease."""
        if lease.unanswered:
            key = next(iter(lease.unanswered))
            self.send(CancelDirect(lease.key, key, force, recursive=False))

    def _on_over(self, message: LeaseOver) -> None:
        lease = self.held.get(message.key)
        if isinstance(lease, Lease):
            self._lease_over(lease)
            self._answer(message.key)

    def _lease_over(self, lease: Lease) -> None:
        if lease.is_over:
            return
        lease.is_over, lease.connection = True, None
        self.drop(lease)
        lost = [*lease.unanswered.values(), *lease.calls]
        lease.unanswered.clear()
        lease.calls.clear()
        for call in lost[:2]:
            does = {"lasts_s": call["lasts_s"], "how": "returns"}
            self.submit({"CPU": 1.0}, does, deps=[], retries=0, strategy="DEFAULT")

    def _on_pressure(self, message: Pressure) -> None:
        self.is_pressed = message.is_on
        if message.is_on:
            for lease in [each for each in self.held.values() if isinstance(each, Lease)]:
                self._rest(lease)

    # --- placement groups -----------------------------------------------------------------------

    def make_group(
        self, bundles: list[dict[str, float]], strategy: str, *, waits: bool, detached: bool
    ) -> None:
        """Make a placement group."""
        group = f"{self.number:04x}{len(self.groups):032x}"
        self.groups[group] = Group(group)
        spec = {
            "group": group,
            "job": self.job,
            "actor": None,
            "name": "",
            "namespace": "n",
            "detached": detached,
            "strategy": strategy,
            "bundles": [ResourceSet.from_amounts(each).units() for each in bundles],
            "label_selectors": [],
        }
        self.send(CreateGroup(spec))  # type: ignore[arg-type]
        if waits:
            self.await_group(self.groups[group])

    def await_group(self, group: Group) -> None:
        """Ask when a group is ready."""
        group.is_awaited = True
        self.send(AwaitGroup(group.id))

    def _on_group_ready(self, message: GroupReady) -> None:
        group = self.groups.get(message.group)
        if group is not None:
            group.is_ready = True

    def remove_group(self, group: Group) -> None:
        """Remove a placement group."""
        group.is_removed = True
        self.send(RemoveGroup(group.id))

    # --- values ---------------------------------------------------------------------------------

    def put(self, size: int) -> None:
        """Give a value to the home node."""
        if self.home is None:
            return
        key = self._new_key("put")
        wire = self._write(size)
        self.held[key] = Held(key, "value")
        self.given[key] = wire
        self.send(Adopt(key, wire, self.home))

    def promise(self, after_s: float) -> None:
        """Promise a value and make it later."""
        key = self._new_key("put")
        self.held[key] = Held(key, "value")
        self.send(Promise(key))
        asyncio.get_running_loop().call_later(after_s, self._fulfil, key)

    def _fulfil(self, key: str) -> None:
        if self.is_gone:
            return
        self.given[key] = wire = self._write(0)
        self.send(Fulfil(key, wire, self.home or ""))

    def _on_give_again(self, message: GiveAgain) -> None:
        key = message.key
        wire = self.given.get(key)
        if wire is None or (wire[0] == "segment" and wire[1] not in self.world.segments):
            self.send(Fulfil(key, None, error=failures.object_lost(key)))
        else:
            again = ("inline", b"value", ()) if wire[0] == "segment" else wire
            if wire[0] == "segment":
                self.world.segments.pop(wire[1])
            self.send(Fulfil(key, again, self.home or ""))

    def lend(self, key: str, borrower: Driver) -> None:
        """Let another driver need a value too."""
        borrower.borrow(key)

    def borrow(self, key: str, kept: object = None) -> None:
        """Need the value of another driver too, which keeps something until then."""
        if key not in self.held:
            self.held[key] = Held(key, "value")
            self.send(Borrow(key))

    def pin(self, carrier: str, key: str) -> None:
        """Let a value refer to another one."""
        self.send(Pin(carrier, [key]))

    def _on_home_moved(self, message: HomeMoved) -> None:
        self.home = message.node["address"] if message.node is not None else None

    # --- invariants -----------------------------------------------------------------------------

    def waits_here(self, key: str, waits: Callable[[str], bool]) -> bool:
        """Return whether a call waits in this process; `waits` says it of any key."""
        return False

    def inventory(self) -> dict[str, Any]:
        """Return what is left when nothing is held."""
        return {"keys": self.held}

    # --- choices --------------------------------------------------------------------------------

    def living(self, *kinds: str) -> list[Held]:
        """Return what the driver holds and has not dropped."""
        return [each for each in self.held.values() if each.kind in kinds and not each.is_dropped]

    def strategy(self, number: int, group: int) -> Strategy:
        """Return the strategy of a call from two numbers of the plan."""
        groups = [each for each in self.groups.values() if not each.is_removed]
        if number == 0 and groups:
            return InGroup(groups[group % len(groups)].id)
        if number == 1:
            return "SPREAD"
        if number == 2:
            nodes = self.world.nodes
            return OnNode(f"{nodes[group % len(nodes)].number:056x}", is_soft=bool(group % 2))
        return "DEFAULT"
