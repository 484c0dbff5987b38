"""One simulated cluster: Dask's scheduler with raycompat's plugin, nodes and drivers, in one thread."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

from virtual_time import CLOCK  # first: Dask reads the clock when it is imported

# isort: split
import distributed
import distributed.scheduler
from connections import Connection, Network, Stream
from distributed.core import Status
from distributed.scheduler import TaskState
from drivers import Actor, Driver, Held
from nodes import Node

from raycompat._dask import pages as dask_pages
from raycompat._dask import scheduler as dask_scheduler
from raycompat._messages.calls import Blocked, Result, Tried, Unblocked
from raycompat._messages.direct import CallMessage
from raycompat._protocol import ids, task_bodies
from raycompat._protocol.strategy import InGroup
from raycompat._protocol.values import SegmentValue
from raycompat._scheduler.actors import DETACHED
from raycompat._scheduler.plugin import SchedulerPlugin

distributed.scheduler.BatchedSend = Stream  # type: ignore[misc]
dask_pages.publish_metrics = lambda collect: None

#: Seconds of virtual time in which all that can end has ended.
_SETTLE_S = 60.0

#: How often a history with a slow network gets so much time again.
_MANY_SETTLE = 4

#: Seconds after which what waited for a paused node has started.
_SOON_S = 1.0

#: Seconds after which an executor has heard that its lease was revoked, also over the slowest connections.
_REVOKED_S = 8.0

#: What a worker reports to Dask.
_METRICS = {
    "bandwidth": {"total": 1e8, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "managed_bytes": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
    "memory": 0,
    "cpu": 0,
    "time": 0.0,
    "event_loop_interval": 0.0,
    "task_counts": {},
    "transfer": {},
}


class Broken(AssertionError):
    """An invariant does not hold."""


class _Scheduler(distributed.Scheduler):
    """Dask's scheduler without a web server."""

    def start_http_server(self, *args: Any, **kwargs: Any) -> None:
        router = SimpleNamespace(rules=[])
        self.http_application = SimpleNamespace(applications=[], default_router=router)
        self.http_server = SimpleNamespace()

    def _setup_logging(self, logger: Any) -> None:
        """Keep no records of the log: their tracebacks would keep this cluster."""

    def coerce_address(self, addr: Any, resolve: bool = True) -> str:
        return str(addr)


