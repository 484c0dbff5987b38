"""The node plugin: what a Dask worker does for raycompat.

The road of a call here: the scheduler's grant comes first, then Dask starts the call's body
(`NodePlugin.run_call`), which hands it to an executor and returns what the executor answers, for Dask
to store. Everything runs on the worker's event loop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import socket
import uuid
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import distributed
import psutil

from raycompat import _dask_adapter as dask
from raycompat import _transfer
from raycompat._node import accelerators, labels
from raycompat._node.executor_pool import (
    LEAVE_S,
    Executor,
    ExecutorDied,
    ExecutorPool,
    describe_exit,
)
from raycompat._node.fetcher import Fetcher
from raycompat._node.logs import Logs
from raycompat._node.memory_monitor import Candidate, MemoryMonitor
from raycompat._node.object_store import ObjectStore
from raycompat._node.relay import Relays
from raycompat._node.runtime_env import Prepared, RuntimeEnvFailed, RuntimeEnvs
from raycompat._protocol import entry, failures, ids, runtime_env
from raycompat._protocol.call_spec import Grant
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.serialization import serialize
from raycompat._protocol.strategy import NODE_ID_LABEL
from raycompat._protocol.values import CallFailed, SegmentValue, SeveralValues, to_wire
from raycompat._protocol.version import VERSION

if TYPE_CHECKING:
    from distributed import Worker

logger = logging.getLogger(__name__)

#: Share of a node's memory that tasks may ask for with ``memory=``; the rest is for stored objects.
_TASK_MEMORY_SHARE = 0.7


#: Seconds between a failed call and the collection of what it left, and between collections.
_GARBAGE_DELAY_S = 0.5


#: Seconds that an executor has to say which call it runs.
_ANSWER_S = 1.0


#: Seconds between two looks for memory that nobody has wanted for a while.
_TIDY_S = 5.0


class _Ended(Exception):
    """Nobody wants the call any more."""


#: The plugin that runs on a worker.
_plugins: weakref.WeakKeyDictionary[Worker, NodePlugin] = weakref.WeakKeyDictionary()


@dataclass(slots=True, eq=False)
class Running:
    """A call that this node has been granted."""

    grant: Grant
    executor: Executor | None = None
    begun: bool = False
    cancelled: bool = False
    #: What it fails with when it is cancelled, if not with that: a pickled error.
    failure: bytes | None = None
    ended: bool = False
    is_dropped: bool = False
    #: The process that ran it last.
    process: Executor | None = None


@dataclass(slots=True, eq=False)
class Actor:
    """An actor that lives on this node: its process."""

    executor: Executor
    #: Why it died or is about to for good: a pickled error for whoever waits for it.
    error: bytes | None = None
    #: Whether somebody has killed its process, to be started anew if it has restarts left.
    is_killed: bool = False


def _is_retryable(running: Running) -> bool:
    grant = running.grant
    if grant["actor"] is not None:
        return grant["actor"]["max_restarts"] != 0
    return grant["kind"] == "lease" or grant["retries"] != 0


class NodePlugin(distributed.WorkerPlugin):
    """See the module. One per worker, registered idempotently by every driver."""

    name = entry.PLUGIN_NAME
    idempotent = True
    #: Whether it has been taken away from a worker that goes on.
    _is_leaving = False

    async def setup(self, worker: Worker) -> None:
        """Start the forkserver and the store, and report to the scheduler plugin.

        A worker that joins while the first driver registers the plugin gets it twice: in the answer to
        its registration, and by the broadcast. The one that runs already goes on then.
        """
        running = _plugins.get(worker)
        if running is not None:
            running._is_leaving = False
            worker.plugins[self.name] = running
            return
        self._worker = worker
        self._granted: dict[str, Running] = {}
        self._actors: dict[str, Actor] = {}
        #: Names of the Unix sockets on which executors take calls, by actor or lease.
        self._sockets: dict[str, str] = {}
        self._relays = Relays(worker, lambda key: self._sockets[key])
        self._jobs: dict[str, dict[str, Any]] = {}
        self._collection_due = False
        gc.freeze()  # what is there already need not be looked at by later collections
        self._functions: dict[str, asyncio.Task[bytes]] = {}
        self.node_id = ids.new_node_id()
        try:
            self.labels = {**labels.read(), NODE_ID_LABEL: self.node_id}
        except ValueError as error:
            message = {"op": "raycompat-unfit", "reason": str(error)}
            dask.tell_scheduler(worker, message)
            raise
        directory = os.path.join(worker.local_directory, "raycompat-segments")
        os.makedirs(directory, exist_ok=True)
        self._spill_directory = directory
        totals = self._totals(worker)
        self.store = ObjectStore(directory, int(totals["object_store_memory"]))
        _transfer.keep_in(self.store)
        info = self._describe(totals)
        self._logs = Logs(
            Path(worker.local_directory, "raycompat-logs"),
            self.ip,
            lambda message: dask.tell_scheduler(worker, message),
        )
        self._envs = RuntimeEnvs(
            Path(worker.local_directory, "raycompat-runtime-envs"),
            lambda uri, offset: worker.scheduler.raycompat_package_read(uri=uri, offset=offset),
        )
        self._pool = ExecutorPool(
            max_idle=2 * max(1, worker.state.nthreads),
            on_message=self._on_message,
            on_end=lambda executor: self.store.clean_up_after(executor.pid),
            logs=self._logs,
        )
        self._pool.start()
        self._memory = MemoryMonitor(
            self._memory_limit(worker), self._pids, self._candidates, self._end_for_memory
        )
        self._memory.start()
        worker.stream_handlers.update(
            {
                "raycompat-job": self._open_job,
                "raycompat-job-ended": self._end_job,
                "raycompat-names-tensorflow": self._note_tensorflow,
                "raycompat-grant": self._on_grant,
                "raycompat-cancel": self._on_cancel,
                "raycompat-end": self._on_end,
                "raycompat-cancel-direct": self._on_cancel_direct,
                "raycompat-revoke": self._on_revoke,
                "raycompat-restart-actor": self._on_restart,
                "raycompat-discard": self.store.discard,
                "raycompat-log-printed": self._logs.printed,
                "raycompat-flush-logs": self._logs.flush,
                "raycompat-relay-open": self._relays.open,
                "raycompat-relay-data": self._relays.write,
                "raycompat-relay-close": self._relays.close,
            }
        )
        worker.handlers["raycompat_channel"] = self._relays.serve
        worker.handlers["raycompat_fetch"] = Fetcher(worker, self.store).fetch
        self._tidy()
        dask.send_batches_at_once(worker)
        dask.tell_scheduler(worker, {"op": "raycompat-node", "info": info})
        _plugins[worker] = self

    async def teardown(self, worker: Worker) -> None:
        """End every process and remove every segment, unless this plugin is about to come again."""
        if dask.is_closing(worker):
            self._end()
            return
        # Dask takes a plugin away before it adds one of the same name, without a pause in between.
        self._is_leaving = True
        asyncio.get_running_loop().call_soon(self._leave)

    def _leave(self) -> None:
        if self._is_leaving:
            self._end()

    def _end(self) -> None:
        _plugins.pop(self._worker, None)
        self._jobs.clear()  # so that nothing is tried again
        self._memory.stop()
        self._tidying.cancel()
        self._relays.close_all()
        self._pool.close()
        self._logs.close()
        self.store.close()
        self._envs.close()
        shutil.rmtree(self._spill_directory, ignore_errors=True)

    def _tidy(self) -> None:
        if self.store.keeps_anything:
            gc.collect()  # tracebacks of Dask's failed transfers have values in their frames
        self.store.tidy()
        self._tidying = asyncio.get_running_loop().call_later(_TIDY_S, self._tidy)

    def _totals(self, worker: Worker) -> dict[str, float]:
        """Return what this node has: what its worker declares, above what is found."""
        memory = self._memory_limit(worker)
        self.ip = worker.address.split("://")[1].rpartition(":")[0]
        return {
            "CPU": worker.state.nthreads,
            "GPU": accelerators.detect_gpus(),
            "memory": int(memory * _TASK_MEMORY_SHARE),
            "object_store_memory": int(memory * (1 - _TASK_MEMORY_SHARE)),
            f"node:{self.ip}": 1,
            **worker.state.total_resources,
        }

    @staticmethod
    def _memory_limit(worker: Worker) -> int:
        return worker.memory_manager.memory_limit or psutil.virtual_memory().total

    def _describe(self, totals: dict[str, float]) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "version": VERSION,
            "total": ResourceSet.from_amounts(totals, whole_gpus=False).units(),
            "ip": self.ip,
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "place": self.store.place.describe(),
            "labels": self.labels,
        }

    # --- what the scheduler plugin says ---------------------------------------------------------

    def _open_job(self, job: str, namespace: str, setup: dict[str, Any]) -> None:
        if setup["log_to_driver"]:
            self._logs.follow(job)
        self._jobs[job] = {
            **setup,
            "job": job,
            "namespace": namespace,
            "node_id": self.node_id,
            "node_pid": os.getpid(),
            "ip": self.ip,
            "gpus_are_named": accelerators.preset() is not None,
            "labels": self.labels,
            "node_address": self._worker.address,
            "scheduler": self._worker.scheduler.address,
            "security": dask.client_security(self._worker),
            "place": self.store.place.describe(),
        }
        if runtime_env.is_eager(setup["runtime_env"]):
            self._pool.background(self._prepare_early(job, setup["runtime_env"]))

    async def _prepare_early(self, job: str, environment: str) -> None:
        """Begin to set a job's environment up, before a call needs it."""
        try:
            await self._envs.prepare(job, environment)
        except RuntimeEnvFailed as failed:
            logger.warning("The runtime environment of job %s: %s", job, failed)

    def _note_tensorflow(self, job: str) -> None:
        """From now on the job's new executors have TensorFlow imported when they begin."""
        if job in self._jobs:
            self._jobs[job]["names_tensorflow"] = True

    def _end_job(self, job: str, for_good: bool) -> None:
        """Forget a job; when it has detached actors its driver only is gone, and what Dask ends."""
        self._logs.unfollow(job)
        setup = self._jobs.get(job)
        driver = (setup["driver_host"], setup["driver_pid"]) if setup is not None else None
        others = [each for name, each in self._jobs.items() if name != job]
        is_there = any((each["driver_host"], each["driver_pid"]) == driver for each in others)
        if driver is not None and driver[0] == self.store.place.host and not is_there:
            self.store.clean_up_after(driver[1])
        if for_good:
            self._functions.clear()  # what others need is asked for again
            self._jobs.pop(job, None)
            self._pool.background(self._clean_up_after(job, self._pool.end_job(job)))

    async def _clean_up_after(self, job: str, executors: list[Executor]) -> None:
        """Remove the files of a job when its executors, which run in them, have ended."""
        await asyncio.gather(*(asyncio.shield(executor.ended) for executor in executors))
        self._envs.end_job(job)

    def _on_grant(self, grant: Grant) -> None:
        self._granted[grant["key"]] = Running(grant)

    def _on_cancel(
        self, key: str, force: bool, recursive: bool, error: bytes | None = None
    ) -> None:
        running = self._granted.get(key)
        if running is None:
            return
        running.cancelled = True
        running.failure = error
        if running.executor is None:
            return
        if force:
            self._pool.kill(running.executor)
        else:
            running.executor.send("cancel", key, recursive)

    def _on_cancel_direct(self, party: str, key: str, force: bool, recursive: bool) -> None:
        """End a call that an actor or a leased executor was sent; by force, the executor with it."""
        holder = self._actors.get(party) or self._granted.get(party)
        executor = holder.executor if holder is not None else None
        if executor is None:
            return
        if force:
            self._pool.background(self._kill_if_running(executor, party, key))
        else:
            executor.send("cancel", key, recursive)

    async def _kill_if_running(self, executor: Executor, lease: str, key: str) -> None:
        question = f"{lease} {key}"
        asked = executor.call(question, "kill-if-running", lease, key, question)
        try:
            await asyncio.wait_for(asked, _ANSWER_S)
        except TimeoutError:  # it holds the interpreter: then it runs what it was sent
            self._pool.kill(executor)
        except ExecutorDied as died:
            logger.debug("%s was ended by force: it ended %s", key, died)

    def _on_revoke(self, key: str) -> None:
        """End a lease after the call that runs: others wait."""
        running = self._granted.get(key)
        if running is not None:
            running.cancelled = True
            if running.executor is not None:
                running.executor.send("revoke", key)

    def _on_restart(self, key: str) -> None:
        """End an actor's process; whether there is another is a matter of its restarts."""
        actor = self._actors.get(key)
        if actor is not None:
            actor.is_killed = True
            self._pool.kill(actor.executor)

    def _on_end(self, key: str, error: bytes | None = None) -> None:
        """Nobody wants this call any more, or its actor is to die."""
        running = self._granted.get(key)
        if running is None:
            return
        running.ended = True
        actor = self._actors.get(key)
        if actor is not None:
            if error is not None:
                actor.error = error
                self._pool.kill(actor.executor)
            else:
                actor.executor.leave()
        elif running.executor is not None and running.grant["kind"] == "lease":
            self._abandon(running, running.executor)
        elif running.executor is not None:
            self._pool.kill(running.executor)
        if running.executor is None:
            self._drop(running)  # its body may never start

    def _abandon(self, running: Running, executor: Executor) -> None:
        """Have an executor leave its lease, whose caller is gone, or end if it runs a call."""
        executor.send("abandon", running.grant["key"])

        def look_again() -> None:
            if running.executor is executor:
                self._pool.kill(executor)

        asyncio.get_running_loop().call_later(LEAVE_S, look_again)

    def _drop(self, running: Running) -> None:
        """Forget a call, unless it has been granted anew."""
        key = running.grant["key"]
        if self._granted.get(key) is running:
            del self._granted[key]
        if running.grant["gpus"] and not running.is_dropped:
            self._pool.background(self._free_gpus(key, running.process))
        running.is_dropped = True

    async def _free_gpus(self, key: str, process: Executor | None) -> None:
        """Say that others may have a call's GPUs: its process has memory there until it ends."""
        if process is not None:
            await asyncio.wait([process.ended], timeout=LEAVE_S)
        dask.tell_scheduler(self._worker, {"op": "raycompat-freed", "key": key})

    # --- when little memory is left -------------------------------------------------------------

    def _pids(self) -> list[int]:
        return [os.getpid(), *self._pool.pids]

    def _candidates(self) -> list[Candidate]:
        idle = [Candidate(executor, "", is_retryable=True) for executor in self._pool.idle]
        return idle + [
            Candidate(each.executor, each.grant["name"], _is_retryable(each))
            for each in self._granted.values()
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
        self._pool.kill(victim.executor)

    # --- bodies of Dask's tasks -----------------------------------------------------------------

    def adopt(self, key: str, wire: tuple[Any, ...]) -> Any:
        """Take what a process of this host wrote into Dask's keeping (see `entry.adopt`)."""
        try:
            return self.store.adopt(wire)
        except FileNotFoundError as error:
            owner_died = failures.owner_died(key)
            message = {"op": "raycompat-not-adopted", "key": key, "error": owner_died}
            dask.tell_scheduler(self._worker, message)
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

    async def run_call(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Run a call in an executor and return what Dask is to store (see `entry.run_call`)."""
        dask.secede(self._worker, key)
        running = self._granted.get(key)
        if running is None:
            return None  # taken back while Dask started it
        wires = [to_wire(value) for value in values]
        made = running.grant["made"]
        try:
            if made is not None:  # by a lease of its owner, who knows
                return self._keep_made(key, made)
            outcome = await self._run_task(running, payload, wires)
        except _Ended:
            return None
        except CallFailed:
            self._collect_garbage_soon()
            raise
        finally:
            self._drop(running)
        if outcome[0] == "failed" and any(isinstance(value, SegmentValue) for value in values):
            self._collect_garbage_soon()
        return self._finish(running, outcome)

    def _collect_garbage_soon(self) -> None:
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

    def _finish(self, running: Running, outcome: tuple[Any, ...]) -> Any:
        key, owner = running.grant["key"], running.grant["owner"]
        report = {"op": "raycompat-result", "key": key, "owner": owner}
        if outcome[0] == "failed":
            error, text = outcome[1], outcome[2]
            dask.tell_scheduler(self._worker, {**report, "error": error})
            raise CallFailed(error, text)
        stored = self._keep(outcome[1])
        dask.tell_scheduler(self._worker, {**report, "values": outcome[1]})
        return stored

    def _keep_made(self, key: str, wires: list[Any]) -> Any:
        try:
            return self._keep(wires)
        except FileNotFoundError as error:
            text = "what a leased call has returned is gone with the process that called it"
            raise CallFailed(failures.owner_died(key), text) from error

    def _keep(self, wires: list[Any]) -> Any:
        """Take what a call has returned into the node's keeping; return what Dask is to store."""
        stored = [self.store.adopt(wire) for wire in wires]
        return stored[0] if len(stored) == 1 else SeveralValues(tuple(stored))

    async def _run_task(
        self, running: Running, payload: bytes, wires: list[Any]
    ) -> tuple[Any, ...]:
        grant = running.grant
        retries = grant["retries"]
        while True:
            if running.ended or grant["job"] not in self._jobs:
                raise _Ended
            if running.cancelled:
                return self._cancelled(running)
            try:
                setup, prepared = await self._prepare(grant)
            except RuntimeEnvFailed as failed:
                return ("failed", failures.runtime_env_failed(str(failed)), str(failed), False)
            executor = await self._pool.acquire(
                self._kind(grant), setup, prepared, fresh=bool(grant["gpus"])
            )
            running.executor = running.process = executor
            try:
                outcome = await self._call(executor, running, payload, wires)
                retry = outcome[0] == "failed" and outcome[3]
            except ExecutorDied as died:
                outcome, retry = self._crashed(running, died), True
            finally:
                running.executor = None
                spent = 0 < grant["max_calls"] <= executor.calls_begun
                self._pool.release(executor, spent=spent)
            if running.ended:
                raise _Ended
            if running.cancelled or not retry or retries == 0:
                return outcome
            retries -= 1
            message = {"op": "raycompat-tried", "key": grant["key"], "retries": retries}
            dask.tell_scheduler(self._worker, message)

    def _kind(self, grant: Grant) -> tuple[Any, ...]:
        """Return what an executor must be made for: the job, and its runtime environment."""
        return (grant["job"], grant["runtime_env"])

    async def _prepare(self, grant: Grant) -> tuple[dict[str, Any], Prepared]:
        """Set a call's environment up; return what its executor is to be told and started with.

        Raises
        ------
        RuntimeEnvFailed
            When that is not possible.
        """
        setup = self._jobs[grant["job"]]
        try:
            prepared = await self._envs.prepare(grant["job"], grant["runtime_env"])
        except RuntimeEnvFailed as failed:
            raise RuntimeEnvFailed(f"[Node {self.ip}] {failed}") from failed
        about = {
            "runtime_env": grant["runtime_env"],
            "env_paths": prepared.paths,
            "cwd": prepared.cwd or setup["cwd"],
        }
        return {**setup, **about}, prepared

    async def _call(
        self, executor: Executor, running: Running, payload: bytes, wires: list[Any]
    ) -> tuple[Any, ...]:
        grant = running.grant
        if running.cancelled or running.ended:
            return self._cancelled(running)
        running.begun = True
        context: dict[str, Any] = {
            "name": grant["name"],
            "resources": grant["resources"],
            "gpus": accelerators.visible_ids(index for index, _ in grant["gpus"]),
            "group": grant["group"],
            "is_actor": False,
            "actor_name": None,
        }
        if grant["actor"] is not None:
            context["is_actor"] = True
            context["actor_name"] = grant["actor"]["name"]
            context["about"] = grant["actor"]["about"]
            context["is_async"] = grant["actor"]["is_async"]
            context["groups"] = grant["actor"]["groups"]
            context["max_concurrency"] = grant["actor"]["max_concurrency"]
            context["num_restarts"] = grant["num_restarts"]
            context["socket"] = self._sockets[grant["key"]]
        executor.logs.begin(grant["actor"]["class_name"] if grant["actor"] else grant["name"])
        return await executor.call(grant["key"], "run", grant["key"], payload, wires, context)

    def _cancelled(self, running: Running) -> tuple[Any, ...]:
        error = running.failure or failures.cancelled(running.grant["key"])
        return ("failed", error, f"{running.grant['name']} was cancelled", False)

    def _crashed(self, running: Running, died: ExecutorDied) -> tuple[Any, ...]:
        if running.cancelled:
            return self._cancelled(running)
        if running.process is not None and running.process.ended_for_memory:
            text = running.process.ended_for_memory
            return ("failed", failures.out_of_memory(text), text, True)
        text = failures.crash_text(running.grant["name"], f"ended {died}")
        return ("failed", failures.worker_crashed(text), text, True)

    async def run_lease(self, key: str) -> Any:
        """Let a caller have an executor until it wants it no more (see `entry.run_lease`)."""
        dask.secede(self._worker, key)
        running = self._granted.get(key)
        if running is None:
            return None  # taken back while Dask started it
        how, error = "", None
        try:
            if not running.cancelled and running.grant["job"] in self._jobs:
                how, is_complete = await self._serve_lease(running)
                if not is_complete:
                    text = "ended its lease with answers that its caller did not take"
                    error = failures.crashed(running.grant["name"], text)
                if running.process is not None and running.process.ended_for_memory:
                    error = failures.out_of_memory(running.process.ended_for_memory)
        except RuntimeEnvFailed as failed:
            error = failures.runtime_env_failed(str(failed))
        finally:
            self._drop(running)
        message = {"op": "raycompat-lease-ended", "key": key, "owner": running.grant["owner"]}
        dask.tell_scheduler(self._worker, {**message, "how": how, "error": error})
        return None

    async def _serve_lease(self, running: Running) -> tuple[str, bool]:
        """Return how the executor's process has ended ("" if it is there for others now).

        And, if it has not, whether all its answers were taken.
        """
        grant = running.grant
        executor = await self._pool.acquire(self._kind(grant), *await self._prepare(grant))
        running.executor = running.process = executor
        self._sockets[grant["key"]] = socket_name = f"raycompat-{uuid.uuid4().hex}"
        about = {"socket": socket_name, "resources": grant["resources"]}
        try:
            if not running.cancelled and not running.ended:
                outcome = await executor.call(grant["key"], "lease", grant["key"], about)
                return "", bool(outcome[1])
        except ExecutorDied as died:
            return f"ended {died}", True
        finally:
            running.executor = None
            del self._sockets[grant["key"]]
            self._pool.release(executor, spent=False)
        return "", True

    async def run_actor(self, key: str, payload: bytes, values: tuple[Any, ...]) -> Any:
        """Keep an actor as long as it lives, through its restarts (see `entry.run_actor`)."""
        dask.secede(self._worker, key)
        running = self._granted.get(key)
        if running is None:
            return None  # taken back while Dask started it
        grant, spec = running.grant, running.grant["actor"]
        assert spec is not None
        try:
            while not running.ended and grant["job"] in self._jobs:
                kind = (*self._kind(grant), key)
                executor = await self._pool.start_executor(kind, *await self._prepare(grant))
                actor = Actor(executor)
                self._sockets[key] = f"raycompat-{uuid.uuid4().hex}"
                error = await self._live(running, actor, payload, values)
                left = spec["max_restarts"] - grant["num_restarts"]
                again = actor.error is None and not running.ended
                if not again or (left <= 0 and spec["max_restarts"] >= 0):
                    message = {"op": "raycompat-actor-ended", "key": key, "error": error}
                    dask.tell_scheduler(self._worker, message)
                    return None
                grant["num_restarts"] += 1
                message = {"op": "raycompat-actor-restarting", "key": key, "error": error}
                dask.tell_scheduler(self._worker, message)
        except RuntimeEnvFailed as failed:
            text = f"Could not create the actor because its runtime environment failed:\n{failed}"
            message = {"op": "raycompat-actor-ended", "key": key}
            message["error"] = failures.runtime_env_failed(text)
            dask.tell_scheduler(self._worker, message)
        finally:
            self._drop(running)
            self._actors.pop(key, None)
            self._sockets.pop(key, None)
        return None

    async def _live(
        self, running: Running, actor: Actor, payload: bytes, values: tuple[Any, ...]
    ) -> bytes:
        """Build the actor, wait until its process has ended, and return why it did.

        What ends it for good has been entered as the actor's error.
        """
        key, executor = running.grant["key"], actor.executor
        running.executor = running.process = executor
        self._actors[key] = actor
        try:
            outcome = await self._call(
                executor, running, payload, [to_wire(value) for value in values]
            )
        except ExecutorDied as died:
            text = f"it ended {died} in the constructor."
            return actor.error or self._why_it_died(running, actor, text)
        if outcome[0] == "failed":
            actor.error = outcome[1]
            executor.leave()
            return actor.error
        message = {
            "op": "raycompat-actor-alive",
            "key": key,
            "pid": executor.pid,
            "socket": self._sockets[key],
            "incarnation": running.grant["num_restarts"],
        }
        dask.tell_scheduler(self._worker, message)
        code = await asyncio.shield(executor.ended)
        return actor.error or self._why_it_died(running, actor, f"it ended {describe_exit(code)}.")

    def _why_it_died(self, running: Running, actor: Actor, how: str) -> bytes:
        key, spec = running.grant["key"], running.grant["actor"]
        assert spec is not None
        if running.ended:
            text = "The actor is dead because all references to it were removed."
            return failures.actor_died(text, key)
        if actor.is_killed:
            return failures.actor_killed(key)
        how = actor.executor.ended_for_memory or how
        return failures.actor_died(
            f"The actor is dead because its worker process has died. Its process: {how}",
            key,
            class_name=spec["class_name"],
            name=spec["name"] or "",
            ray_namespace=spec["namespace"],
            pid=actor.executor.pid,
            node_ip_address=self.ip,
        )

    # --- what executors say ---------------------------------------------------------------------

    def _on_message(self, executor: Executor, operation: str, key: str, rest: list[Any]) -> None:
        if operation in ("blocked", "unblocked"):
            dask.tell_scheduler(self._worker, {"op": f"raycompat-{operation}", "key": key})
        elif operation == "leased":
            self._on_leased(key)
        elif operation == "item":
            self._on_item(key, *rest)
        elif operation == "function":
            self._pool.background(self._send_function(executor, key))
        elif operation == "hand-over":
            self.store.hand_over(rest[0])
        elif operation == "spans":
            message = {
                "op": "raycompat-spans",
                "key": key,
                "pid": executor.pid,
                "spans": rest[0],
            }
            dask.tell_scheduler(self._worker, message)
        elif operation == "exiting":
            actor = self._actors.get(key)
            if actor is not None:
                actor.error = rest[0]
        else:
            logger.error("an executor said %r, which nobody knows", operation)

    def _on_leased(self, key: str) -> None:
        running, socket_name = self._granted.get(key), self._sockets.get(key)
        if running is None or socket_name is None:
            return
        message = {"op": "raycompat-lease-alive", "key": key, "owner": running.grant["owner"]}
        dask.tell_scheduler(self._worker, {**message, "socket": socket_name})

    def _on_item(self, key: str, index: int, wire: tuple[Any, ...]) -> None:
        running = self._granted.get(key)
        if running is None:
            return
        self.store.hand_over(wire)
        message = {
            "op": "raycompat-item",
            "key": key,
            "owner": running.grant["owner"],
            "item": ids.return_key(key, index),
            "index": index,
            "wire": wire,
        }
        dask.tell_scheduler(self._worker, message)

    async def _send_function(self, executor: Executor, function: str) -> None:
        fetching = self._functions.get(function)
        if fetching is None:
            fetching = asyncio.ensure_future(
                self._worker.scheduler.raycompat_function(function=function)
            )
            self._functions[function] = fetching
        try:
            executor.send("function", function, await fetching)
        except OSError as error:  # asked for again at the next need
            self._functions.pop(function, None)
            executor.send("no-function", function, f"The scheduler did not send it: {error}")
