"""Nodes: Dask's own state machine of a worker, raycompat's own tasks, leases and actors, model processes.

Only what is outside of them is a model: executors, segments, and the transfer of values.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Collection, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from connections import Connection
from distributed.protocol.pickle import dumps, loads
from distributed.sizeof import sizeof
from distributed.worker import _worker_cvar
from distributed.worker_state_machine import (
    AcquireReplicasEvent,
    BaseWorker,
    ComputeTaskEvent,
    ExecuteFailureEvent,
    ExecuteSuccessEvent,
    FreeKeysEvent,
    GatherDepNetworkFailureEvent,
    GatherDepSuccessEvent,
    PauseEvent,
    RefreshWhoHasEvent,
    RemoveReplicasEvent,
    RemoveWorkerEvent,
    RescheduleEvent,
    RetryBusyWorkerEvent,
    StateMachineEvent,
    UnpauseEvent,
    WorkerState,
)
from processes import KILLED, Executor
from virtual_time import CLOCK

from raycompat._dask import worker as adapter
from raycompat._messages.actors import RestartActor
from raycompat._messages.calls import (
    CancelCall,
    CancelDirect,
    Credit,
    End,
    GrantCall,
    ItemMade,
)
from raycompat._messages.executors import ItemYielded
from raycompat._messages.jobs import BeginJob, ForgetFunctions, JobEnded
from raycompat._messages.leases import Revoke
from raycompat._messages.nodes import NodeReady
from raycompat._messages.objects import Discard, NotAdopted
from raycompat._node.actors import Actors
from raycompat._node.calls import Calls
from raycompat._node.granted_calls import GrantedCalls
from raycompat._node.leases import Leases
from raycompat._node.numbers import Numbers
from raycompat._node.tasks import Tasks
from raycompat._protocol import failures, ids, task_bodies
from raycompat._protocol.message import handled
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.values import (
    CallFailed,
    SegmentLink,
    SegmentValue,
    from_wire,
)

if TYPE_CHECKING:
    from world import World

#: Messages of Dask's scheduler to its workers, and the events of the state machine that they are.
_EVENTS = {
    "compute-task": ComputeTaskEvent,
    "free-keys": FreeKeysEvent,
    "remove-replicas": RemoveReplicasEvent,
    "acquire-replicas": AcquireReplicasEvent,
    "refresh-who-has": RefreshWhoHasEvent,
    "remove-worker": RemoveWorkerEvent,
}


#: The writer of copies of values that another node has.
_COPY = "copy"


class Store:
    """The segments of a node. Files are only their names, in a set of the world."""

    def __init__(self, world: World, host: str) -> None:
        self._segments = world.segments
        self.host = host
        self._kept: dict[str, SegmentValue] = world.kept
        self._number = 0
        self.is_full = False

    def write(self, writer: str, size: int) -> tuple[Any, ...]:
        """Let a process write a large value; return its wire.

        Raises
        ------
        OSError
            When the store is full. Copies have room, as in the product.
        """
        if self.is_full and writer != _COPY:
            raise OSError(errno.ENOSPC, "the store is full")
        self._number += 1
        path = f"{self.host}/{writer}/{self._number}"
        self._segments[path] = writer
        return ("segment", path, size, self.host, ())

    def adopt(self, wire: tuple[Any, ...]) -> Any:
        """Store a value, as `_node.object_store` does."""
        value = from_wire(wire)
        if not isinstance(value, SegmentLink):
            return value
        if value.path in self._kept:
            return self._kept[value.path]
        if value.path not in self._segments:
            raise FileNotFoundError(value.path)
        return self._keep(value)

    def _keep(self, link: SegmentLink) -> SegmentValue:
        kept = self._kept[link.path] = SegmentValue(link, self._remove)
        return kept

    def _remove(self, path: str) -> None:
        self._segments.pop(path, None)

    def receive(self, value: Any) -> Any:
        """Store the copy of a value of another node."""
        if not isinstance(value, SegmentValue):
            return value
        if value.link.host == self.host:
            return value
        path = self.write(_COPY, value.link.size)[1]
        return self._keep(SegmentLink(path, value.link.size, self.host, value.link.refs))

    def discard(self, message: Discard) -> None:
        """Remove a value without references, unless a node stores it."""
        value = from_wire(message.wire)
        if isinstance(value, SegmentLink) and value.path not in self._kept:
            self._remove(value.path)

    def clean_up_after(self, writer: str) -> None:
        """Remove the segments of an ended process that no node stores."""
        for path, by in list(self._segments.items()):
            if by == writer and path not in self._kept:
                self._remove(path)


class Pool:
    """The executors of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.living: dict[int, Executor] = {}
        self._idle: list[Executor] = []
        self._random = Random(f"{node.world.seed} {node.name}")
        self._num_started = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def background(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def start_executor(self, kind: tuple[Any, ...], setup: Any, prepared: Any) -> Executor:
        await asyncio.sleep(self._random.choice([0.002, 0.03, 0.3]))
        self._num_started += 1
        executor = Executor(self, kind, 100 + self._num_started)
        self.living[executor.pid] = executor
        return executor

    async def acquire(
        self, kind: tuple[Any, ...], setup: Any, prepared: Any, *, fresh: bool = False
    ) -> Executor:
        for executor in self._idle:
            if not fresh and executor.kind == kind and executor.alive:
                self._idle.remove(executor)
                return executor
        return await self.start_executor(kind, setup, prepared)

    def release(self, executor: Executor, *, spent: bool) -> None:
        if not executor.alive or executor.is_ending:
            return
        if executor.kind[0] not in self.node.jobs.setups:
            self.kill(executor)
        elif spent:
            executor.leave(soon=False)
        else:
            self._idle.append(executor)

    def is_idle(self, executor: Executor) -> bool:
        return executor in self._idle

    def kill(self, executor: Executor) -> None:
        executor.is_ending = True
        if executor in self._idle:
            self._idle.remove(executor)
        delay_s = self.node.world.network.delay()
        asyncio.get_running_loop().call_later(delay_s, executor.die, KILLED)

    def end(self, executor: Executor) -> None:
        executor.end()
        if executor in self._idle:
            self._idle.remove(executor)

    def end_job(self, job: str) -> None:
        for executor in [each for each in self.living.values() if each.kind[0] == job]:
            self.end(executor)

    def forget(self, executor: Executor) -> None:
        self.living.pop(executor.pid, None)
        if executor in self._idle:
            self._idle.remove(executor)
        self.node.store.clean_up_after(executor.name)

    def close(self) -> None:
        """End all processes with the node."""
        for executor in list(self.living.values()):
            executor.die(KILLED)
        for task in self._tasks:
            task.cancel()


class Jobs:
    """The jobs that a node knows."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.setups: dict[str, Any] = {}

    def begin(self, message: BeginJob) -> None:
        self.setups[message.job] = message.setup

    def end(self, message: JobEnded) -> None:
        setup = self.setups.get(message.job)
        if setup is not None:
            self._node.store.clean_up_after(f"driver-{setup['driver_pid']}")
        if message.for_good:
            self.setups.pop(message.job, None)
            self._node.pool.end_job(message.job)

    async def prepare(self, grant: Any) -> tuple[Any, Any]:
        await asyncio.sleep(0)
        return self.setups[grant["job"]], None

    @staticmethod
    def kind(grant: Any) -> tuple[Any, ...]:
        return (grant["job"], grant["runtime_env"])


class Node(BaseWorker):
    """A Dask worker that is a node."""

    def __init__(self, world: World, number: int, amounts: dict[str, float]) -> None:
        self.world, self.number = world, number
        self.name = f"node-{number}"
        self.address = f"tcp://10.0.0.{number}:1000"
        self.ip = f"10.0.0.{number}"
        self.amounts = amounts
        self.is_paused = self.is_stopped = self.is_dead = False
        self.worker = self  # the name by which parts of a node know their worker
        self.batched_stream = self
        self.sockets: dict[str, str] = {}
        self.numbers = Numbers({})
        self.store = Store(world, f"host-{number}")
        self.pool = Pool(self)
        self.jobs = Jobs(self)
        ground: Any = self  # it has what these parts use of a `Ground`
        jobs: Any = self.jobs
        pool: Any = self.pool
        self.granted = GrantedCalls(ground)
        self.tasks = Tasks(ground, self.granted, jobs, self.collect_garbage_soon)
        self.leases = Leases(ground, self.granted, jobs)
        self.actors = Actors(ground, self.granted, jobs)
        self.calls = Calls(pool, self.granted, self.actors, self.leases)
        self._executing: set[asyncio.Task[Any]] = set()
        state = WorkerState(
            nthreads=int(amounts["CPU"]),
            address=self.address,
            plugins={"raycompat": self},  # type: ignore[dict-item]
            validate=False,
        )
        super().__init__(state)
        task_bodies.runners[self] = self  # type: ignore[index]
        self._handlers = dict(
            [
                handled(BeginJob, self.jobs.begin),
                handled(JobEnded, self.jobs.end),
                handled(ForgetFunctions, lambda message: None),
                handled(CancelCall, self.calls.cancel),
                handled(CancelDirect, self.calls.cancel_direct),
                handled(Credit, self.calls.credit),
                handled(GrantCall, self.calls.grant),
                handled(End, self.calls.end),
                handled(Revoke, self.leases.revoke),
                handled(RestartActor, self.actors.restart),
                handled(Discard, self.store.discard),
            ]
        )
        self.connection = Connection(world.network, self.address, self._on_message, self.die)

    def announce(self) -> None:
        """Join the cluster."""
        self.tell(
            NodeReady(
                {
                    "node_id": f"{self.number:056x}",
                    "version": "simulated",
                    "total": ResourceSet.from_amounts(self.amounts).units(),
                    "gpu_ids": [],
                    "ip": self.ip,
                    "name": self.name,
                    "hostname": self.name,
                    "pid": self.number,
                    "started": CLOCK.now,
                    "host": self.store.host,
                    "place": (),
                    "labels": {},
                }
            )
        )

    def tell(self, message: Any) -> None:
        """Send a message to the scheduler."""
        adapter.tell_scheduler(self, message)  # type: ignore[arg-type]

    def send(self, message: dict[str, Any]) -> None:
        """Send what Dask or raycompat has written."""
        if not self.is_dead:
            self.connection.send(message)

    batched_send = send

    def _on_message(self, message: dict[str, Any]) -> None:
        if self.is_dead:
            return
        operation = message.pop("op")
        if operation == "close":
            self.die()
        elif operation in _EVENTS:
            if "run_spec" in message:
                message["run_spec"] = loads(dumps(message["run_spec"].data))
            self.handle_stimulus(_EVENTS[operation](**message))
        elif operation in self._handlers:
            if operation == Revoke.op:
                self.world.revoked[message["key"]] = CLOCK.now
            self._handlers[operation](**message)

    # --- Dask's state machine -------------------------------------------------------------------

    def transition(self, key: str, start: str, finish: str, **_: Any) -> None:
        """Start a coroutine at once, as `_node.membership` does."""
        if finish == "ready" and adapter.is_coroutine_of(self, key, task_bodies.__name__):  # type: ignore[arg-type]
            asyncio.get_running_loop().call_soon(adapter.start_if_ready, self, key)

    async def execute(self, key: Any, *, stimulus_id: str) -> StateMachineEvent:
        if self.is_dead:
            return RescheduleEvent(key=key, stimulus_id=stimulus_id)
        task = self.state.tasks[key]
        run_id, spec, start = task.run_id, task.run_spec, CLOCK.now
        values = {each.key: self.state.data[each.key] for each in task.dependencies}
        token = _worker_cvar.set(self)  # type: ignore[arg-type]
        try:
            value = spec(values)
            if spec.is_coro:
                value = await value
        except CallFailed as error:
            return ExecuteFailureEvent.from_exception(
                error, key=key, run_id=run_id, start=start, stop=CLOCK.now, stimulus_id=stimulus_id
            )
        finally:
            _worker_cvar.reset(token)
        return ExecuteSuccessEvent(
            key=key,
            run_id=run_id,
            value=value,
            start=start,
            stop=CLOCK.now,
            nbytes=sizeof(value),
            type=type(value),
            stimulus_id=stimulus_id,
        )

    async def gather_dep(
        self, worker: str, to_gather: Collection[Any], total_nbytes: int, *, stimulus_id: str
    ) -> StateMachineEvent:
        await asyncio.sleep(self.world.network.delay())
        other = self.world.node_at(worker)
        about = {"worker": worker, "total_nbytes": total_nbytes, "stimulus_id": stimulus_id}
        if other is None or other.is_stopped:
            return GatherDepNetworkFailureEvent(**about)
        stored = other.state.data
        found = {key: self.store.receive(stored[key]) for key in to_gather if key in stored}
        return GatherDepSuccessEvent(**about, data=found)

    async def retry_busy_worker_later(self, worker: str) -> StateMachineEvent:
        await asyncio.sleep(0.15)
        return RetryBusyWorkerEvent(worker=worker, stimulus_id="retry")

    def digest_metric(self, name: Any, value: float) -> None:
        pass

    # --- the bodies of Dask's tasks -------------------------------------------------------------

    async def run_call(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        return await self.tasks.run(key, payload, values)

    async def run_lease(self, key: str) -> Any:
        return await self.leases.run(key)

    async def run_actor(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        return await self.actors.run(key, payload, values)

    def adopt(self, key: str, wire: tuple[Any, ...]) -> Any:
        try:
            return self.store.adopt(wire)
        except FileNotFoundError as error:
            owner_died = failures.owner_died(key)
            self.tell(NotAdopted(key, owner_died))
            raise CallFailed(owner_died, "the value of a put is lost") from error

    def on_item(self, message: ItemYielded) -> None:
        """Pass on an item of a generator, as `_node.node` does."""
        key, index = message.key, message.index
        running = self.granted.by_key.get(key)
        if running is not None:
            owner = running.grant["owner"]
            item = ids.return_key(key, index)
            self.tell(ItemMade(key, owner, item, index, message.wire))

    def collect_garbage_soon(self) -> None:
        """Do nothing: values are removed with their last reference."""

    # --- faults ---------------------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        """Accept no tasks for a while, as with too little memory."""
        if self.is_paused == paused or self.is_dead:
            return
        self.is_paused = paused
        event = PauseEvent if paused else UnpauseEvent
        status = "paused" if paused else "running"
        self.send({"op": "worker-status-change", "status": status, "stimulus_id": status})
        self.handle_stimulus(event(stimulus_id=status))

    def die(self, keep: int = 0) -> None:
        """End with all processes; `keep` of the last messages still arrive."""
        if self.is_dead:
            return
        self.is_dead = True
        self.world.note(f"{self.name} dies")
        self.jobs.setups.clear()
        self.pool.close()
        self.connection.hang_up(keep)
        for task in self._async_instructions:
            task.cancel()
        self.state.data.clear()
        for path in [
            each for each in self.world.segments if each.startswith(f"{self.store.host}/")
        ]:
            self.world.segments.pop(path)
