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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import distributed

from raycompat import _dask_adapter as dask
from raycompat._protocol import entry, failures
from raycompat._protocol.call_spec import ActorSpec, CallSpec, Grant
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.values import CallFailed
from raycompat._scheduler.actor_directory import ActorDirectory, ActorRow
from raycompat._scheduler.pins import Pins
from raycompat._scheduler.placement import Grant as Holding
from raycompat._scheduler.placement import Ledger
from raycompat._scheduler.relays import Relays

if TYPE_CHECKING:
    from distributed import Scheduler

logger = logging.getLogger(__name__)

#: Seconds that a request waits before its driver is told that no node can ever fulfil it.
INFEASIBLE_WARNING_S = 10.0

#: Said of an actor whose creator is gone.
_OWNER_DIED = "The actor is dead because its owner has died: the driver or actor that made it."

#: The client of the scheduler that wants detached actors, so that they outlive their drivers.
_DETACHED = "raycompat-detached"


@dataclass(slots=True)
class Call:
    """A call that the scheduler knows of, from its submission until Dask forgets its key."""

    spec: CallSpec
    owner: str
    request: ResourceSet
    retries: int
    since: float = 0.0
    address: str | None = None
    holding: Holding | None = None
    #: Whether it is about to fail, and must not start again.
    is_doomed: bool = False
    is_cancelled: bool = False
    #: Whether the process has ended that had its GPUs.
    is_freed: bool = False
    #: The queue that it waits in.
    queue: deque[str] | None = None


