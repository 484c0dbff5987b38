"""The scheduler plugin: what Dask's scheduler does for raycompat.

The road of a call here: `_submit` makes it a parked Dask task; Dask moves it to ``no-worker`` when
its dependencies are there (`transition`); `_dispatch` acquires its resources in the ledger, sends the
node a grant and lets the task go to it; when it leaves ``processing`` the resources are free again.
Everything here runs on the scheduler's event loop, so that nothing needs a lock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import distributed

from raycompat import _dask_adapter as dask
from raycompat._protocol import entry, failures
from raycompat._protocol.call_spec import CallSpec, Grant
from raycompat._protocol.resource_set import HEAD_RESOURCE, ResourceSet
from raycompat._protocol.strategy import InGroup, Strategy, from_wire
from raycompat._protocol.values import CallFailed
from raycompat._protocol.version import VERSION
from raycompat._scheduler.actors import DETACHED, Actors
from raycompat._scheduler.groups import Groups
from raycompat._scheduler.leases import Leases, Shape
from raycompat._scheduler.logs import Logs
from raycompat._scheduler.objects import Objects
from raycompat._scheduler.packages import Packages
from raycompat._scheduler.placement import Grant as Holding
from raycompat._scheduler.placement import Ledger
from raycompat._scheduler.placer import Placer
from raycompat._scheduler.relays import Relays
from raycompat._scheduler.shown import Shown

if TYPE_CHECKING:
    from distributed import Scheduler

logger = logging.getLogger(__name__)

#: Seconds that a request waits before its driver is told that no node can ever fulfil it.
INFEASIBLE_WARNING_S = 10.0

#: Nodes that have left of which `ray.nodes` still tells.
_MANY_DEPARTED = 1000


@dataclass(slots=True)
class Call:
    """A call that the scheduler knows of, from its submission until Dask forgets its key."""

    spec: CallSpec
    owner: str
    request: ResourceSet
    strategy: Strategy
    retries: int
    since: float = 0.0
    address: str | None = None
    holding: Holding | None = None
    #: Whether it is about to fail, and must not start again.
    is_doomed: bool = False
    is_cancelled: bool = False
    #: Whether the process has ended that had its GPUs.
    is_freed: bool = False
    #: Whether its dependencies are there, and it is on no node.
    is_ready: bool = False
    #: The queue that it waits in.
    queue: deque[str] | None = None
    #: Whether its owner runs it, by a lease; and what it has returned, in the keeping of which node.
    is_promised: bool = False
    made: tuple[str, list[Any]] | None = None


@dataclass(slots=True)
class Job:
    """A driver: the client that it is, and what nodes must know to run its code."""

    job: str
    client: str
    namespace: str
    setup: dict[str, Any]
    #: The node that keeps its driver's large values; None until there is one, after the last has gone.
    home: str | None
    functions: set[str] = field(default_factory=set)
    #: Whether its driver is gone; the job goes on for its detached actors.
    orphaned: bool = False


class SchedulerPlugin(distributed.SchedulerPlugin):
    """See the module. One per scheduler, registered idempotently by every driver."""

    name = entry.PLUGIN_NAME
    idempotent = True

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        #: Workers that cannot be nodes, and why.
        self._unfit: dict[str, str] = {}
        #: Nodes that have left, the last of them.
        self._departed: deque[dict[str, Any]] = deque(maxlen=_MANY_DEPARTED)
        self.jobs: dict[str, Job] = {}
        self._functions: dict[str, bytes] = {}
        self._function_waiters: dict[str, asyncio.Event] = {}
        self._warned: set[Shape] = set()
        #: Keys of results that have been made once.
        self._made: set[str] = set()
        #: What calls still have that have left their nodes: GPUs, by node and key.
        self._lingering: dict[tuple[str, str], list[Holding]] = {}

    def start(self, scheduler: Scheduler) -> None:
        """Register what callers and nodes may ask for."""
        self._scheduler = scheduler
        dask.keep_values_at_home(scheduler)
        self.ledger = Ledger()
        self._actors = actors = Actors(self, scheduler)
        self._objects = objects = Objects(scheduler, self.tell_owner)
        self._leases = leases = Leases(self, scheduler)
        self.groups = groups = Groups(self, scheduler, actors, objects, leases)
        self._placer = Placer(self, scheduler, actors, leases)
        self._relays = Relays(scheduler)
        self._logs = logs = Logs(self, scheduler)
        self._packages = packages = Packages()
        self._shown = Shown(scheduler)
        #: Calls whose dependencies are there, by (owner, request, strategy): one shape, one queue.
        self._queues: dict[Shape, deque[str]] = {}
        self._dispatch_due = False
        self._warning_due = False
        self.changed = asyncio.Event()
        scheduler.stream_handlers.update(
            {
                "raycompat-job": self._open_job,
                "raycompat-export": self._export,
                "raycompat-names-tensorflow": self._note_tensorflow,
                "raycompat-submit": self._submit,
                "raycompat-borrow": objects.borrow,
                "raycompat-adopt": objects.adopt,
                "raycompat-pick": objects.pick,
                "raycompat-load": objects.load,
                "raycompat-promise": objects.promise,
                "raycompat-fulfil": objects.fulfil,
                "raycompat-pin": objects.pin,
                "raycompat-sync": self._sync,
                "raycompat-made": self._made_by_owner,
                "raycompat-schedule": self._schedule,
                "raycompat-cancel": self._cancel,
                "raycompat-cancel-direct": self._cancel_direct,
                "raycompat-kill-actor": actors.kill,
                "raycompat-watch-actor": actors.watch,
                "raycompat-unwatch-actor": actors.unwatch,
                "raycompat-disown": self._disown,
                "raycompat-await-group": groups.tell_when_ready,
                "raycompat-relay-open": self._open_relay,
                "raycompat-node": self._node_ready,
                "raycompat-not-adopted": objects.not_adopted,
                "raycompat-unfit": self._node_unfit,
                "raycompat-result": self._result,
                "raycompat-item": self._item,
                "raycompat-tried": self._tried,
                "raycompat-freed": self._freed,
                "raycompat-blocked": self._blocked,
                "raycompat-unblocked": self._unblocked,
                "raycompat-lease-alive": leases.alive,
                "raycompat-lease-ended": leases.ended,
                "raycompat-actor-alive": actors.alive,
                "raycompat-actor-restarting": actors.restarting,
                "raycompat-actor-ended": actors.ended,
                **logs.handlers(),
                "raycompat-spans": self._shown.show,
            }
        )
        scheduler.stream_handlers["raycompat-relay-data"] = self._relay_data
        scheduler.stream_handlers["raycompat-relay-close"] = self._relays.close
        scheduler.handlers.update(
            {
                "raycompat_ready": self.wait_until_ready,
                "raycompat_nodes_are": self.wait_for_nodes,
                "raycompat_fetch": self.fetch,
                "raycompat_state": self.state,
                "raycompat_inventory": self.inventory,
                "raycompat_function": self.function,
                "raycompat_package_begin": packages.begin,
                "raycompat_package_write": packages.write,
                "raycompat_package_end": packages.end,
                "raycompat_package_read": packages.read,
                "raycompat_locate": objects.locate,
                "raycompat_missing": objects.missing,
                "raycompat_store": objects.store,
                "raycompat_reserve_actor": actors.reserve,
                "raycompat_find_actor": actors.find,
                "raycompat_named_actors": actors.named,
                "raycompat_create_group": groups.create,
                "raycompat_remove_group": groups.remove,
                "raycompat_find_group": groups.find,
                "raycompat_groups": groups.table,
            }
        )

    # --- nodes and drivers come and go ----------------------------------------------------------

    def _node_ready(self, worker: str, info: dict[str, Any]) -> None:
        if info["version"] != VERSION:
            reason = (
                f"it has raycompat {info['version']}, and the cluster has {VERSION}. Install that "
                "there, and start the worker anew."
            )
            self._node_unfit(worker, reason)
            return
        self.nodes[worker] = info
        self.ledger.add_node(worker, ResourceSet.from_units(info["total"]))
        dask.send_worker_batches_at_once(self._scheduler, worker)
        for job in self.jobs.values():
            dask.tell_worker(self._scheduler, worker, self._job_message(job))
            if job.home is None:
                self._find_home(job)
        self.notify_change()
        self.dispatch_soon()

    def _node_unfit(self, worker: str, reason: str) -> None:
        """Hear that a worker cannot be a node: who waits for it, and who runs, is told."""
        self._unfit[worker] = reason
        line = f"raycompat: the Dask worker {worker} is no node: {reason}"
        logger.error(line)
        for job in self.jobs:
            self._logs.tell(job, line)
        self.notify_change()

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Forget a node; its calls have already left it (see `transition`)."""
        self._unfit.pop(worker, None)
        info = self.nodes.pop(worker, None)
        if info is not None:
            self._departed.append({"address": worker, **info})
            self._relays.lose(worker)
            self._logs.lose_node(worker)
            self.ledger.remove_node(worker)
            self.groups.node_left(worker)
            for gone in [each for each in self._lingering if each[0] == worker]:
                del self._lingering[gone]
            for job in [job for job in self.jobs.values() if job.home == worker]:
                self._find_home(job)
        self.notify_change()
        self.dispatch_soon()

    def _find_home(self, job: Job) -> None:
        """Give a driver a node that keeps its values, on its host if there is one."""
        host = job.setup["driver_host"]
        near = [each for each, info in self.nodes.items() if info["place"][2] == host]
        job.home = min(
            near or self.nodes,
            key=lambda each: HEAD_RESOURCE not in self.nodes[each]["total"],
            default=None,
        )
        node = {"address": job.home, **self.nodes[job.home]} if job.home is not None else None
        dask.tell_client(self._scheduler, job.client, {"op": "raycompat-home", "node": node})

    def add_client(self, scheduler: Scheduler, client: str) -> None:
        """Make a new client's stream quick, once it is there."""
        asyncio.get_running_loop().call_soon(dask.send_client_batches_at_once, scheduler, client)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End what a caller that is gone has left, and its job if it was a driver."""
        self._relays.lose(client)
        self._logs.lose_client(client)
        self._actors.client_left(client)
        self._objects.break_promises_of(client)
        for key, call in self.calls.items():
            if call.owner == client and call.is_promised:
                asyncio.get_running_loop().call_soon(self._owner_left, client, key, call)
        jobs = [job for job in self.jobs.values() if job.client == client]
        for job in jobs:
            job.orphaned = True
            self.end_job_if_done(job)
        if not jobs:
            self._packages.release(client)
        self.groups.collect_soon()
        self.notify_change()

    def _owner_left(self, client: str, key: str, call: Call) -> None:
        """Run a call anew that a client ran by a lease which is gone, if it may be and is wanted."""
        if call.retries == 0:
            call.is_promised = False
            self.fail(key, failures.owner_died(key))
        else:
            self._schedule(client, key, call.retries - (call.retries > 0))

    def _disown(self, client: str) -> None:
        """Give the actors of a process that leaves of itself to its driver."""
        for call in self.calls.values():
            job = self.jobs.get(call.spec["job"])
            if call.owner == client and call.spec["actor"] is not None and job is not None:
                call.owner = job.client

    def end_job_if_done(self, job: Job) -> None:
        """End a job whose driver is gone, once it has no detached actors."""
        goes_on = self._actors.has_detached(job.job)
        message = {"op": "raycompat-job-ended", "job": job.job, "for_good": not goes_on}
        if not goes_on:
            self._actors.job_ended(job.job)
        for worker in self.nodes:
            dask.tell_worker(self._scheduler, worker, message)
        if goes_on:
            return
        del self.jobs[job.job]
        self._packages.release(job.client)
        for function in job.functions:
            if not any(function in other.functions for other in self.jobs.values()):
                self._functions.pop(function, None)
        self.notify_change()

    def _open_job(self, client: str, job: str, namespace: str, setup: dict[str, Any]) -> None:
        # It may have come before this plugin.
        dask.send_client_batches_at_once(self._scheduler, client)
        self.jobs[job] = opened = Job(job, client, namespace, setup, setup["home"])
        if opened.home not in self.nodes:
            self._find_home(opened)
        for worker in self.nodes:
            dask.tell_worker(self._scheduler, worker, self._job_message(opened))
        self.notify_change()

    def _job_message(self, job: Job) -> dict[str, Any]:
        return {
            "op": "raycompat-job",
            "job": job.job,
            "namespace": job.namespace,
            "setup": job.setup,
        }

    def notify_change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_until_ready(self, at_least: int, timeout_s: float) -> dict[str, Any]:
        """Return the nodes, once every Dask worker that is there now has reported.

        And the addresses of those that have not in time, and why others cannot be nodes.
        """

        def silent() -> list[str]:
            known = self.nodes.keys() | self._unfit.keys()
            return [address for address in self._scheduler.workers if address not in known]

        await self._wait_until(lambda: not silent() and len(self.nodes) >= at_least, timeout_s)
        nodes = [{"address": address, **info} for address, info in self.nodes.items()]
        return {"nodes": nodes, "silent": silent(), "unfit": dict(self._unfit)}

    async def wait_for_nodes(self, count: int, timeout_s: float) -> bool:
        """Return whether there are exactly so many nodes, in time."""
        return await self._wait_until(lambda: len(self.nodes) == count, timeout_s)

    async def _wait_until(
        self, condition: Callable[[], bool], timeout_s: float | None = None
    ) -> bool:
        """Wait until nodes have come and gone such that a condition holds; whether it does, in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self.changed.wait()
        except TimeoutError:
            return condition()
        return True

    async def fetch(self, node: str, keys: list[str], host: str) -> list[dict[str, Any]]:
        """Ask a node for values, for a caller that cannot reach it (see `_node.fetcher`).

        Raises
        ------
        OSError
            When it is not there, or leaves before it has answered.
        """
        asking = asyncio.ensure_future(dask.fetch_from(self._scheduler, node, keys, host))
        leaving = asyncio.ensure_future(self._wait_until(lambda: node not in self.nodes))
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise OSError(f"{node} has left the cluster")
        finally:
            asking.cancel()
            leaving.cancel()

    def state(self) -> dict[str, Any]:
        """Return the nodes with what they have and what is free, for `ray.nodes` and the like."""
        return {
            "nodes": [
                {
                    "address": address,
                    **info,
                    "resources": self.ledger.node_total(address).amounts(),
                    "available": self.ledger.node_available(address).amounts(),
                }
                for address, info in self.nodes.items()
            ],
            "departed": list(self._departed),
            "total": self.ledger.cluster_total().amounts(),
            "available": self.ledger.cluster_available().amounts(),
            "stored": sum(worker.nbytes for worker in self._scheduler.workers.values()),
            "pending": self._pending(),
            "dashboard": self._dashboard(),
        }

    def _dashboard(self) -> str | None:
        """Return host and port of the dashboard, if there is one: an application beside Dask's own."""
        server = self._scheduler.http_server
        has_pages = bool(self._scheduler.http_application.applications)
        return f"{server.address}:{server.port}" if has_pages else None

    def _pending(self) -> list[dict[str, Any]]:
        """Return what waits for resources, by what it asks for: tasks, actors and leases of callers."""
        counts: dict[tuple[ResourceSet, str], int] = {}
        for (_, request, _), queue in self._queues.items():
            for key in queue:
                shape = (request, self.calls[key].spec["kind"])
                counts[shape] = counts.get(shape, 0) + 1
        return [
            {
                "request": request.amounts(),
                "kind": kind,
                "count": count,
                "is_feasible": self.ledger.feasible(request),
            }
            for (request, kind), count in counts.items()
        ]

    def inventory(self) -> dict[str, list[str]]:
        """Return the keys of all that is kept here: what a leak would show in."""
        return {
            "tasks": dask.all_keys(self._scheduler),
            "calls": list(self.calls),
            "pins": self._objects.pins.keys(),
            "actors": list(self._actors.rows),
            "groups": self.groups.living(),
            "errors": list(self._objects.errors),
            "promises": list(self._objects.promises),
            "leases": self._leases.owners(),
        }

    async def close(self) -> None:
        """Remove what drivers have uploaded: the scheduler ends."""
        self._packages.close()

    # --- functions ------------------------------------------------------------------------------

    def _export(self, client: str, job: str, function: str, code: bytes) -> None:
        self._functions[function] = code
        if job in self.jobs:
            self.jobs[job].functions.add(function)
        waiter = self._function_waiters.pop(function, None)
        if waiter is not None:
            waiter.set()

    def _note_tensorflow(self, client: str, job: str) -> None:
        """Have nodes know, those that come later too, that a job's code names TensorFlow."""
        if job in self.jobs:
            self.jobs[job].setup["names_tensorflow"] = True
            message = {"op": "raycompat-names-tensorflow", "job": job}
            for worker in self.nodes:
                dask.tell_worker(self._scheduler, worker, message)

    async def function(self, function: str) -> bytes:
        """Return the pickled function or class of that id, once some caller has exported it."""
        while function not in self._functions:
            await self._function_waiters.setdefault(function, asyncio.Event()).wait()
        return self._functions[function]

    # --- calls ----------------------------------------------------------------------------------

    def _submit(self, client: str, calls: list[CallSpec]) -> None:
        for spec in calls:
            payload = spec["payload"]
            spec["payload"] = b""
            try:
                self._submit_one(client, spec, payload)
            except Exception as error:  # a stream must not die of one call
                logger.exception("raycompat could not submit %s", spec["key"])
                self._actors.free_name(spec["key"])
                self.tell_owner(client, spec["key"], failures.internal(repr(error)), unknown=True)

    def _submit_one(self, client: str, spec: CallSpec, payload: bytes) -> None:
        key, kind = spec["key"], spec["kind"]
        lost = [dep for dep in spec["deps"] if not dask.known(self._scheduler, dep)]
        if lost:
            self._actors.free_name(key)
            self.tell_owner(client, key, failures.object_lost(lost[0]), unknown=True)
            return
        self.calls[key] = Call(
            spec,
            client,
            ResourceSet.from_units(spec["request"]),
            from_wire(spec["strategy"]),
            spec["retries"],
            is_promised=spec["promised"],
        )
        if kind == "actor":
            self._actors.expect(client, spec)
        body = {"actor": entry.run_actor, "lease": entry.run_lease, "task": entry.run_call}[kind]
        dask.add_task(
            self._scheduler,
            client,
            key,
            body,
            (payload,),
            spec["deps"],
            parked=True,
            urgent=kind == "actor",
        )
        if spec["actor"] is not None and spec["actor"]["detached"]:
            self._scheduler.client_desires_keys([key], DETACHED)

    def update_graph(self, scheduler: Scheduler, **_: Any) -> None:
        """Hear that Dask has taken a graph in."""
        self._objects.graph_came()

    def _sync(self, client: str, token: int) -> None:
        dask.tell_client(self._scheduler, client, {"op": "raycompat-synced", "token": token})

    def transition(self, key: str, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Follow Dask: a call became ready, left its node, ended, or is forgotten.

        Dask calls this in the middle of its own transitions: what starts new ones is put off.
        """
        call = self.calls.get(key)
        if call is not None:
            self._follow_call(key, call, start, finish)
        if finish == "forgotten":
            self.calls.pop(key, None)
            self._made.discard(key)
            self._shown.forget(key)
            if call is not None and call.made is not None:
                worker, wires = call.made
                for wire in wires:
                    asyncio.get_running_loop().call_soon(self._objects.discard, worker, wire)
        self._objects.follow(key, start, finish)

    def _follow_call(self, key: str, call: Call, start: str, finish: str) -> None:
        if finish == "memory":
            self._made.add(key)
            call.made = None
        elif start == "released" and finish == "waiting" and key in self._made:
            self._make_anew(key, call)
        if start == "processing":
            self._left_node(key, call, finish)
        elif start == "no-worker" and finish != "processing":
            self._no_longer_ready(key, call)
        if finish == "no-worker":
            self._became_ready(key, call)
        elif finish == "erred":
            self._failed(key, call)
        elif finish == "forgotten" and call.spec["kind"] == "actor":
            asyncio.get_running_loop().call_soon(self._actors.forget, key, call.owner)

    def _became_ready(self, key: str, call: Call) -> None:
        if call.is_doomed:
            return
        call.is_ready = True
        if call.made is None:
            self._go_on(key)
        else:
            asyncio.get_running_loop().call_soon(self._go_on, key)

    def _go_on(self, key: str) -> None:
        """Have a call wait for its resources that is ready: or take what it has returned elsewhere."""
        call = self.calls.get(key)
        if call is None or not call.is_ready or call.queue is not None:
            return
        keeper = self._keeper(call)
        if call.made is not None and keeper is not None:
            call.is_ready = False
            self._run_on(keeper, key, call, call.made[1])
            return
        if call.made is not None:
            call.made = None
            self._make_anew(key, call)
        if not call.is_promised and not call.is_doomed:
            call.since = time.monotonic()
            shape = (call.owner, call.request, call.strategy)
            call.queue = self._queues.setdefault(shape, deque())
            call.queue.append(key)
            self.dispatch_soon()

    def _keeper(self, call: Call) -> str | None:
        """Return the node that is to keep what a call has returned elsewhere."""
        if call.made is None:
            return None
        worker, wires = call.made
        if worker not in self._scheduler.workers and all(wire[0] != "segment" for wire in wires):
            worker = next(iter(dask.running_workers(self._scheduler)), worker)
        return worker if worker in self._scheduler.workers else None

    def _made_by_owner(
        self, client: str, key: str, wires: Any, worker: str, error: bytes | None
    ) -> None:
        """Hear how a call has ended that its owner ran by a lease."""
        call = self.calls.get(key)
        if call is None or call.owner != client or not call.is_promised:
            for wire in wires or ():
                self._objects.discard(worker, wire)
        elif error is not None:
            call.is_promised = False
            self.fail(key, error)
        else:
            call.is_promised, call.made = False, (worker, wires)
            for wire in wires:
                self._objects.pins.add(key, wire[-1])
            self._go_on(key)

    def _schedule(self, client: str, key: str, retries: int) -> None:
        """Run a call that its owner does not run by a lease any more."""
        call = self.calls.get(key)
        if call is not None and call.is_promised:
            call.is_promised, call.retries = False, retries
            self._go_on(key)

    def _no_longer_ready(self, key: str, call: Call) -> None:
        if call.queue is not None and key in call.queue:
            call.queue.remove(key)
        call.queue, call.is_ready = None, False

    def _left_node(self, key: str, call: Call, finish: str) -> None:
        address, call.address = call.address, None
        self._leases.over(key)
        if call.holding is not None:
            if call.holding.gpus and address in self.nodes and not call.is_freed:
                self._lingering.setdefault((address, key), []).append(call.holding)
            else:
                self.ledger.release(call.holding)
                self.dispatch_soon()
            call.holding = None
        if finish in ("memory", "erred") or address is None:
            return
        dask.park(self._scheduler, key)
        if dask.goes_on(self._scheduler, address):
            message = {"op": "raycompat-end", "key": key}
            dask.tell_worker(self._scheduler, address, message)
        elif finish != "forgotten":
            self._node_was_lost(key, call)

    def _node_was_lost(self, key: str, call: Call) -> None:
        """Spend one try of a call whose node died, as Dask runs it elsewhere; or see that it fails."""
        row = self._actors.rows.get(key)
        call.made = None
        if row is None or call.spec["actor"] is None:
            error = failures.node_died("The node that ran the task has died.")
            if call.is_cancelled:
                error = failures.cancelled(key)
            call.is_doomed = call.retries == 0 or call.is_cancelled
            call.retries -= call.retries > 0
        else:
            error = failures.actor_died("The actor is dead because its node has died.", key)
            is_last = 0 <= call.spec["actor"]["max_restarts"] <= row.incarnation
            call.is_doomed = is_last or row.state == "DEAD"
            if not call.is_doomed:
                self._actors.restarting("", key, error)
        if call.is_doomed:
            asyncio.get_running_loop().call_soon(self._end_doomed, key, error)

    def _make_anew(self, key: str, call: Call) -> None:
        """Spend one try of a call whose result was lost, as Dask runs it again."""
        dask.park(self._scheduler, key)
        if call.retries == 0:
            call.is_doomed = True
            error = failures.object_lost(key)
            asyncio.get_running_loop().call_soon(self._end_doomed, key, error)
        call.retries -= call.retries > 0

    def _end_doomed(self, key: str, error: bytes) -> None:
        self._actors.bury(key, error)
        self.fail(key, error)

    def _failed(self, key: str, call: Call) -> None:
        """Tell the owner of a call that failed elsewhere than in its own body."""
        if key in self._objects.errors:
            return
        blamed = dask.blamed_key(self._scheduler, key)
        error = self._objects.errors.get(blamed or "")
        if error is None:
            text = dask.error_text(self._scheduler, blamed or key)
            error = failures.internal(f"The task {blamed} failed in Dask: {text}")
        self._objects.errors[key] = error
        if call.spec["kind"] == "actor":
            error = failures.actor_not_built(error, key)
            asyncio.get_running_loop().call_soon(self._actors.bury, key, error)
        else:
            self.tell_owner(call.owner, key, error, dependency=blamed != key)

    def fail(self, key: str, error: bytes) -> None:
        call = self.calls.get(key)
        if call is None:
            return
        self._objects.errors[key] = error
        self.tell_owner(call.owner, key, error)
        dask.fail(self._scheduler, key, CallFailed(error, failures.text_of(error)))

    def end_call(self, key: str, error: bytes) -> None:
        """Fail a call or an actor wherever it is; what runs is killed, and not tried again."""
        call = self.calls[key]
        if call.spec["kind"] == "actor":
            self._actors.end(key, error, frees_name=True)
        elif call.address is None:
            self.fail(key, error)
        else:
            message = {"op": "raycompat-cancel", "key": key, "force": True, "recursive": False}
            dask.tell_worker(self._scheduler, call.address, {**message, "error": error})

    def tell_owner(self, owner: str, key: str, error: bytes, **more: bool) -> None:
        message = {"op": "raycompat-done", "key": key, "error": error, **more}
        dask.tell_client(self._scheduler, owner, message)

    # --- dispatch -------------------------------------------------------------------------------

    def dispatch_soon(self) -> None:
        if not self._dispatch_due:
            self._dispatch_due = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Start what fits: one call of each queue in turn, so that no caller is starved."""
        self._dispatch_due = False
        self.groups.serve()
        blocked: set[tuple[ResourceSet, Strategy]] = set()
        progress = True
        while progress:
            progress = False
            for shape in list(self._queues):
                if shape[1:] in blocked:
                    continue
                if self._dispatch_one(shape):
                    progress = True
                elif self._leases.reserved(shape) is None:
                    blocked.add(shape[1:])
        self._queues = {shape: queue for shape, queue in self._queues.items() if queue}
        waiting = set(self.groups.keeper.pressing)
        for shape, queue in self._queues.items():
            if self._placer.make_room(shape, queue):
                waiting.add(shape[0])
        self._leases.tell_who_waits(waiting)
        if (self._queues or self.groups.waiting()) and not self._warning_due:
            self._warning_due = True
            asyncio.get_running_loop().call_later(
                INFEASIBLE_WARNING_S + 0.1, self._warn_of_the_infeasible
            )

    def _dispatch_one(self, shape: Shape) -> bool:
        queue = self._queues[shape]
        if not queue:
            del self._queues[shape]
            return True
        key, request = queue[0], shape[1]
        error = self._placer.why_it_cannot_go(key, shape)
        if error is not None:
            self.end_call(key, error)
            return True
        holding = self._placer.acquire(key, shape)
        if holding is None:
            error = self._placer.why_it_does_not_wait(key, shape)
            if error is not None:
                self.end_call(key, error)
            return error is not None
        queue.popleft()
        del self._queues[shape]
        if queue:
            self._queues[shape] = queue  # behind the others, whose turn it is
        call = self.calls[key]
        call.holding, call.queue, call.is_freed, call.is_ready = holding, None, False, False
        if call.spec["kind"] == "lease":
            self._leases.granted(key, call.owner, request, holding.node_id)
        self._leases.served(shape)
        self._run_on(holding.node_id, key, call)
        return True

    def _run_on(self, address: str, key: str, call: Call, made: list[Any] | None = None) -> None:
        call.address = address
        grant = Grant(
            key=key,
            name=call.spec["name"],
            job=call.spec["job"],
            owner=call.owner,
            retries=call.retries,
            max_calls=call.spec["max_calls"],
            runtime_env=call.spec["runtime_env"],
            resources=ResourceSet.from_units(
                call.spec["keep"] if call.spec["kind"] == "actor" else call.spec["request"]
            ).amounts(),
            gpus=list(call.holding.gpus) if call.holding else [],
            group=_group_of(call.strategy),
            actor=call.spec["actor"],
            num_restarts=self._actors.rows[key].incarnation if call.spec["actor"] else 0,
            kind=call.spec["kind"],
            made=made,
        )
        dask.tell_worker(self._scheduler, address, {"op": "raycompat-grant", "grant": dict(grant)})
        dask.release_to(self._scheduler, key, address)

    def _warn_of_the_infeasible(self) -> None:
        """Tell drivers, once a shape, what has waited and can never run."""
        self._warning_due = False
        now = time.monotonic()
        for (owner, request, strategy), queue in self._queues.items():
            call = self.calls.get(queue[0]) if queue else None
            if call is None or (owner, request, strategy) in self._warned:
                continue
            if now - call.since < INFEASIBLE_WARNING_S or self._placer.is_feasible(
                request, strategy
            ):
                continue
            self._warned.add((owner, request, strategy))
            where = "" if isinstance(strategy, str) else f" {strategy}"
            self._logs.tell(
                call.spec["job"],
                f"raycompat: {call.spec['name']} has waited {now - call.since:.0f} s for {request}"
                f"{where} and no node can ever provide that. The largest node has "
                f"{self.ledger.largest_node(request)}, the cluster in total "
                f"{self.ledger.cluster_total()}. Ask for less, or add a node that has it.",
            )
        for job, line in self.groups.warnings(INFEASIBLE_WARNING_S):
            self._logs.tell(job, line)
        self.dispatch_soon()  # which has us look again if something still waits

    # --- what nodes say of running calls --------------------------------------------------------

    def _result(self, worker: str, key: str, owner: str, **outcome: Any) -> None:
        if "error" in outcome and key in self.calls:
            self._objects.errors[key] = outcome["error"]
        dask.tell_client(self._scheduler, owner, {"op": "raycompat-done", "key": key, **outcome})

    def _item(self, worker: str, key: str, owner: str, item: str, index: int, wire: Any) -> None:
        large = wire[0] == "segment"
        if key not in self.calls:
            if large:
                self._objects.discard(worker, wire)
            return
        if large:
            self._objects.adopt(owner, item, wire, worker)
        dask.tell_client(
            self._scheduler,
            owner,
            {"op": "raycompat-item", "key": key, "index": index, "wire": wire, "stored": large},
        )

    def _freed(self, worker: str, key: str) -> None:
        """Let others have the GPUs of a call: the process that had memory there has ended."""
        lingering = self._lingering.get((worker, key))
        call = self.calls.get(key)
        if lingering:
            self.ledger.release(lingering.pop(0))
            if not lingering:
                del self._lingering[worker, key]
            self.dispatch_soon()
        elif call is not None and call.address == worker:
            call.is_freed = True

    def _tried(self, worker: str, key: str, retries: int) -> None:
        call = self.calls.get(key)
        if call is None:
            return
        call.retries = retries
        if call.holding is not None:  # its process may have died while it waited
            self.ledger.take_back_cpu(call.holding, entirely=True)

    def _blocked(self, worker: str, key: str) -> None:
        call = self.calls.get(key)
        if call is not None and call.holding is not None:
            self.ledger.lend_cpu(call.holding)
            self.dispatch_soon()

    def _unblocked(self, worker: str, key: str) -> None:
        call = self.calls.get(key)
        if call is not None and call.holding is not None:
            self.ledger.take_back_cpu(call.holding)
            if self.ledger.is_overdrawn(call.holding.node_id):
                self._leases.relieve(call.holding.node_id)

    def _cancel(self, client: str, key: str, force: bool, recursive: bool) -> None:
        call = self.calls.get(key)
        if call is not None and call.is_promised and call.owner != client:
            message = {"op": "raycompat-cancel-promised", "key": key, "recursive": recursive}
            dask.tell_client(self._scheduler, call.owner, message)
            return
        if key in self._objects.promises:
            message = {"op": "raycompat-cancel-promised", "key": key, "recursive": recursive}
            dask.tell_client(self._scheduler, self._objects.promises[key], message)
        if call is None:
            return
        call.is_cancelled = True
        if call.address is None:
            self.fail(key, failures.cancelled(key))
        else:
            message = {
                "op": "raycompat-cancel",
                "key": key,
                "force": force,
                "recursive": recursive,
            }
            dask.tell_worker(self._scheduler, call.address, message)

    def _cancel_direct(self, client: str, party: str, **message: Any) -> None:
        """Have the process of an actor or a lease, `party`, end one call that it was sent."""
        call = self.calls.get(party)
        if call is not None and call.address is not None:
            message |= {"op": "raycompat-cancel-direct", "party": party}
            dask.tell_worker(self._scheduler, call.address, message)

    # --- relays ---------------------------------------------------------------------------------

    def _open_relay(self, client: str, relay: str, actor: str) -> None:
        call = self.calls.get(actor)
        self._relays.open(client, relay, actor, call.address if call is not None else None)

    def _relay_data(
        self, relay: str, data: bytes | None, client: str | None = None, worker: str | None = None
    ) -> None:
        if client is not None and data is not None:
            self._relays.to_node(client, relay, data)
        elif worker is not None:
            self._relays.to_client(worker, relay, data)


def _group_of(strategy: Strategy) -> tuple[str, bool] | None:
    """Return what a node is told of the group of a call."""
    return (strategy.group, strategy.captures) if isinstance(strategy, InGroup) else None
