"""A node: what a Dask worker has and does for raycompat, in parts that know one another by this.

The road of a call here: the scheduler's grant comes first (`Calls.grant`), then Dask starts the call's
body, which has an executor run it (`Tasks.run`) and returns what that answers, for Dask to store.
Everything runs on the worker's event loop.
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

from raycompat import _dask_adapter as dask
from raycompat import _transfer
from raycompat._node import accelerators, labels
from raycompat._node.actors import Actors
from raycompat._node.calls import Calls
from raycompat._node.executor_pool import Executor, ExecutorPool
from raycompat._node.fetcher import Fetcher
from raycompat._node.jobs import Jobs
from raycompat._node.leases import Leases
from raycompat._node.log_files import LogFiles
from raycompat._node.logs import Logs
from raycompat._node.looks import Looks
from raycompat._node.memory_monitor import Candidate, MemoryMonitor
from raycompat._node.object_store import ObjectStore
from raycompat._node.relay import Relays
from raycompat._node.runtime_env import RuntimeEnvs
from raycompat._node.tasks import Tasks
from raycompat._protocol import failures, ids, liveness
from raycompat._protocol.operations import ToNode, ToScheduler
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.serialization import serialize
from raycompat._protocol.spans import Span
from raycompat._protocol.strategy import NODE_ID_LABEL
from raycompat._protocol.values import CallFailed
from raycompat._protocol.version import VERSION

if TYPE_CHECKING:
    from distributed import Worker

logger = logging.getLogger(__name__)

#: Share of a node's memory that tasks may ask for with ``memory=``; the rest is for stored objects.
_TASK_MEMORY_SHARE = 0.7

#: Seconds between a failed call and the collection of what it left, and between collections.
_GARBAGE_DELAY_S = 0.5

#: Seconds between two looks for memory that nobody has wanted for a while.
_TIDY_S = 5.0


class Node:
    """See the module."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.id = ids.new_node_id()
        self.labels = {**labels.read(), NODE_ID_LABEL: self.id}
        self.ip = worker.address.split("://")[1].rpartition(":")[0]
        #: Names of the Unix sockets on which executors take calls, by actor or lease.
        self.sockets: dict[str, str] = {}
        self._collection_due = False
        directory = Path(worker.local_directory)
        self._spill_directory = directory / "raycompat-segments"
        self._spill_directory.mkdir(parents=True, exist_ok=True)
        totals = self._totals()
        self.store = ObjectStore(str(self._spill_directory), int(totals["object_store_memory"]))
        self.info = self._describe(totals)
        self.logs = Logs(directory / "raycompat-logs", self.ip, self.tell)
        self.envs = RuntimeEnvs(
            directory / "raycompat-runtime-envs",
            lambda uri, offset: worker.scheduler.raycompat_package_read(uri=uri, offset=offset),
        )
        self.jobs = Jobs(self)
        self.calls = Calls(self)
        self.tasks = Tasks(self)
        self.leases = Leases(self)
        self.actors = Actors(self)
        self.relays = Relays(worker, lambda key: self.sockets[key])
        self.looks = Looks(self)
        self.pool = ExecutorPool(
            max_idle=2 * max(1, worker.state.nthreads),
            on_message=self._on_message,
            on_end=self._on_end,
            goes_on=lambda job: job in self.jobs.setups,
            logs=self.logs,
        )
        self._memory = MemoryMonitor(
            self._memory_limit(),
            self._pids,
            self._candidates,
            self._end_for_memory,
            self.store.spare,
        )

    def start(self) -> None:
        """Start the forkserver and what looks after this node."""
        _transfer.keep_in(self.store)
        self.pool.start()
        self.pool.background(self.pool.start_pulse(self._pulse()))
        self._memory.start()
        self._tidy()

    def _pulse(self) -> dict[str, Any]:
        """Return what the process needs to know that says that this node is there."""
        return {
            "node": os.getpid(),
            "address": self.worker.address,
            "scheduler": self.worker.scheduler.address,
            "security": dask.client_security(self.worker),
            "limit_s": liveness.node_timeout_s(),
        }

    def close(self) -> None:
        """End every process and remove every segment."""
        self.jobs.setups.clear()  # so that nothing is tried again
        self._memory.stop()
        self._tidying.cancel()
        self.relays.close_all()
        self.looks.close()
        self.pool.close()
        self.logs.close()
        self.store.close()
        self.envs.close()
        shutil.rmtree(self._spill_directory, ignore_errors=True)

    def tell(self, message: dict[str, Any]) -> None:
        """Tell the scheduler's part something."""
        dask.tell_scheduler(self.worker, message)

    def stream_handlers(self) -> dict[str, Callable[..., None]]:
        """Return what handles each kind of message of the scheduler's part."""
        calls, jobs, logs, relays = self.calls, self.jobs, self.logs, self.relays
        return {
            ToNode.JOB: jobs.begin,
            ToNode.JOB_ENDED: jobs.end,
            ToNode.NAMES_TENSORFLOW: jobs.note_tensorflow,
            ToNode.GRANT: calls.grant,
            ToNode.CANCEL: calls.cancel,
            ToNode.CANCEL_DIRECT: calls.cancel_direct,
            ToNode.CREDIT: calls.credit,
            ToNode.END: calls.end,
            ToNode.REVOKE: self.leases.revoke,
            ToNode.RESTART_ACTOR: self.actors.restart,
            ToNode.DISCARD: self.store.discard,
            ToNode.LOG_PRINTED: logs.printed,
            ToNode.FLUSH_LOGS: logs.flush,
            ToNode.LOOK: self.looks.look,
            ToNode.RELAY_OPEN: relays.open,
            ToNode.RELAY_DATA: relays.write,
            ToNode.RELAY_CLOSE: relays.close,
        }

    def handlers(self) -> dict[str, Callable[..., Any]]:
        """Return what answers callers."""
        files = LogFiles(self.logs.directory)
        return {
            "raycompat_channel": self.relays.serve,
            "raycompat_fetch": Fetcher(self.worker, self.store).fetch,
            "raycompat_log_names": files.names,
            "raycompat_log_read": files.read,
        }

    # --- what it is -----------------------------------------------------------------------------

    def _totals(self) -> dict[str, float]:
        """Return what this node has: what its worker declares, above what is found."""
        memory, state = self._memory_limit(), self.worker.state
        return {
            "CPU": state.nthreads,
            "GPU": accelerators.detect_gpus(),
            "memory": int(memory * _TASK_MEMORY_SHARE),
            "object_store_memory": int(memory * (1 - _TASK_MEMORY_SHARE)),
            f"node:{self.ip}": 1,
            **state.total_resources,
        }

    def _memory_limit(self) -> int:
        return self.worker.memory_manager.memory_limit or psutil.virtual_memory().total

    def _describe(self, totals: dict[str, float]) -> dict[str, Any]:
        return {
            "node_id": self.id,
            "version": VERSION,
            "total": ResourceSet.from_amounts(totals, whole_gpus=False).units(),
            "ip": self.ip,
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "started": time.time(),
            "place": self.store.place.describe(),
            "labels": self.labels,
        }

    # --- bodies of Dask's tasks (see `entry`) ---------------------------------------------------

    async def run_call(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Run a call in an executor and return what Dask is to store."""
        return await self.tasks.run(key, payload, values)

    async def run_lease(self, key: str) -> Any:
        """Let a caller have an executor until it wants it no more."""
        return await self.leases.run(key)

    async def run_actor(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Keep an actor as long as it lives, through its restarts."""
        return await self.actors.run(key, payload, values)

    def adopt(self, key: str, wire: tuple[Any, ...]) -> Any:
        """Take what a process of this host wrote into Dask's keeping (see `entry.adopt`)."""
        try:
            return self.store.adopt(wire)
        except FileNotFoundError as error:
            owner_died = failures.owner_died(key)
            message = {"op": ToScheduler.NOT_ADOPTED, "key": key, "error": owner_died}
            self.tell(message)
            text = "the value of a put is gone with the process that made it"
            raise CallFailed(owner_died, text) from error

    def load(self, stored: Any) -> Any:
        """Return the value that is stored, for one of Dask's own tasks (see `entry.load`)."""
        return self.store.load(stored)

    def store_value(self, value: Any) -> Any:
        """Return what Dask is to store for a value that it has computed (see `entry.store`)."""
        block, found = serialize(value)
        if found:
            raise TypeError(
                "What Dask has computed contains ObjectRefs, which only tasks and actors can have."
            )
        return self.store.receive(block)

    # --- what executors say ---------------------------------------------------------------------

    def _on_message(self, executor: Executor, operation: str, key: str, rest: list[Any]) -> None:
        if operation == "blocked":
            self.tell({"op": ToScheduler.BLOCKED, "key": key})
        elif operation == "unblocked":
            self.tell({"op": ToScheduler.UNBLOCKED, "key": key})
        elif operation == "leased":
            self.leases.begun(key)
        elif operation == "trimmed":
            self.tell({"op": ToScheduler.LEASE_TRIMMED, "key": key, "units": rest[0]})
        elif operation == "item":
            self._on_item(key, *rest)
        elif operation == "function":
            self.pool.background(self.jobs.send_function(executor, key))
        elif operation == "hand-over":
            self.store.hand_over(rest[0], client=key)
        elif operation == "exiting":
            self.actors.note_exit(key, rest[0])
        elif operation in ("spans", "running", "measured"):
            self._on_report(executor, operation, key, *rest)
        else:
            logger.error("an executor said %r, which nobody knows", operation)

    def _on_report(self, executor: Executor, operation: str, key: str, *rest: Any) -> None:
        """Pass on what is told for whoever watches."""
        if operation == "spans":
            self._on_spans(executor, key, rest[0])
        elif operation == "running":
            self.looks.hear(executor, *rest)
        else:
            self.tell({"op": ToScheduler.MEASURED, "process": key, "measured": rest[0]})

    def _on_spans(self, executor: Executor, key: str, spans: list[Span]) -> None:
        message = {"op": ToScheduler.SPANS, "key": key, "pid": executor.pid}
        message["job"] = executor.kind[0]
        self.tell({**message, "spans": [span.to_wire() for span in spans]})

    def _on_end(self, executor: Executor) -> None:
        self.store.clean_up_after(executor.pid)
        self.looks.lose(executor)

    def _on_item(self, key: str, index: int, wire: tuple[Any, ...]) -> None:
        running = self.calls.granted.get(key)
        if running is None:
            return
        self.store.hand_over(wire, running.grant["owner"])
        message = {
            "op": ToScheduler.ITEM,
            "key": key,
            "owner": running.grant["owner"],
            "item": ids.return_key(key, index),
            "index": index,
            "wire": wire,
        }
        self.tell(message)

    # --- memory ---------------------------------------------------------------------------------

    def _pids(self) -> list[int]:
        return [os.getpid(), *self.pool.pids]

    def _candidates(self) -> list[Candidate]:
        # What dies with an owner is not tried again: it goes last.
        owning = "a process that had made actors or objects, or called tasks, that are in use"
        idle = [
            Candidate(each, owning, is_retryable=False)
            if each.owns
            else Candidate(each, "", is_retryable=True)
            for each in self.pool.idle
        ]
        return idle + [
            Candidate(each.executor, each.grant["name"], each.is_retryable)
            for each in self.calls.granted.values()
            if each.executor is not None
        ]

    def _end_for_memory(self, victim: Candidate, shortage: str) -> None:
        victim.executor.ended_for_memory = text = (
            f"The node at {self.ip} was running low on memory, so the newest of what can be tried "
            f"again was ended there: {victim.name or 'a process that was idle'}. {shortage} Ask for "
            "more CPUs or for memory= in the options of what needs much, so that less of it runs at "
            "once; or use nodes with more memory."
        )
        if victim.name:
            logger.warning("%s", text)
        self.pool.kill(victim.executor)

    def _tidy(self) -> None:
        try:
            if self.store.keeps_anything:
                gc.collect()  # tracebacks of Dask's failed transfers have values in their frames
            self.store.tidy()
            if handed_over := self.store.handed_over:
                self.pool.background(self._withdraw(handed_over))
        finally:  # one failure is logged, and does not end the tidying
            self._tidying = asyncio.get_running_loop().call_later(_TIDY_S, self._tidy)

    async def _withdraw(self, handed_over: dict[str, str]) -> None:
        """Remove what a process handed over that died before it told the scheduler."""
        scheduler = self.worker.scheduler
        try:
            expected = await scheduler.raycompat_expected(handed_over=handed_over)
        except OSError:  # the scheduler is gone, and this node ends
            return
        self.store.withdraw(handed_over.keys() - set(expected))

    def collect_garbage_soon(self) -> None:
        """Break the cycle that Dask makes of a failed task's exception, frames and arguments.

        It would keep the arguments' segments until Python happens to collect garbage, which a node
        with little to do does not for a long time.
        """
        if not self._collection_due:
            self._collection_due = True
            asyncio.get_running_loop().call_later(_GARBAGE_DELAY_S, self._collect_garbage)

    def _collect_garbage(self) -> None:
        self._collection_due = False
        gc.collect()
