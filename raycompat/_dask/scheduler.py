"""Dask's scheduler as the parts of the plugin see it: what they ask of it, and what they tell it to do.

* Calls become Dask tasks through `DaskScheduler.add_task`, one by one, in the order of the client's
  stream. Dask's ``update_graph`` is not used: it unpickles a graph on the scheduler, and not in the
  stream's order.
* A task that may not run yet is *parked*: it is restricted to a worker that does not exist. So Dask
  keeps it in ``no-worker`` when its dependencies are ready. `DaskScheduler.release_to` lets it run on
  one worker.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dask._task_spec import Task, TaskRef
from dask.utils import key_split
from distributed.core import Status
from distributed.diagnostics.task_stream import TaskStreamPlugin
from distributed.scheduler import TaskPrefix

from raycompat._dask import servers, spilling
from raycompat._dask.streams import TakeBack, send_at_once
from raycompat._protocol.message import Request, ask

if TYPE_CHECKING:
    import distributed

    from raycompat._protocol.message import ToCaller, ToNode
    from raycompat._protocol.spans import Span

logger = logging.getLogger(__name__)

_A = TypeVar("_A")

#: The worker to which parked tasks are restricted. No worker has such an address.
NOWHERE = frozenset({"raycompat-parked"})

_order = itertools.count()


def is_our_client(client: str) -> bool:
    """Return whether a client is a process of raycompat: `client_class.DaskClient` names it so."""
    return client.startswith("DaskClient-")


def is_change_of_status(event: object) -> bool:
    """Return whether an event of Dask's log says that a worker was paused, or accepts tasks again."""
    return isinstance(event, dict) and event.get("action") == "worker-status-change"