@dataclass(slots=True)
class Job:
    """A driver: the client that it is, and what nodes must know to run its code."""

    job: str
    client: str
    namespace: str
    setup: dict[str, Any]
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
        self.jobs: dict[str, Job] = {}
        self._functions: dict[str, bytes] = {}
        self._function_waiters: dict[str, asyncio.Event] = {}
        self._errors: dict[str, bytes] = {}
        #: Keys of values that their owners, clients, are still waiting for themselves.
        self._promises: dict[str, str] = {}
        self._warned: set[tuple[str, ResourceSet]] = set()
        #: Keys of values that cannot be made anew.
        self._given: set[str] = set()
        #: Keys of results that have been made once.
        self._made: set[str] = set()
        self._awaited: dict[str, asyncio.Event] = {}
        self._graph_came = asyncio.Event()
        #: What calls still have that have left their nodes: GPUs, by node and key.
        self._lingering: dict[tuple[str, str], list[Holding]] = {}

    def start(self, scheduler: Scheduler) -> None:
        """Register what callers and nodes may ask for."""
        self._scheduler = scheduler
        dask.keep_values_at_home(scheduler)
        self._ledger = Ledger()
        self._actors = ActorDirectory()
        self._pins = Pins(scheduler)
        self._relays = Relays(scheduler)
        #: Calls whose dependencies are there, by (owner, request, strategy): one shape, one queue.
        self._queues: dict[tuple[str, ResourceSet, str], deque[str]] = {}
        self._dispatch_due = False
        self._warning_due = False
        self._changed = asyncio.Event()
        scheduler.stream_handlers.update(
            {
                "raycompat-job": self._open_job,
                "raycompat-export": self._export,
                "raycompat-submit": self._submit,
                "raycompat-adopt": self._adopt,
                "raycompat-pick": self._pick,
                "raycompat-load": self._load,
                "raycompat-promise": self._promise,
                "raycompat-fulfil": self._fulfil,
                "raycompat-pin": self._pin,
                "raycompat-sync": self._sync,
                "raycompat-cancel": self._cancel,
                "raycompat-kill-actor": self._kill_actor,
                "raycompat-watch-actor": self._watch_actor,
                "raycompat-unwatch-actor": self._unwatch_actor,
                "raycompat-cancel-method": self._cancel_method,
                "raycompat-disown": self._disown,
                "raycompat-relay-open": self._open_relay,
                "raycompat-node": self._node_ready,
                "raycompat-result": self._result,
                "raycompat-item": self._item,
                "raycompat-tried": self._tried,
                "raycompat-freed": self._freed,
                "raycompat-blocked": self._blocked,
                "raycompat-unblocked": self._unblocked,
                "raycompat-actor-alive": self._actor_alive,
                "raycompat-actor-restarting": self._actor_restarting,
                "raycompat-actor-ended": self._actor_ended,
                "raycompat-log": self._log,
                "raycompat-spans": self._show,
            }
        )
        scheduler.stream_handlers["raycompat-relay-data"] = self._relay_data
        scheduler.stream_handlers["raycompat-relay-close"] = self._relays.close
        scheduler.handlers.update(
            {
                "raycompat_ready": self.wait_until_ready,
                "raycompat_state": self.state,
                "raycompat_inventory": self.inventory,
                "raycompat_function": self.function,
                "raycompat_locate": self.locate,
                "raycompat_missing": self.missing,
                "raycompat_store": self.store,
                "raycompat_reserve_actor": self.reserve_actor,
                "raycompat_find_actor": self.find_actor,
                "raycompat_named_actors": self.named_actors,
            }
        )

    # --- nodes and drivers come and go ----------------------------------------------------------

    def _node_ready(self, worker: str, info: dict[str, Any]) -> None:
        self.nodes[worker] = info
        self._ledger.add_node(worker, ResourceSet.from_units(info["total"]))
        dask.send_worker_batches_at_once(self._scheduler, worker)
        for job in self.jobs.values():
            dask.tell_worker(self._scheduler, worker, self._job_message(job))
        self._notify_change()
        self._dispatch_soon()

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Forget a node; its calls have already left it (see `transition`)."""
        if self.nodes.pop(worker, None) is not None:
            self._relays.lose(worker)
            self._ledger.remove_node(worker)
            for gone in [each for each in self._lingering if each[0] == worker]:
                del self._lingering[gone]
        self._notify_change()

    def add_client(self, scheduler: Scheduler, client: str) -> None:
        """Make a new client's stream quick, once it is there."""
        asyncio.get_running_loop().call_soon(dask.send_client_batches_at_once, scheduler, client)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End what a caller that is gone has left, and its job if it was a driver."""
        self._relays.lose(client)
        for row in list(self._actors.rows.values()):
            row.watchers.discard(client)
            if row.reserved_by == client:
                self._free_name(row.key)
        for key, call in list(self.calls.items()):
            actor = call.spec["actor"]
            if call.owner == client and actor is not None and not actor["detached"]:
                asyncio.get_running_loop().call_soon(
                    self._end_actor, key, failures.actor_died(_OWNER_DIED, key)
                )
        for key in [key for key, owner in self._promises.items() if owner == client]:
            asyncio.get_running_loop().call_soon(self._break_promise, key, failures.owner_died(key))
        for job in [job for job in self.jobs.values() if job.client == client]:
            job.orphaned = True
            self._end_job_if_done(job)

    def _free_name(self, key: str) -> None:
        """Forget an actor that was announced and does not come."""
        row = self._actors.rows.get(key)
        if row is not None and row.state == "RESERVED":
            self._actors.forget(key)
            self._notify_change()

    def _disown(self, client: str) -> None:
        """Give the actors of a process that leaves of itself to its driver."""
        for call in self.calls.values():
            job = self.jobs.get(call.spec["job"])
            if call.owner == client and call.spec["actor"] is not None and job is not None:
                call.owner = job.client

    def _end_job_if_done(self, job: Job) -> None:
        """End a job whose driver is gone, once it has no detached actors."""
        rows = [row for row in self._actors.rows.values() if row.job == job.job]
        goes_on = any(row.detached and row.state != "DEAD" for row in rows)
        message = {"op": "raycompat-job-ended", "job": job.job, "for_good": not goes_on}
        for row in rows if not goes_on else ():
            self._bury(row.key, failures.actor_died(_OWNER_DIED, row.key))
        for worker in self.nodes:
            dask.tell_worker(self._scheduler, worker, message)
        if goes_on:
            return
        del self.jobs[job.job]
        for function in job.functions:
            if not any(function in other.functions for other in self.jobs.values()):
                self._functions.pop(function, None)
        self._notify_change()

    def _open_job(self, client: str, job: str, namespace: str, setup: dict[str, Any]) -> None:
        self.jobs[job] = opened = Job(job, client, namespace, setup)
        for worker in self.nodes:
            dask.tell_worker(self._scheduler, worker, self._job_message(opened))

    def _job_message(self, job: Job) -> dict[str, Any]:
        return {
            "op": "raycompat-job",
            "job": job.job,
            "namespace": job.namespace,
            "setup": job.setup,
        }

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until_ready(self) -> list[dict[str, Any]]:
        """Return the nodes, once every Dask worker that is there now has reported."""
        while any(address not in self.nodes for address in self._scheduler.workers):
            await self._changed.wait()
        return [{"address": address, **info} for address, info in self.nodes.items()]

    def state(self) -> dict[str, Any]:
        """Return the nodes with what they have and what is free, for `ray.nodes` and the like."""
        return {
            "nodes": [
                {
                    "address": address,
                    **info,
                    "resources": self._ledger.node_total(address).amounts(),
                }
                for address, info in self.nodes.items()
            ],
            "total": self._ledger.cluster_total().amounts(),
            "available": self._ledger.cluster_available().amounts(),
        }

    def inventory(self) -> dict[str, list[str]]:
        """Return the keys of all that is kept here: what a leak would show in."""
        return {
            "tasks": dask.all_keys(self._scheduler),
            "calls": list(self.calls),
            "pins": self._pins.keys(),
            "actors": list(self._actors.rows),
            "errors": list(self._errors),
            "promises": list(self._promises),
        }

    # --- functions ------------------------------------------------------------------------------

    def _export(self, client: str, job: str, function: str, code: bytes) -> None:
        self._functions[function] = code
        if job in self.jobs:
            self.jobs[job].functions.add(function)
        waiter = self._function_waiters.pop(function, None)
        if waiter is not None:
            waiter.set()

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
                self._free_name(spec["key"])
                self._tell_owner(client, spec["key"], failures.internal(repr(error)), unknown=True)

    def _submit_one(self, client: str, spec: CallSpec, payload: bytes) -> None:
        key, kind = spec["key"], spec["kind"]
        lost = [dep for dep in spec["deps"] if not dask.known(self._scheduler, dep)]
        if lost:
            self._free_name(key)
            self._tell_owner(client, key, failures.object_lost(lost[0]), unknown=True)
            return
        self.calls[key] = Call(
            spec, client, ResourceSet.from_units(spec["request"]), spec["retries"]
        )
        if kind == "actor":
            self._expect_actor(client, spec)
        body = entry.run_actor if kind == "actor" else entry.run_call
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
            self._scheduler.client_desires_keys([key], _DETACHED)

    def _adopt(self, client: str, key: str, wire: Any, worker: str) -> None:
        if worker in self._scheduler.workers:
            self._given.add(key)
            dask.add_task(
                self._scheduler, client, key, entry.adopt, (wire,), (), parked=False, only_on=worker
            )
            self._pins.add(key, wire[-1])
        else:
            self._tell_owner(client, key, failures.owner_died(key))

    def _promise(self, client: str, key: str) -> None:
        """Make a value known that its owner is waiting for: a task that runs when it has come."""
        self._promises[key] = client
        dask.add_task(self._scheduler, client, key, entry.adopt, ((),), (), parked=True)

    def _fulfil(
        self, client: str, key: str, wire: Any, worker: str, error: bytes | None = None
    ) -> None:
        if key not in self._promises:
            if wire is not None:
                self._discard(worker, wire)
            return
        if error is None and worker not in self._scheduler.workers:
            error = failures.owner_died(key)
        if error is not None:
            self._break_promise(key, error)
        else:
            del self._promises[key]
            self._given.add(key)
            dask.fulfil(self._scheduler, key, entry.adopt, (wire,), worker)
            self._pins.add(key, wire[-1])

    def _discard(self, worker: str, wire: Any) -> None:
        """Have a node remove a value that nobody wants any more."""
        if worker in self._scheduler.workers:
            dask.tell_worker(self._scheduler, worker, {"op": "raycompat-discard", "wire": wire})

    def _break_promise(self, key: str, error: bytes) -> None:
        if self._promises.pop(key, None) is not None:
            self._errors[key] = error
            dask.fail(self._scheduler, key, CallFailed(error, "the value could not be made"))

    def _pick(self, client: str, key: str, call: str, index: int) -> None:
        if dask.known(self._scheduler, call):
            dask.add_task(self._scheduler, client, key, entry.pick, (index,), (call,), parked=False)
        else:
            self._tell_owner(client, key, failures.object_lost(key))

    def _load(self, client: str, key: str, source: str) -> None:
        """Make a task of Dask's own whose value is that of an object, not what is stored for it."""
        if dask.known(self._scheduler, key):
            self._scheduler.client_desires_keys([key], client)
        elif dask.known(self._scheduler, source):
            dask.add_task(self._scheduler, client, key, entry.load, (), (source,), parked=False)

    async def store(self, client: str, key: str, source: str) -> None:
        """Make an object of the value of a Dask task, once Dask knows of that."""
        while not dask.known(self._scheduler, source):
            await self._graph_came.wait()
        dask.add_task(self._scheduler, client, key, entry.store, (), (source,), parked=False)

    def update_graph(self, scheduler: Scheduler, **_: Any) -> None:
        """Hear that Dask has taken a graph in."""
        self._graph_came.set()
        self._graph_came = asyncio.Event()

    def _pin(self, client: str, carrier: str, keys: list[str]) -> None:
        if dask.known(self._scheduler, carrier):
            self._pins.add(carrier, keys)

    def _sync(self, client: str, token: int) -> None:
        dask.tell_client(self._scheduler, client, {"op": "raycompat-synced", "token": token})

    def transition(self, key: str, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Follow Dask: a call became ready, left its node, ended, or is forgotten.

        Dask calls this in the middle of its own transitions: what starts new ones is put off.
        """
        if finish == "forgotten" and self._pins.carries(key):
            asyncio.get_running_loop().call_soon(self._pins.drop, key)
        if finish in ("memory", "erred", "forgotten") and key in self._awaited:
            self._awaited.pop(key).set()
        call = self.calls.get(key)
        if call is not None:
            self._follow_call(key, call, start, finish)
        elif key in self._given and start in ("memory", "processing") and finish != "memory":
            asyncio.get_running_loop().call_soon(self._lose, key)
        if finish == "forgotten":
            self.calls.pop(key, None)
            self._promises.pop(key, None)
            self._errors.pop(key, None)
            self._given.discard(key)
            self._made.discard(key)

    def _follow_call(self, key: str, call: Call, start: str, finish: str) -> None:
        if finish == "memory":
            self._made.add(key)
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
            asyncio.get_running_loop().call_soon(self._forget_actor, key, call.owner)

    def _became_ready(self, key: str, call: Call) -> None:
        if call.is_doomed:
            return
        call.since = time.monotonic()
        shape = (call.owner, call.request, call.spec["strategy"])
        call.queue = self._queues.setdefault(shape, deque())
        call.queue.append(key)
        self._dispatch_soon()

    def _no_longer_ready(self, key: str, call: Call) -> None:
        if call.queue is not None and key in call.queue:
            call.queue.remove(key)
        call.queue = None

    def _left_node(self, key: str, call: Call, finish: str) -> None:
        address, call.address = call.address, None
        if call.holding is not None:
            if call.holding.gpus and address in self.nodes and not call.is_freed:
                self._lingering.setdefault((address, key), []).append(call.holding)
            else:
                self._ledger.release(call.holding)
                self._dispatch_soon()
            call.holding = None
        if finish in ("memory", "erred") or address is None:
            return
        dask.park(self._scheduler, key)
        if address in self._scheduler.workers:
            message = {"op": "raycompat-end", "key": key}
            dask.tell_worker(self._scheduler, address, message)
        elif finish != "forgotten":
            self._node_was_lost(key, call)

    def _node_was_lost(self, key: str, call: Call) -> None:
        """Spend one try of a call whose node died, as Dask runs it elsewhere; or see that it fails."""
        row = self._actors.rows.get(key)
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
                self._actor_restarting("", key, error)
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

    def _lose(self, key: str) -> None:
        """Fail what cannot be made anew; it may be that nobody wants it any more."""
        if dask.locate(self._scheduler, key)[0] not in ("memory", "erred", "forgotten"):
            self._errors[key] = error = failures.object_lost(key)
            dask.fail(self._scheduler, key, CallFailed(error, "the value was lost"))

    async def locate(self, keys: list[str]) -> dict[str, dict[str, Any]]:
        """Return which nodes have values, once all are made, and the errors of those that are not."""
        holders: dict[str, list[str]] = {}
        errors: dict[str, bytes] = {}
        for key in keys:
            state, who = dask.locate(self._scheduler, key)
            while state not in ("memory", "erred", "forgotten"):
                await self._awaited.setdefault(key, asyncio.Event()).wait()
                state, who = dask.locate(self._scheduler, key)
            if state == "memory":
                holders[key] = who
            elif state == "forgotten":
                errors[key] = failures.object_lost(key)
            else:
                blamed = dask.blamed_key(self._scheduler, key) or key
                known = self._errors.get(blamed)
                text = dask.error_text(self._scheduler, key)
                errors[key] = known or failures.internal(f"It failed in Dask: {text}")
        return {"holders": holders, "errors": errors}

    async def missing(self, lost_by: dict[str, list[str]]) -> None:
        """Hear that nodes did not give values that they should have."""
        for key, holders in lost_by.items():
            for holder in holders:
                dask.release_replica(self._scheduler, key, holder)

    def _end_doomed(self, key: str, error: bytes) -> None:
        self._bury(key, error)
        self._fail(key, error)

    def _failed(self, key: str, call: Call) -> None:
        """Tell the owner of a call that failed elsewhere than in its own body."""
        if key in self._errors:
            return
        blamed = dask.blamed_key(self._scheduler, key)
        error = self._errors.get(blamed or "")
        if error is None:
            text = dask.error_text(self._scheduler, blamed or key)
            error = failures.internal(f"The task {blamed} failed in Dask: {text}")
        self._errors[key] = error
        if call.spec["kind"] == "actor":
            error = failures.actor_not_built(error, key)
            asyncio.get_running_loop().call_soon(self._bury, key, error)
        else:
            self._tell_owner(call.owner, key, error, dependency=blamed != key)

    def _fail(self, key: str, error: bytes) -> None:
        call = self.calls.get(key)
        if call is None:
            return
        self._errors[key] = error
        self._tell_owner(call.owner, key, error)
        dask.fail(self._scheduler, key, CallFailed(error, f"{call.spec['name']} failed"))

    def _tell_owner(self, owner: str, key: str, error: bytes, **more: bool) -> None:
        message = {"op": "raycompat-done", "key": key, "error": error, **more}
        dask.tell_client(self._scheduler, owner, message)

    # --- dispatch -------------------------------------------------------------------------------

    def _dispatch_soon(self) -> None:
        if not self._dispatch_due:
            self._dispatch_due = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Start what fits: one call of each queue in turn, so that no caller is starved."""
        self._dispatch_due = False
        blocked: set[tuple[ResourceSet, str]] = set()
        progress = True
        while progress:
            progress = False
            for shape in list(self._queues):
                if shape[1:] in blocked:
                    continue
                if self._dispatch_one(shape):
                    progress = True
                else:
                    blocked.add(shape[1:])
        if self._queues and not self._warning_due:
            self._warning_due = True
            asyncio.get_running_loop().call_later(
                INFEASIBLE_WARNING_S + 0.1, self._warn_of_the_infeasible
            )

    def _dispatch_one(self, shape: tuple[str, ResourceSet, str]) -> bool:
        queue = self._queues[shape]
        if not queue:
            del self._queues[shape]
            return True
        key, (_, request, strategy) = queue[0], shape
        nearest = dask.dependency_bytes(self._scheduler, key)
        holding = self._ledger.acquire(
            request,
            strategy=strategy,
            prefer=sorted(nearest, key=nearest.__getitem__)[::-1],
            only=dask.running_workers(self._scheduler),
        )
        if holding is None:
            return False
        queue.popleft()
        if not queue:
            del self._queues[shape]
        call = self.calls[key]
        call.holding, call.queue, call.is_freed = holding, None, False
        self._run_on(holding.node_id, key, call)
        return True

    def _run_on(self, address: str, key: str, call: Call) -> None:
        call.address = address
        grant = Grant(
            key=key,
            name=call.spec["name"],
            job=call.spec["job"],
            owner=call.owner,
            retries=call.retries,
            max_calls=call.spec["max_calls"],
            env_vars=call.spec["env_vars"],
            resources=ResourceSet.from_units(
                call.spec["keep"] if call.spec["kind"] == "actor" else call.spec["request"]
            ).amounts(),
            gpus=list(call.holding.gpus) if call.holding else [],
            actor=call.spec["actor"],
            num_restarts=self._actors.rows[key].incarnation if call.spec["actor"] else 0,
        )
        dask.tell_worker(self._scheduler, address, {"op": "raycompat-grant", "grant": dict(grant)})
        dask.release_to(self._scheduler, key, address)

    def _warn_of_the_infeasible(self) -> None:
        """Tell drivers, once a shape, what has waited and can never run."""
        self._warning_due = False
        now = time.monotonic()
        for (owner, request, _), queue in self._queues.items():
            call = self.calls.get(queue[0]) if queue else None
            if call is None or (owner, request) in self._warned:
                continue
            if now - call.since < INFEASIBLE_WARNING_S or self._ledger.feasible(request):
                continue
            self._warned.add((owner, request))
            self._tell_driver(
                call.spec["job"],
                f"raycompat: {call.spec['name']} has waited {now - call.since:.0f} s for {request} "
                f"and no node can ever provide that. The largest node has "
                f"{self._ledger.largest_node(request)}, the cluster in total "
                f"{self._ledger.cluster_total()}. Ask for less, or add a node that has it.",
            )

    def _tell_driver(self, job: str, line: str) -> None:
        self._log(worker="", job=job, stream="stderr", lines=[line], prefix="")

    # --- what nodes say of running calls --------------------------------------------------------

    def _result(self, worker: str, key: str, owner: str, **outcome: Any) -> None:
        if "error" in outcome and key in self.calls:
            self._errors[key] = outcome["error"]
        dask.tell_client(self._scheduler, owner, {"op": "raycompat-done", "key": key, **outcome})

    def _item(self, worker: str, key: str, owner: str, item: str, index: int, wire: Any) -> None:
        large = wire[0] == "segment"
        if key not in self.calls:
            if large:
                self._discard(worker, wire)
            return
        if large:
            self._adopt(owner, item, wire, worker)
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
            self._ledger.release(lingering.pop(0))
            if not lingering:
                del self._lingering[worker, key]
            self._dispatch_soon()
        elif call is not None and call.address == worker:
            call.is_freed = True

    def _tried(self, worker: str, key: str, retries: int) -> None:
        call = self.calls.get(key)
        if call is None:
            return
        call.retries = retries
        if call.holding is not None:  # its process may have died while it waited
            self._ledger.take_back_cpu(call.holding, entirely=True)

    def _blocked(self, worker: str, key: str) -> None:
        call = self.calls.get(key)
        if call is not None and call.holding is not None:
            self._ledger.lend_cpu(call.holding)
            self._dispatch_soon()

    def _unblocked(self, worker: str, key: str) -> None:
        call = self.calls.get(key)
        if call is not None and call.holding is not None:
            self._ledger.take_back_cpu(call.holding)

    def _log(self, worker: str, job: str, **message: Any) -> None:
        if job in self.jobs:
            dask.tell_client(
                self._scheduler, self.jobs[job].client, {"op": "raycompat-log", **message}
            )

    def _show(self, worker: str, pid: int, spans: list[Any]) -> None:
        dask.show_in_task_stream(self._scheduler, worker, pid, spans)

    def _cancel(self, client: str, key: str, force: bool, recursive: bool) -> None:
        call = self.calls.get(key)
        if key in self._promises:
            message: dict[str, Any] = {"op": "raycompat-cancel-promised", "key": key}
            message["recursive"] = recursive
            dask.tell_client(self._scheduler, self._promises[key], message)
        if call is None:
            return
        call.is_cancelled = True
        if call.address is None:
            self._fail(key, failures.cancelled(key))
        else:
            message = {
                "op": "raycompat-cancel",
                "key": key,
                "force": force,
                "recursive": recursive,
            }
            dask.tell_worker(self._scheduler, call.address, message)

    # --- actors ---------------------------------------------------------------------------------

    def _expect_actor(self, client: str, spec: CallSpec) -> None:
        actor = spec["actor"]
        assert actor is not None
        row = self._actors.rows.get(spec["key"])
        if row is None:
            row = _new_row(spec["key"], spec["job"], actor)
            self._actors.reserve(row)
        row.state = "PENDING"
        self._notify_change()

    async def reserve_actor(
        self, client: str, key: str, job: str, actor: ActorSpec
    ) -> dict[str, Any]:
        """Take a name for an actor that `client` is about to submit, or say who has it.

        Raises
        ------
        ValueError
            When the client is gone.
        """
        if client not in self._scheduler.clients:
            raise ValueError(f"{client} has left the cluster")
        row = _new_row(key, job, actor)
        row.state, row.reserved_by = "RESERVED", client
        taken = self._actors.reserve(row)
        if taken is None:
            return {"taken": False}
        return {"taken": True, "key": taken.key, "about": taken.about}

    async def find_actor(self, name: str, namespace: str) -> dict[str, Any] | None:
        """Return key and description of the actor of that name; None when there is none."""
        while (row := self._actors.find(name, namespace)) is not None:
            if row.state != "RESERVED":
                return {"key": row.key, "about": row.about}
            await self._changed.wait()
        return None

    def named_actors(self, namespace: str | None) -> list[dict[str, Any]]:
        """List the names of living actors."""
        return self._actors.named(namespace)

    def _watch_actor(self, client: str, key: str) -> None:
        """Tell a client where an actor is, now and whenever that changes."""
        row = self._actors.rows.get(key)
        if row is None:
            error = failures.actor_died("The actor is dead, and all references were removed.", key)
            row = ActorRow(key=key, job="", state="DEAD", error=error)
        row.watchers.add(client)
        self._report(client, row)

    def _unwatch_actor(self, client: str, key: str) -> None:
        row = self._actors.rows.get(key)
        if row is not None:
            row.watchers.discard(client)

    def _report(self, client: str, row: ActorRow) -> None:
        message = {"op": "raycompat-actor-state", "key": row.key, **row.report()}
        dask.tell_client(self._scheduler, client, message)

    def _report_to_all(self, row: ActorRow) -> None:
        for client in row.watchers:
            self._report(client, row)

    def _cancel_method(self, client: str, actor: str, key: str, recursive: bool) -> None:
        row = self._actors.rows.get(actor)
        if row is not None and row.address is not None:
            message = {
                "op": "raycompat-cancel-method",
                "actor": actor,
                "key": key,
                "recursive": recursive,
            }
            dask.tell_worker(self._scheduler, row.address, message)

    def _open_relay(self, client: str, relay: str, actor: str) -> None:
        row = self._actors.rows.get(actor)
        self._relays.open(client, relay, actor, row.address if row is not None else None)

    def _relay_data(
        self, relay: str, data: bytes | None, client: str | None = None, worker: str | None = None
    ) -> None:
        if client is not None and data is not None:
            self._relays.to_node(client, relay, data)
        elif worker is not None:
            self._relays.to_client(worker, relay, data)

    def _actor_alive(self, worker: str, key: str, pid: int, socket: str, incarnation: int) -> None:
        call, row = self.calls.get(key), self._actors.rows.get(key)
        if call is None or row is None or row.state == "DEAD":
            return
        row.state, row.address, row.pid, row.socket = "ALIVE", worker, pid, socket
        row.incarnation, row.host = incarnation, self.nodes[worker]["place"][2]
        if call.holding is not None:
            keep = ResourceSet.from_units(call.spec["keep"])
            call.holding = self._ledger.shrink(call.holding, keep)
        dask.tell_client(self._scheduler, call.owner, {"op": "raycompat-actor-alive", "key": key})
        self._report_to_all(row)
        self._dispatch_soon()

    def _actor_restarting(self, worker: str, key: str, error: bytes) -> None:
        row = self._actors.rows.get(key)
        if row is not None and row.state != "DEAD":
            row.error = error
            if row.address is not None:  # else it has never been there: its callers wait on
                row.state = "RESTARTING"
            row.incarnation += 1
            self._report_to_all(row)

    def _actor_ended(self, worker: str, key: str, error: bytes) -> None:
        self._bury(key, error)

    def _forget_actor(self, key: str, owner: str) -> None:
        text = "All references to the actor were removed."
        if owner not in self._scheduler.clients:
            text = _OWNER_DIED
        error = failures.actor_died(text, key)
        self._bury(key, error)
        self._tell_owner(owner, key, error, unknown=True)  # it may never have come to life
        self._actors.forget(key)

    def _kill_actor(self, client: str, key: str, no_restart: bool) -> None:
        row = self._actors.rows.get(key)
        if row is None or key not in self.calls:
            return
        if row.state == "DEAD":  # its name may be taken still
            if no_restart:
                self._actors.bury(key, row.error or b"", frees_name=True)
            return
        if not no_restart:
            if row.address is not None:
                again = {"op": "raycompat-restart-actor", "key": key}
                dask.tell_worker(self._scheduler, row.address, again)
            return
        self._end_actor(key, failures.actor_killed(key), frees_name=True)

    def _end_actor(self, key: str, error: bytes, *, frees_name: bool = False) -> None:
        """End an actor for good, from here."""
        call = self.calls.get(key)
        if call is None:
            return
        self._bury(key, error, frees_name=frees_name)
        if call.address is not None:
            message = {"op": "raycompat-end", "key": key, "error": error}
            dask.tell_worker(self._scheduler, call.address, message)
        else:
            self._fail(key, error)

    def _bury(self, key: str, error: bytes, *, frees_name: bool = False) -> None:
        row = self._actors.rows.get(key)
        if row is None or row.state == "DEAD":
            return
        self._actors.bury(key, error, frees_name=frees_name or row.detached)
        self._report_to_all(row)
        if key in self.calls:
            self._tell_owner(self.calls[key].owner, key, error)
        job = self.jobs.get(row.job)
        if job is not None and job.orphaned and row.detached:
            self._end_job_if_done(job)
        if row.detached and _DETACHED in self._scheduler.clients:
            self._scheduler.client_releases_keys([key], _DETACHED)


def _new_row(key: str, job: str, actor: ActorSpec) -> ActorRow:
    return ActorRow(
        key=key,
        job=job,
        name=actor["name"],
        namespace=actor["namespace"],
        detached=actor["detached"],
        about=actor["about"],
        class_name=actor["class_name"],
    )
