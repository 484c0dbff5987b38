"""A node: the parts of raycompat in a Dask worker, each with those that it asks.

A call takes these steps here: the scheduler's grant arrives first (`Calls.grant`); Dask starts the
call's task, which runs it in an executor (`Tasks.run`) and returns the result for Dask to store.
Everything runs in the worker's event loop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from raycompat._dask import servers as adapter
from raycompat._dask import spilling as dask_spilling
from raycompat._dask import transfer
from raycompat._dask import worker as dask_worker
from raycompat._messages.actors import RestartActor
from raycompat._messages.calls import (
    CancelCall,
    CancelDirect,
    Credit,
    End,
    GrantCall,
    ItemMade,
    Result,
)
from raycompat._messages.executors import (
    ExecutorLooked,
    Exiting,
    HandOver,
    ItemYielded,
    Leased,
    NeedFunction,
)
from raycompat._messages.jobs import BeginJob, ForgetFunctions, JobEnded, NamesFramework
from raycompat._messages.leases import Revoke
from raycompat._messages.logs import FlushOutput, LogNames, OutputPrinted, ReadLog
from raycompat._messages.nodes import NodeInfo, OpenChannel
from raycompat._messages.objects import Discard, ExpectedValues, Fetch, NotAdopted
from raycompat._messages.packages import ReadPackage
from raycompat._messages.relays import RelayClose, RelayData, RelayOpen
from raycompat._messages.watching import Gpus, ListStacks, Look, Measured, ProcessEnded, StackShown
from raycompat._node import accelerators, labels, numbers
from raycompat._node.actors import Actors
from raycompat._node.calls import Calls
from raycompat._node.executor_pool import Executor, ExecutorPool
from raycompat._node.fetcher import Fetcher
from raycompat._node.gpu_watch import GpuWatch
from raycompat._node.granted_calls import GrantedCalls
from raycompat._node.ground import Ground
from raycompat._node.jobs import Jobs
from raycompat._node.leases import Leases
from raycompat._node.log_files import LogFiles
from raycompat._node.logs import Logs
from raycompat._node.looks import Looks
from raycompat._node.memory_monitor import Candidate, MemoryMonitor
from raycompat._node.object_store import ObjectStore
from raycompat._node.relay import Relays
from raycompat._node.runtime_env import RuntimeEnvs
from raycompat._node.stacks import Stacks
from raycompat._node.tasks import Tasks
from raycompat._pickling.serialization import serialize
from raycompat._protocol import failures, ids, liveness
from raycompat._protocol.message import FromExecutor, FromNode, Handler, ask, handled
from raycompat._protocol.resource_set import TYPE_RESOURCE, ResourceSet
from raycompat._protocol.strategy import NODE_ID_LABEL, TYPE_LABEL
from raycompat._protocol.values import CallFailed
from raycompat._protocol.version import VERSION

if TYPE_CHECKING:
    from distributed import Worker

logger = logging.getLogger(__name__)

#: Share of a node's memory that tasks can request with ``memory=``; the rest is for objects.
_TASK_MEMORY_SHARE = 0.7

#: Seconds between a failed call and a garbage collection, and between two collections.
_GARBAGE_DELAY_S = 0.5

#: Seconds between two checks for memory that has not been used for a while.
_TIDY_S = 5.0


class Node:
    """All parts of one node."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.id = ids.new_node_id()
        self.ip = worker.address.split("://")[1].rpartition(":")[0]
        #: Names of the Unix sockets on which executors accept calls, by actor or lease.
        self.sockets: dict[str, str] = {}
        self._collection_due = False
        self._is_closed = False
        directory = Path(worker.local_directory)
        self._spill_directory = directory / "raycompat-segments"
        self._spill_directory.mkdir(parents=True, exist_ok=True)
        totals = self._totals()
        self.numbers = numbers.Numbers(totals)
        self.labels = self._labels(totals)
        self.store = ObjectStore(str(self._spill_directory), int(totals["object_store_memory"]))
        self.info = self._describe(totals)
        self.logs = Logs(directory / "raycompat-logs", self.id, self.ip, self.tell)
        self.envs = RuntimeEnvs(
            directory / "raycompat-runtime-envs",
            lambda uri, offset: ask(worker.scheduler, ReadPackage(uri, offset)),
        )
        self.pool = ExecutorPool(
            num_cpus=max(1, worker.state.nthreads),
            on_message=self._on_message,
            on_end=self._on_end,
            goes_on=lambda job: job in self.jobs.setups,
            logs=self.logs,
        )
        ground = Ground(
            worker=worker,
            id=self.id,
            ip=self.ip,
            labels=self.labels,
            tell=self.tell,
            numbers=self.numbers,
            store=self.store,
            logs=self.logs,
            envs=self.envs,
            pool=self.pool,
            sockets=self.sockets,
        )
        self.granted = GrantedCalls(ground)
        self.jobs = Jobs(ground)
        self.tasks = Tasks(ground, self.granted, self.jobs, self.collect_garbage_soon)
        self.leases = Leases(ground, self.granted, self.jobs)
        self.actors = Actors(ground, self.granted, self.jobs)
        self.calls = Calls(self.pool, self.granted, self.actors, self.leases)
        self.relays = Relays(worker, lambda key: self.sockets[key])
        self.looks = Looks(ground, self.granted)
        self.stacks = Stacks(ground, self.granted)
        self._memory = MemoryMonitor(
            self._memory_limit(),
            self._pids,
            self.pool.ask_what_is_owned,
            self._candidates,
            self._end_for_memory,
            self.store.spare,
        )
        self._gpu_watch = GpuWatch(
            accelerators.watched_ids(),
            self._gpus_held,
            lambda gpus: self.tell(Gpus(gpus)),
        )

    def _gpus_held(self) -> dict[int, list[int]]:
        """Return the indices of the GPUs that each process of this node holds."""
        held: dict[int, list[int]] = {pid: [] for pid in self._pids()}
        for each in self.granted.by_key.values():
            if each.executor is not None:
                held[each.executor.pid] = [index for index, _ in each.grant["gpus"]]
        return held

    def start(self) -> None:
        """Start the forkserver, the pulse, and the regular checks."""
        transfer.keep_in(self.store, self.store.place.host)
        self._unlimit_spilling = dask_spilling.limit_spilling(
            self.worker, self.store.room_on_disk, self.store.bytes_on_disk
        )
        self.pool.start()
        self.pool.background(self.pool.start_pulse(self._pulse()))
        self._memory.start()
        self._gpu_watch.start()
        self._tidy()

    def _pulse(self) -> dict[str, object]:
        """Return the settings of the process that sends this node's pulse."""
        return {
            "node": os.getpid(),
            "address": self.worker.address,
            "scheduler": self.worker.scheduler.address,
            "security": adapter.client_security(self.worker),
            "limit_s": liveness.node_timeout_s(),
        }

    def close(self) -> None:
        """End all processes and remove all segments."""
        self.jobs.setups.clear()  # so that no call is retried
        self.jobs.take_back()
        self._memory.stop()
        self._gpu_watch.stop()
        self._tidying.cancel()
        self._unlimit_spilling()
        self.relays.close_all()
        self.looks.close()
        self.pool.close()
        self.logs.close()
        self.store.close()
        self.envs.close()
        shutil.rmtree(self._spill_directory, ignore_errors=True)
        self._is_closed = True  # the last output has been sent

    def tell(self, message: FromNode) -> None:
        """Send a message to the scheduler plugin; fail the call of one that cannot be encoded."""
        if self._is_closed:
            return
        try:
            dask_worker.tell_scheduler(self.worker, message)
        except OSError:  # the connection is closed
            raise
        except Exception as error:
            logger.error("raycompat could not send the message %s: %s", message.op, error)
            if isinstance(message, Result | ItemMade):
                failure = failures.unwritable("The answer of the call", repr(error))
                self.tell(Result(message.key, message.owner, pid=None, error=failure))

    def stream_handlers(self) -> dict[str, Handler]:
        """Return the handler of each kind of message from the scheduler plugin."""
        calls, jobs, logs, relays = self.calls, self.jobs, self.logs, self.relays
        return dict(
            [
                handled(BeginJob, jobs.begin),
                handled(JobEnded, jobs.end),
                handled(NamesFramework, jobs.note_framework),
                handled(ForgetFunctions, jobs.forget_code),
                handled(GrantCall, calls.grant),
                handled(CancelCall, calls.cancel),
                handled(CancelDirect, calls.cancel_direct),
                handled(Credit, calls.credit),
                handled(End, calls.end),
                handled(Revoke, self.leases.revoke),
                handled(RestartActor, self.actors.restart),
                handled(Discard, lambda message: self.store.discard(message.wire)),
                handled(OutputPrinted, logs.printed),
                handled(FlushOutput, logs.flush),
                handled(Look, self.looks.look),
                handled(RelayOpen, relays.open),
                handled(RelayData, relays.write),
                handled(RelayClose, relays.close),
            ]
        )

    def handlers(self) -> dict[str, Callable[..., Any]]:
        """Return the handlers of requests from callers."""
        files, fetcher = LogFiles(self.logs.directory), Fetcher(self.worker, self.store)
        return {
            OpenChannel.op: self.relays.serve,  # Dask gives it the connection
            **dict(
                [
                    Fetch.answered(lambda it: fetcher.fetch(it.keys, it.host)),
                    LogNames.answered(lambda it: files.names(it.pattern)),
                    ReadLog.answered(files.read),
                    ListStacks.answered(lambda it: self.stacks.show(it.pid)),
                ]
            ),
        }

    # --- description ----------------------------------------------------------------------------

    def _totals(self) -> dict[str, float]:
        """Return this node's resources: those that its worker declares, else those that are found."""
        memory, declared = self._memory_limit(), self.worker.state.total_resources
        totals = {
            "CPU": self.worker.state.nthreads,
            **({} if "GPU" in declared else {"GPU": accelerators.detect_gpus()}),
            **numbers.detected(),
            "memory": int(memory * _TASK_MEMORY_SHARE),
            "object_store_memory": int(memory * (1 - _TASK_MEMORY_SHARE)),
            f"node:{self.ip}": 1,
            **declared,
        }
        kind = accelerators.type_of(totals)
        return {**totals, f"{TYPE_RESOURCE}{kind}": 1} if kind is not None else totals

    def _gpu_ids(self) -> list[str]:
        """Return the ids of the GPUs that were found; empty if the worker declares how many it has."""
        if "GPU" in self.worker.state.total_resources:
            return []
        return accelerators.global_ids()

    def _labels(self, totals: dict[str, float]) -> dict[str, str]:
        """Return this node's labels: its id, the type of its GPUs, and those that it declares."""
        kind = accelerators.type_of(totals)
        of_gpus = {TYPE_LABEL: kind} if kind is not None else {}
        return {**of_gpus, **labels.read(), NODE_ID_LABEL: self.id}

    def _memory_limit(self) -> int:
        return self.worker.memory_manager.memory_limit or psutil.virtual_memory().total

    def _describe(self, totals: dict[str, float]) -> NodeInfo:
        return {
            "node_id": self.id,
            "version": VERSION,
            "total": ResourceSet.from_amounts(totals, whole_gpus=False).units(),
            "gpu_ids": self._gpu_ids(),
            "ip": self.ip,
            "name": os.environ.get(labels.NAME_VARIABLE) or self.ip,
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "started": time.time(),
            "host": self.store.place.host,
            "place": self.store.place.describe(),
            "labels": self.labels,
        }

    # --- bodies of Dask's tasks (see `task_bodies`) ---------------------------------------------------

    async def run_call(self, key: str, payload: bytes, values: tuple[object, ...]) -> object:
        """Run a call in an executor and return what Dask is to store."""
        return await self.tasks.run(key, payload, values)

    async def run_lease(self, key: str) -> object:
        """Lease an executor to a caller until the lease ends."""
        return await self.leases.run(key)

    async def run_actor(self, key: str, payload: bytes, values: tuple[object, ...]) -> object:
        """Run an actor until it ends for good."""
        return await self.actors.run(key, payload, values)

    def adopt(self, key: str, wire: tuple[object, ...]) -> object:
        """Store a value that a process of this host wrote (see `task_bodies.adopt`)."""
        try:
            return self.store.adopt(wire)
        except FileNotFoundError as error:
            owner_died = failures.owner_died(key)
            self.tell(NotAdopted(key, owner_died))
            text = "the value of a put is lost, because the process that put it has ended"
            raise CallFailed(owner_died, text) from error

    def load(self, stored: Any) -> Any:
        """Return the value of an object for one of Dask's own tasks (see `task_bodies.load`)."""
        return self.store.load(stored)

    def store_value(self, value: object) -> object:
        """Return what Dask is to store for a value that it has computed (see `task_bodies.store`)."""
        block, found = serialize(value)
        if found:
            raise TypeError(
                "A value of Dask contains ObjectRefs, which only values of tasks and actors can have."
            )
        return self.store.receive(block)

    # --- messages from executors ----------------------------------------------------------------

    def _on_message(self, executor: Executor, message: FromExecutor) -> None:
        match message:
            case Leased():
                self.leases.begun(message.key)
            case ItemYielded():
                self._on_item(message)
            case NeedFunction():
                self.pool.background(self.jobs.send_function(executor, message.function))
            case HandOver():
                self.store.hand_over(message.wire, client=message.client)
            case Exiting():
                self.actors.note_exit(message.key, message.error)
            case ExecutorLooked():
                self.looks.on_answer(executor, message)
            case StackShown():
                self.stacks.on_answer(executor, message)
            case Measured():
                executor.measures_as = message.process
                self.tell(message)
            case FromNode():  # the scheduler gets it as it is
                self.tell(message)

    def _on_end(self, executor: Executor) -> None:
        if executor.exit_code == 0 and executor.kind[0] in self.jobs.setups:
            self.store.leave_to_callers(executor.pid, executor.kind[0])
        else:
            self.store.clean_up_after(executor.pid)
        self.looks.lose(executor)
        self.stacks.lose(executor)
        if executor.measures_as:
            self.tell(ProcessEnded(executor.measures_as))

    def _on_item(self, message: ItemYielded) -> None:
        key, index = message.key, message.index
        running = self.granted.by_key.get(key)
        if running is None:
            return
        owner = running.grant["owner"]
        self.store.hand_over(message.wire, owner)
        self.tell(ItemMade(key, owner, ids.return_key(key, index), index, message.wire))

    # --- memory ---------------------------------------------------------------------------------

    def _pids(self) -> list[int]:
        return [os.getpid(), *self.pool.pids]

    def _candidates(self) -> list[Candidate]:
        owner = "a process that had made actors or objects, or called tasks, that are in use"
        idle = [
            Candidate(each, owner if each.owns else "", is_retryable=False, is_owner=each.owns)
            for each in self.pool.idle
        ]
        return idle + [
            Candidate(
                each.executor,
                each.grant["name"],
                is_retryable=each.is_retryable,
                is_owner=each.executor.owns,
            )
            for each in self.granted.by_key.values()
            if each.executor is not None
        ]

    def _end_for_memory(self, victim: Candidate, shortage: str) -> None:
        victim.executor.ended_for_memory = text = (
            f"The node at {self.ip} was running low on memory, so the newest process that could be "
            f"retried was ended there: {victim.name or 'a process that was idle'}. {shortage} Request "
            "more CPUs, or memory=, in the options of calls that need much memory, so that fewer of "
            "them run at once; or use nodes with more memory."
        )
        if victim.name:
            logger.warning("%s", text)
        self.pool.kill(victim.executor)

    def _tidy(self) -> None:
        try:
            if self.store.keeps_anything:
                gc.collect()  # tracebacks of failed transfers keep values alive
            self.store.tidy()
            if handed_over := self.store.handed_over:
                self.pool.background(self._withdraw(handed_over))
        finally:  # a failure is logged, and the next round still runs
            self._tidying = asyncio.get_running_loop().call_later(_TIDY_S, self._tidy)

    async def _withdraw(self, handed_over: dict[str, str]) -> None:
        """Remove values from a process that died before it announced them to the scheduler."""
        scheduler = self.worker.scheduler
        try:
            expected = await ask(scheduler, ExpectedValues(handed_over))
        except OSError:  # the scheduler has ended, so this node ends too
            return
        self.store.withdraw(handed_over.keys() - set(expected))

    def collect_garbage_soon(self) -> None:
        """Collect garbage soon, to free the arguments of a failed Dask task.

        Dask keeps its exception, frames and arguments in a reference cycle. A node with little to do
        might not collect garbage for a long time, and would keep the arguments' segments.
        """
        if not self._collection_due:
            self._collection_due = True
            asyncio.get_running_loop().call_later(_GARBAGE_DELAY_S, self._collect_garbage)

    def _collect_garbage(self) -> None:
        self._collection_due = False
        gc.collect()