class DaskScheduler:
    """The tasks, workers and clients of Dask's scheduler, in its process."""

    def __init__(self, scheduler: distributed.Scheduler) -> None:
        self._scheduler = scheduler
        #: The span of raycompat's tasks, once there is one.
        self._span: str | None = None

    # --- the scheduler --------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        return str(self._scheduler.address)

    @property
    def id(self) -> str:
        """The identifier of the scheduler."""
        return str(self._scheduler.id)

    @property
    def http_server(self) -> Any:
        """The web server of the dashboard: Tornado's."""
        return self._scheduler.http_server

    def client_security(self) -> dict[str, object] | None:
        """Return what a client needs to connect; None without encryption."""
        return servers.client_security(self._scheduler)

    def is_registered(self, plugin: str) -> bool:
        """Return whether a plugin of the scheduler with this name is registered."""
        return plugin in self._scheduler.plugins

    def is_registered_for_workers(self, plugin: str) -> bool:
        """Return whether a plugin of workers with this name is registered."""
        return plugin in self._scheduler.worker_plugins

    def register(self, name: str, plugin: distributed.SchedulerPlugin) -> None:
        """Register a plugin of the scheduler; it was started before."""
        self._scheduler.plugins[name] = plugin

    def unregister(self, name: str) -> None:
        """Remove a plugin of the scheduler without closing it."""
        self._scheduler.plugins.pop(name, None)

    async def unregister_from_workers(self, plugin: str) -> None:
        """Remove a plugin from all workers but those that leave meanwhile, which Dask logs."""
        if self._scheduler.worker_plugins.pop(plugin, None) is not None:
            message = {"op": "plugin-remove", "name": plugin}
            await self._scheduler.broadcast(msg=message, on_error="ignore")

    # --- tasks and values: questions --------------------------------------------------------------

    def known(self, key: str) -> bool:
        """Return whether the scheduler has a task or value with this key."""
        return key in self._scheduler.tasks

    def all_keys(self) -> list[str]:
        """Return the keys of all tasks and values."""
        return [str(key) for key in self._scheduler.tasks]

    def state_of(self, key: str) -> str:
        """Return the state of a task or value; "forgotten" if it is unknown."""
        task = self._scheduler.tasks.get(key)
        return task.state if task is not None else "forgotten"

    def prefix_of(self, key: str) -> str:
        """Return the name under which Dask counts a task that it is about to forget."""
        return str(self._scheduler.tasks[key].prefix.name)

    def num_bytes(self, key: str) -> int:
        """Return the size of a value in bytes; -1 if it is unknown."""
        task = self._scheduler.tasks.get(key)
        return task.nbytes if task is not None else -1

    def holders(self, key: str) -> list[str]:
        """Return the workers that have a value."""
        task = self._scheduler.tasks.get(key)
        return [worker.address for worker in task.who_has or ()] if task is not None else []

    def dependencies_of(self, keys: Iterable[str]) -> Iterator[str]:
        """Yield the keys of the tasks whose results these tasks need; some may come more than once."""
        for key in keys:
            task = self._scheduler.tasks.get(key)
            if task is not None:
                yield from (each.key for each in task.dependencies)

    def dependency_bytes(self, key: str) -> dict[str, int]:
        """Return the bytes of the dependencies of `key` that each worker has."""
        found: dict[str, int] = {}
        for dependency in self._scheduler.tasks[key].dependencies:
            for worker in dependency.who_has or ():
                found[worker.address] = found.get(worker.address, 0) + max(dependency.nbytes, 0)
        return found

    def is_needed(self, key: str) -> bool:
        """Return whether a client wants the value of a task, or a task waits for it."""
        task = self._scheduler.tasks.get(key)
        if task is None:
            return False
        # Dask leaves a task that failed before it ran among the waiters.
        return bool(task.who_wants) or any(each.state != "erred" for each in task.waiters or ())

    def blamed_key(self, key: str) -> str | None:
        """Return the key of the task whose failure made `key` fail."""
        task = self._scheduler.tasks.get(key)
        return task.exception_blame.key if task is not None and task.exception_blame else None

    def error_text(self, key: str) -> str:
        """Return the error text of `key`."""
        return self._scheduler.tasks[key].exception_text or "unknown"

    # --- tasks and values: instructions -----------------------------------------------------------

    def add_task(
        self,
        client: str,
        key: str,
        body: Callable[..., object],
        arguments: tuple[object, ...],
        dependencies: Iterable[str],
        *,
        parked: bool,
        urgent: bool = False,
    ) -> None:
        """Create the task ``body(key, *arguments, *values of dependencies)``, wanted by `client`."""
        dependencies = list(dependencies)
        spec = Task(key, body, key, *arguments, *map(TaskRef, dependencies))
        task = self._scheduler.new_task(key, spec, "released")
        self._put_into_span(task)
        task.priority = (-int(urgent), 0, next(_order))
        if parked:
            task.worker_restrictions = set(NOWHERE)
        failed = None
        for dependency in dependencies:
            other = self._scheduler.tasks[dependency]
            task.add_dependency(other)
            failed = failed or other.exception_blame
        self._scheduler.client_desires_keys(keys=[key], client=client)
        task.exception_blame = failed
        self._scheduler.transitions(
            {key: "erred" if failed else "waiting"}, f"raycompat-submit-{key}"
        )

    def _put_into_span(self, task: Any) -> None:
        """Put all of raycompat's tasks into one span. Dask would make one for each first task."""
        spans = self._scheduler.extensions.get("spans")
        if spans is None or task.group.span_id is not None:
            return
        if self._span is None:
            spans.observe_tasks([task], code=(), span_metadata={"collections": []})
            self._span = task.group.span_id
        else:
            task.group.span_id = self._span

    def release_to(self, key: str, worker: str) -> None:
        """Let a parked task with ready dependencies run on `worker`."""
        self._scheduler.tasks[key].worker_restrictions = {worker}
        self._scheduler.transitions({key: "processing"}, f"raycompat-dispatch-{key}")

    def fulfil(
        self,
        key: str,
        body: Callable[..., object],
        arguments: tuple[object, ...],
        worker: str,
    ) -> None:
        """Set the body of a parked task without dependencies, and let it run on `worker`."""
        self._scheduler.tasks[key].run_spec = Task(key, body, key, *arguments)
        self.release_to(key, worker)

    def park(self, key: str) -> None:
        """Prevent a task that left its worker from running again before `release_to`."""
        task = self._scheduler.tasks.get(key)
        if task is not None:
            task.worker_restrictions = set(NOWHERE)
            task.suspicious = 0

    def fail(self, key: str, error: Exception) -> None:
        """End a task that has not finished with `error`; its dependents fail too."""
        task = self._scheduler.tasks.get(key)
        if task is None or task.state in ("memory", "erred", "forgotten"):
            return
        task.exception_blame = task
        task.exception = cast("Any", pickle.dumps(error))
        task.exception_text = str(error)
        self._scheduler.transitions({key: "erred"}, f"raycompat-fail-{key}")

    def release_replica(self, key: str, worker: str) -> None:
        """Record that `worker` has lost a value; after the last copy, Dask computes the value again."""
        self._scheduler.release_worker_data(key, worker, f"raycompat-missing-{key}")

    def forget_prefix(self, name: str) -> None:
        """Forget the statistics of a name without tasks."""
        prefix = self._scheduler.task_prefixes.get(name)
        if prefix is not None and not prefix.groups and not any(prefix.states.values()):
            del self._scheduler.task_prefixes[name]
            tables = [self._scheduler.cumulative_worker_metrics]
            spans = self._scheduler.extensions.get("spans")
            if spans is not None and (span := spans.spans.get(self._span)) is not None:
                tables.append(span._cumulative_worker_metrics)
            for sums in tables:  # by ("execute", name, activity, unit), and others
                for key in [each for each in sums if each[0] == "execute" and each[1] == name]:
                    del sums[key]

    def forget_split_keys(self) -> None:
        """Forget how Dask has split the last 100,000 keys into names and numbers: 100 bytes each."""
        key_split.cache_clear()

    def show_in_task_stream(
        self,
        worker: str,
        thread: int,
        spans: Iterable[Span],
    ) -> None:
        """Add calls that are not Dask tasks to the task stream."""
        stream = self._scheduler.plugins.get(TaskStreamPlugin.name)
        if stream is None:
            return
        for span in spans:
            digits = span.key.rpartition("-")[2]
            stream.buffer.append(
                {
                    "key": f"{span.name}-{digits}"
                    + (f"-x{span.num_calls}" if span.num_calls > 1 else ""),
                    "startstops": [{"action": "compute", "start": span.start, "stop": span.stop}],
                    "worker": worker,
                    "thread": thread,
                    "status": "error" if span.failure is not None else "OK",
                    "type": b"",
                    "nbytes": 0,
                }
            )
            stream.index += 1

    def count_in_progress(self, name: str, state: str, count: int) -> None:
        """Add `count` calls that are not Dask tasks to the progress in the dashboard."""
        prefix = self._scheduler.task_prefixes.get(name)
        if prefix is None:
            self._scheduler.task_prefixes[name] = prefix = TaskPrefix(name)
        prefix.states[cast("Any", state)] += count

    # --- workers ----------------------------------------------------------------------------------

    def workers(self) -> Collection[str]:
        """Return the addresses of all workers."""
        workers: Collection[str] = self._scheduler.workers
        return workers

    def running_workers(self) -> set[str]:
        """Return the addresses of the workers that accept tasks: neither paused nor closing."""
        return {worker.address for worker in self._scheduler.running}

    def is_running(self, worker: str) -> bool:
        """Return whether a worker accepts tasks: it is neither paused nor closing."""
        state = self._scheduler.workers.get(worker)
        return state is not None and state in self._scheduler.running

    def goes_on(self, worker: str) -> bool:
        """Return whether a worker is alive and not closing; a closing one returns its tasks first."""
        state = self._scheduler.workers.get(worker)
        return state is not None and state.status not in (Status.closing, Status.closed)

    def stored_bytes(self, worker: str) -> tuple[int, int]:
        """Return the bytes of values that a worker has in memory and on disk."""
        return spilling.stored_bytes(self._scheduler, worker)

    async def ask_node(self, worker: str, request: Request[_A]) -> _A:
        """Call an operation of a node and return its answer.

        Raises
        ------
        OSError
            When the node cannot be reached.
        """
        return await ask(self._scheduler.rpc(worker), request)

    def notify_node(self, worker: str, message: ToNode) -> None:
        """Send one message on a worker's stream, in order with Dask's messages."""
        self._scheduler.send_all({}, {worker: [message.to_wire()]})

    def send_worker_batches_at_once(self, worker: str) -> TakeBack:
        """Remove the pause between batches to a worker (Dask: 5 ms)."""
        return send_at_once(self._scheduler.stream_comms[worker])

    async def remove_worker(self, worker: str) -> None:
        """Treat a worker as dead. If it is alive after all, its closed connection ends it."""
        stimulus = f"raycompat-silent-{next(_order)}"
        stream = self._scheduler.stream_comms.get(worker)
        await self._scheduler.remove_worker(worker, stimulus_id=stimulus, close=False)
        if stream is not None:
            stream.abort()

    async def restart_workers(self, **fields: object) -> object:
        """Restart all workers; the fields are those of Dask's method."""
        return await self._scheduler.restart_workers(**fields)

    async def retire_worker(self, worker: str) -> bool:
        """Move a worker's values to others and close it; False, and it goes on, if that fails."""
        stimulus = f"raycompat-drain-{next(_order)}"
        return worker in await self._scheduler.retire_workers(
            workers=[worker], close_workers=True, stimulus_id=stimulus
        )

    async def close_worker(self, worker: str) -> None:
        """Close a worker, whatever values it has."""
        await self._scheduler.remove_worker(worker, stimulus_id=f"raycompat-drain-{next(_order)}")

    # --- clients ----------------------------------------------------------------------------------

    def clients(self) -> Collection[str]:
        """Return the names of all clients, also of those that are only a name."""
        clients: Collection[str] = self._scheduler.clients
        return clients

    def wants(self, client: str) -> list[str]:
        """Return the keys that a client wants; none if there is no such client."""
        state = self._scheduler.clients.get(client)
        return [task.key for task in state.wants_what] if state is not None else []

    def want(self, keys: list[str], client: str) -> None:
        """Keep tasks and values for a client, which may be only a name."""
        self._scheduler.client_desires_keys(keys, client)

    def release(self, keys: list[str], client: str) -> None:
        """Undo `want`; Dask forgets a task that no client needs."""
        self._scheduler.client_releases_keys(keys, client)

    def notify_client(self, client: str, message: ToCaller) -> None:
        """Send one message on a client's stream; do nothing when the client has left."""
        comm = self._scheduler.client_comms.get(client)
        if comm is not None and not comm.closed():
            self._scheduler.send_all({client: [message.to_wire()]}, {})

    def send_client_batches_at_once(self, client: str) -> None:
        """Remove the pause between batches to one of our clients (Dask: 2 ms)."""
        if client in self._scheduler.client_comms:
            send_at_once(self._scheduler.client_comms[client])

    def forget_tasks_of_others(self, stimulus: str) -> None:
        """Do what `Scheduler.restart` does before it ends the workers, but keep what is raycompat's."""
        scheduler = self._scheduler
        for name, client in list(scheduler.clients.items()):
            if not (is_our_client(name) or name.startswith("raycompat-")):
                keys = [task.key for task in client.wants_what]
                scheduler.client_releases_keys(keys, name, stimulus)
                scheduler.report({"op": "restart"}, client=name)
        for records in (scheduler.erred_tasks, scheduler.computations, scheduler.task_metadata):
            records.clear()
        for name in list(scheduler.task_prefixes):
            self.forget_prefix(name)
        for plugin in list(scheduler.plugins.values()):
            try:
                plugin.restart(scheduler)
            except Exception:
                logger.exception("A plugin of the scheduler could not handle the restart.")

    def forget_client(self, client: str) -> None:
        """Forget a client that is only a name, and release what it wants."""
        if client in self._scheduler.clients:
            self._scheduler.remove_client(client)

    async def close_client(self, client: str) -> None:
        """Close the connection of a client, after what was sent to it."""
        comm = self._scheduler.client_comms.get(client)
        if comm is not None:
            await comm.close()