class _Errors(logging.Handler):
    """Collects what the product logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record) if record.exc_info else record.getMessage()
        self.records.append(text)


class _Stored(distributed.SchedulerPlugin):
    """Notes the results that a node stores, or that nobody wants."""

    def __init__(self, told: set[str]) -> None:
        self._told = told

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
        if finish in ("memory", "erred", "forgotten"):
            self._told.discard(str(key))


def _is_small(values: Any) -> bool:
    """Return whether these are results that any node can store."""
    return bool(values) and all(wire[0] == "inline" and not wire[-1] for wire in values)


class World:
    """One cluster. Use it in a `VirtualLoop`."""

    def __init__(self, seed: str, *, validate: bool = False) -> None:
        self.seed = seed
        self.random = Random(f"{seed} world")
        self.network = Network(seed)
        self.history: list[str] = []
        #: The segments of all hosts with their writers, and those that nodes own.
        self.segments: dict[str, str] = {}
        ids._prefix, ids._counter = f"{self.random.getrandbits(128):032x}", itertools.count(1)
        self.kept: WeakValueDictionary[str, SegmentValue] = WeakValueDictionary()
        self.sockets: dict[str, Any] = {}
        #: When the node of each revoked lease has heard of it, and the calls that lend their CPU.
        self.revoked: dict[str, float] = {}
        self._lending: set[str] = set()
        #: The calls of which the owner has a small result, until Dask has it too.
        self.told: set[str] = set()
        #: The calls that have crashed once, and what each call was to do.
        self.seen: set[str] = set()
        self.planned: dict[str, str] = {}
        #: How often direct calls have begun, and how often they may; those that have failed.
        self.num_begun: Counter[str] = Counter()
        self.most_begun: dict[str, int] = {}
        self.failed: set[str] = set()
        #: The number of the call that each channel to an actor has begun last.
        self._last_begun: dict[Any, int] = {}
        self.nodes: list[Node] = []
        self.drivers: list[Driver] = []
        self.has_faults = False
        self._background: set[asyncio.Task[Any]] = set()
        self.errors = _Errors()
        self.num_steps = 0
        random.seed(f"{seed} dask")
        uuid.uuid4 = lambda: uuid.UUID(int=self.random.getrandbits(128))  # type: ignore[assignment]
        TaskState._run_id_iterator = itertools.count()
        dask_scheduler._order = itertools.count()
        self.scheduler = _Scheduler(dashboard=False, validate=validate, needs_workdir=False)
        self.scheduler.status = Status.running
        self.plugin = SchedulerPlugin()
        self.plugin.start(self.scheduler)
        self.scheduler.plugins[task_bodies.PLUGIN_NAME] = self.plugin
        self.scheduler.worker_plugins[task_bodies.PLUGIN_NAME] = b""
        self.scheduler.plugins["told"] = _Stored(self.told)
        self.parts = self.plugin.parts
        asyncio.get_running_loop().set_exception_handler(self._on_exception)

    def _on_exception(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Broken):
            raise error
        logging.getLogger("simulation").error("%s", context["message"], exc_info=error)

    def begins(self, party: str, call: CallMessage) -> None:
        """Check a call that begins in a lease or an actor."""
        if CLOCK.now - self.revoked.get(party, CLOCK.now) > _REVOKED_S:
            self.errors.records.append(f"{call.key} begins in {party}, which was revoked")
        self.num_begun[call.key] += 1
        most = self.most_begun.get(call.key)
        if most is not None and self.num_begun[call.key] > most:
            self.errors.records.append(f"{call.key} begins more often than its retries allow")
        if call.key in self.failed:
            self.errors.records.append(f"{call.key} begins in {party}, and has failed already")

    def begins_in_order(self, channel: Any, call: str) -> None:
        """Check that the calls of one caller begin in an actor in the order in which they were made."""
        number = int(ids.task_hex(call)[32:], 16)
        if number < self._last_begun.get(channel, 0):
            self.errors.records.append(f"{call} begins after a later call of the same caller")
        self._last_begun[channel] = number

    def runs(self, call: str) -> None:
        """Check that a call does not run whose owner has its result, which no node has lost."""
        if call in self.told:
            self.errors.records.append(f"{call} runs again, although its owner has its result")

    def note(self, text: str) -> None:
        """Write a line of the history."""
        self.history.append(f"{CLOCK.now:9.4f} {text}")

    def chance(self, share: float) -> bool:
        """Return True in this share of cases."""
        return self.random.random() < share

    def background(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine of the simulation."""
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def ask(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request to the scheduler over a separate connection; return its answer."""
        await asyncio.sleep(self.network.delay())
        answer = await request()
        await asyncio.sleep(self.network.delay())
        return answer

    # --- members --------------------------------------------------------------------------------

    def add_node(self, amounts: dict[str, float]) -> Node:
        """Start a node."""
        node = Node(self, len(self.nodes) + 1, amounts)
        self.nodes.append(node)
        node.connection.before_reading = self._before_reading(node.name)
        self.note(f"{node.name} joins with {amounts}")
        self.add_worker(node.connection, node.address, node.name, int(amounts["CPU"]), 2**30)
        node.announce()
        return node

    def add_worker(
        self, connection: Connection, address: str, name: str, num_threads: int, memory_limit: int
    ) -> None:
        """Let a worker of Dask join the scheduler."""
        self.background(
            self.scheduler.add_worker(
                connection,  # type: ignore[arg-type]
                address=address,
                status="running",
                server_id=name,
                nthreads=num_threads,
                name=name,
                resolve_address=False,
                now=0.0,
                resources={},
                memory_limit=memory_limit,
                metrics=_METRICS,
                services={},
                local_directory="",
                versions={},
                nanny="",
                extra={},
                stimulus_id="joins",
            )
        )

    def add_driver(self, kind: type[Driver] = Driver) -> Driver:
        """Start a driver."""
        driver = kind(self, len(self.drivers) + 1)
        self.drivers.append(driver)
        driver.connection.before_reading = self._before_reading(driver.client)
        self.background(self.scheduler.add_client(driver.connection, driver.client, {}))  # type: ignore[arg-type]
        driver.begin()
        return driver

    def _before_reading(self, sender: str) -> Callable[[dict[str, Any]], None]:
        return lambda message: self.before_message(sender, message)

    def before_message(self, sender: str, message: dict[str, Any]) -> None:
        """Check what holds before the scheduler reads a message, and write it into the history."""
        self.num_steps += 1
        self.check()
        about = message.get("key") or message.get("group") or ""
        if message["op"] == Blocked.op:
            self._lending.add(about)
        elif message["op"] in (Unblocked.op, Tried.op):
            self._lending.discard(about)
        elif message["op"] == Result.op and _is_small(message["values"]):
            self.told.add(about)
        elif message["op"] == "worker-status-change" and message["status"] == "running":
            asyncio.get_running_loop().call_later(_SOON_S, self._check_soon)
        if message["op"] == "raycompat-submit":
            about = ", ".join(each["key"] for each in message["calls"])
        self.note(
            f"the scheduler reads {message['op'].removeprefix('raycompat-')} {about} of {sender}"
        )

    def node_at(self, address: str) -> Node | None:
        """Return the living node at an address."""
        return next((n for n in self.nodes if n.address == address and not n.is_dead), None)

    def living_nodes(self) -> list[Node]:
        """Return the nodes that have not died."""
        return [each for each in self.nodes if not each.is_dead]

    def living_drivers(self) -> list[Driver]:
        """Return the drivers that have not ended."""
        return [each for each in self.drivers if not each.is_gone]

    # --- invariants -----------------------------------------------------------------------------

    def answered(self, held: Held) -> None:
        """Check an answer."""
        if self.has_faults or not held.error or held.is_cancelled:
            return
        how = self.planned.get(held.key)
        if held.kind == "call" and how == "returns" and "failed as planned" not in held.error:
            if "placement group" in held.error.lower() or "NodeAffinity" in held.error:
                return
            raise Broken(f"{held.key} has failed without a fault: {held.error}")

    def check(self) -> None:
        """Check what holds after each step."""
        if self.errors.records:
            raise Broken(f"The scheduler has logged an error: {self.errors.records[0]}")
        ledger, calls = self.parts.ground.ledger, self.parts.calls
        # Each holding has one owner.
        owners: Counter[int] = Counter()
        for call in calls.holding.values():
            if call.holding is not None:
                owners[id(call.holding)] += 1
        for lingering in calls._lingering.values():
            owners.update(map(id, lingering))
        for group in self.parts.groups.all():
            owners.update(id(each) for each in group.holdings if each is not None)
            if any(each not in ledger._held for each in group.holdings if each is not None):
                raise Broken(f"A bundle of the group {group.id} is on a node that has left")
        held = {id(each): each for each in ledger._held}
        for each, count in owners.items():
            if count > 1:
                raise Broken(f"{held.get(each)} has {count} owners")
        for each, holding in held.items():
            if each not in owners:
                raise Broken(f"No call or group owns {holding}")
        # Free and held resources add up.
        for node_id, capacity in ledger._nodes.items():
            used: Counter[str] = Counter()
            for holding, place in ledger._held.items():
                if place is capacity:
                    used.update(ledger._back(holding))
            for name, units in capacity.total.items():
                if used[name] + capacity.free[name] != units:
                    raise Broken(
                        f"{node_id}: {name} is {units}, and {used[name]} held and "
                        f"{capacity.free[name]} free"
                    )
                if capacity.free[name] < 0 and name != "CPU":
                    raise Broken(f"{node_id}: {name} was given twice")
        for key, call in calls.holding.items():
            if call.holding in ledger._lent and key not in self._lending:
                raise Broken(f"{key} does not wait, and its CPU is lent")
            if calls.by_key.get(key) is not call:
                raise Broken(f"{key} holds resources and is not known")
        for (_, name), key in self.parts.ground.actors._names.items():
            row = self.parts.ground.actors.rows.get(key)
            if row is None or row.name != name:
                raise Broken(f"The name {name} belongs to {key}, which does not exist")

        self._check_machines()

    def _check_soon(self) -> None:
        """Check that nothing waits which fits, once what is about to start has started."""
        if self.parts.ground.next_round.is_due:
            asyncio.get_running_loop().call_soon(self._check_soon)
            return
        try:
            self.check_nothing_waits_that_fits()
        except Broken as broken:  # an error in a callback ends nothing
            self.errors.records.append(str(broken))

    def _check_machines(self) -> None:
        """Check that no accelerator runs two calls, by the processes themselves."""
        for node in self.living_nodes():
            used: Counter[int] = Counter()
            for running in node.granted.by_key.values():
                if running.executor is not None and running.executor.alive:
                    for index, units in running.grant["gpus"]:
                        used[index] += units
            for index, units in used.items():
                if units > 10_000:
                    raise Broken(f"{node.name}: {units} units of the GPU {index} are used")

    async def settle(self) -> None:
        """Let everything end that ends by itself."""
        await asyncio.sleep(_SETTLE_S)
        self.check()

    async def check_quiet(self) -> None:
        """Check that all requests get their answers, and that nothing waits that fits."""
        for _ in range(_MANY_SETTLE):
            try:
                self._check_answers()
                break
            except Broken:  # a lease that comes late is asked for again
                await self.settle()
        self.check_nothing_waits_that_fits()
        self._check_removed_groups()
        self._check_answers()

    def check_nothing_waits_that_fits(self) -> None:
        """Check that no call and no group waits that fits, and no call of a removed group."""
        parts, running = self.parts, self.parts.ground.dask.running_workers()
        for line in parts.dispatcher.lines():
            if parts.placer.acquire(line.first, line.shape) is not None:
                raise Broken(f"{line.first} waits, but its {line.shape[1]} is free")
        for group in parts.groups.waiting():
            wish = group.wish()
            if parts.ground.ledger.reserve(
                wish.bundles, wish.strategy, only=running, beside=wish.beside
            ):
                raise Broken(f"The group {group.id} waits, but its bundles are free")

    def _check_removed_groups(self) -> None:
        parts = self.parts
        for key, call in parts.calls.by_key.items():
            strategy = call.strategy
            if isinstance(strategy, InGroup) and parts.groups.is_gone(strategy.group):
                if self.scheduler.tasks[key].state not in ("memory", "erred"):
                    raise Broken(f"{key} goes on, and its group was removed")

    def _check_answers(self) -> None:
        parts = self.parts
        in_line = {key for line in parts.dispatcher.lines() for key in line.keys}

        def waits(key: str) -> bool:
            if key in in_line or any(each.waits_here(key, waits) for each in self.living_drivers()):
                return True
            task = self.scheduler.tasks.get(key)
            return task is not None and any(
                waits(str(each.key))
                for each in task.dependencies
                if each.state not in ("memory", "erred")
            )

        for driver in self.living_drivers():
            for held in driver.held.values():
                if held.is_answered or held.is_dropped:
                    continue
                if waits(held.key):
                    continue
                if isinstance(held, Actor) and not held.is_watched:
                    continue
                raise Broken(f"{driver.client} has no answer to {held.key}")
            for actor in driver.held.values():
                if not isinstance(actor, Actor) or not actor.is_watched or actor.is_dropped:
                    continue
                row = parts.ground.actors.rows.get(actor.key)
                if row is not None and row.state != actor.state:
                    raise Broken(f"{actor.key} is {row.state}, its owner thinks {actor.state}")
            for group in driver.groups.values():
                row = parts.groups._rows.get(group.id)
                if group.is_awaited and not group.is_ready and (row is None or not row.is_waiting):
                    raise Broken(f"{driver.client} was not told of the group {group.id}")

    def check_callers(self) -> None:
        """Check that nothing is left in drivers that have dropped all references."""
        gc.collect()
        for driver in self.living_drivers():
            left = {name: found for name, found in driver.inventory().items() if found}
            if left:
                raise Broken(f"{driver.client} holds nothing, and something is left: {left}")

    def check_empty(self) -> None:
        """Check that nothing is left of drivers that have ended."""
        gc.collect()
        parts = self.parts
        left = {name: found for name, found in parts.inventory().items() if found}
        left |= {
            name: found
            for name, found in {
                "jobs": parts.jobs.open,
                "lines": [line.first for line in parts.dispatcher.lines()],
                "holdings": parts.ground.ledger._held,
                "lingering": parts.calls._lingering,
                "computed": parts.calls._computed,
                "by owner": parts.ground.calls._by_owner,
                "by group": parts.ground.calls._by_group,
                "holding": parts.calls.holding,
                "names": parts.ground.actors._names,
                "puts": parts.objects._puts,
                "awaited": parts.objects._awaited,
                "unneeded": parts.objects._unneeded,
                "lent": parts.ground.ledger._lent,
                "bundles": parts.ground.ledger._bundles,
                "pressed": parts.leases._pressed,
                "functions": parts.jobs.functions._functions,
                "calls of functions": parts.jobs.functions._num_calls,
                "of functions without caller": parts.jobs.functions._without_caller,
                "segments": self.segments,
                "detached": self.scheduler.clients.get(DETACHED)
                and self.scheduler.clients[DETACHED].wants_what,
            }.items()
            if found
        }
        for node in self.living_nodes():
            left |= {
                f"{name} of {node.name}": found
                for name, found in {
                    "calls": node.granted.by_key,
                    "actors": node.actors.by_key,
                    "sockets": node.sockets,
                    "jobs": node.jobs.setups,
                    "executors": node.pool.living,
                    "tasks": node.state.tasks,
                    "values": node.state.data,
                }.items()
                if found
            }
        if left:
            raise Broken(f"At rest something is left: {left}")

    def close(self) -> None:
        """End the parts of the scheduler, and forget the nodes: what runs their tasks refers to them."""
        for node in self.nodes:
            task_bodies.runners.pop(node, None)  # type: ignore[call-overload]
        self.parts.guest.stop()
        self.parts.liveness.stop()
        self.parts.close()
