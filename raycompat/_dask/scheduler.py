"""The tasks, workers and clients of Dask's scheduler, in its process.

* Calls become Dask tasks through `add_task`, one by one, in the order of the client's stream. Dask's
  ``update_graph`` is not used: it unpickles a graph on the scheduler, and not in the stream's order.
* A task that may not run yet is *parked*: it is restricted to a worker that does not exist. So Dask
  keeps it in ``no-worker`` when its dependencies are ready. `release_to` lets it run on one worker.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dask._task_spec import Task, TaskRef
from dask.utils import key_split
from distributed.active_memory_manager import ReduceReplicas, SuggestionGenerator
from distributed.comm.addressing import get_address_host
from distributed.comm.core import Comm
from distributed.core import Status

from raycompat._dask.streams import TakeBack, send_at_once
from raycompat._messages.base import Request, ask

if TYPE_CHECKING:
    from distributed import Scheduler

    from raycompat._messages.base import ToCaller, ToNode

logger = logging.getLogger(__name__)

_A = TypeVar("_A")


#: The worker to which parked tasks are restricted. No worker has such an address.
_NOWHERE = frozenset({"raycompat-parked"})


_order = itertools.count()


#: The span of raycompat's tasks, by scheduler.
_spans: weakref.WeakKeyDictionary[Scheduler, Any] = weakref.WeakKeyDictionary()


def dependencies_of(scheduler: Scheduler, keys: Iterable[str]) -> Iterator[str]:
    """Yield the keys of the tasks whose results these tasks need; some may come more than once."""
    for key in keys:
        task = scheduler.tasks.get(key)
        if task is not None:
            yield from (each.key for each in task.dependencies)


def known(scheduler: Scheduler, key: str) -> bool:
    """Return whether the scheduler has a task or value with this key."""
    return key in scheduler.tasks


def all_keys(scheduler: Scheduler) -> list[str]:
    """Return the keys of all tasks and values."""
    return [str(key) for key in scheduler.tasks]


def add_task(
    scheduler: Scheduler,
    client: str,
    key: str,
    body: Callable[..., Any],
    arguments: tuple[Any, ...],
    dependencies: Iterable[str],
    *,
    parked: bool,
    urgent: bool = False,
) -> None:
    """Create the task ``body(key, *arguments, *values of the dependencies)``, wanted by `client`."""
    dependencies = list(dependencies)
    spec = Task(key, body, key, *arguments, *map(TaskRef, dependencies))
    task = scheduler.new_task(key, spec, "released")
    _put_into_span(scheduler, task)
    task.priority = (-int(urgent), 0, next(_order))
    if parked:
        task.worker_restrictions = set(_NOWHERE)
    failed = None
    for dependency in dependencies:
        other = scheduler.tasks[dependency]
        task.add_dependency(other)
        failed = failed or other.exception_blame
    scheduler.client_desires_keys(keys=[key], client=client)
    task.exception_blame = failed
    scheduler.transitions({key: "erred" if failed else "waiting"}, f"raycompat-submit-{key}")


def _put_into_span(scheduler: Scheduler, task: Any) -> None:
    """Put all of raycompat's tasks into one span. Dask would make one for each first task."""
    spans = scheduler.extensions.get("spans")
    if spans is None or task.group.span_id is not None:
        return
    span = _spans.get(scheduler)
    if span is None:
        spans.observe_tasks([task], code=(), span_metadata={"collections": []})
        _spans[scheduler] = task.group.span_id
    else:
        task.group.span_id = span


def release_to(scheduler: Scheduler, key: str, worker: str) -> None:
    """Let a parked task with ready dependencies run on `worker`."""
    scheduler.tasks[key].worker_restrictions = {worker}
    scheduler.transitions({key: "processing"}, f"raycompat-dispatch-{key}")


def fulfil(
    scheduler: Scheduler,
    key: str,
    body: Callable[..., Any],
    arguments: tuple[Any, ...],
    worker: str,
) -> None:
    """Set the body of a parked task without dependencies, and let it run on `worker`."""
    scheduler.tasks[key].run_spec = Task(key, body, key, *arguments)
    release_to(scheduler, key, worker)


def park(scheduler: Scheduler, key: str) -> None:
    """Prevent a task that left its worker from running again before `release_to`."""
    task = scheduler.tasks.get(key)
    if task is not None:
        task.worker_restrictions = set(_NOWHERE)
        task.suspicious = 0


def fail(scheduler: Scheduler, key: str, error: Exception) -> None:
    """End a task that has not finished with `error`; its dependents fail too."""
    task = scheduler.tasks.get(key)
    if task is None or task.state in ("memory", "erred", "forgotten"):
        return
    task.exception_blame = task
    task.exception = cast("Any", pickle.dumps(error))
    task.exception_text = str(error)
    scheduler.transitions({key: "erred"}, f"raycompat-fail-{key}")


def is_needed(scheduler: Scheduler, key: str) -> bool:
    """Return whether a client wants the value of a task, or a task waits for it."""
    task = scheduler.tasks.get(key)
    if task is None:
        return False
    # Dask leaves a task that failed before it ran among the waiters.
    return bool(task.who_wants) or any(each.state != "erred" for each in task.waiters or ())


def blamed_key(scheduler: Scheduler, key: str) -> str | None:
    """Return the key of the task whose failure made `key` fail."""
    task = scheduler.tasks.get(key)
    return task.exception_blame.key if task is not None and task.exception_blame else None


def dependency_bytes(scheduler: Scheduler, key: str) -> dict[str, int]:
    """Return the bytes of the dependencies of `key` that each worker has."""
    found: dict[str, int] = {}
    for dependency in scheduler.tasks[key].dependencies:
        for worker in dependency.who_has or ():
            found[worker.address] = found.get(worker.address, 0) + max(dependency.nbytes, 0)
    return found


def tell_client(scheduler: Scheduler, client: str, message: ToCaller) -> None:
    """Send one message on a client's stream; do nothing when the client has left."""
    comm = scheduler.client_comms.get(client)
    if comm is not None and not comm.closed():
        scheduler.send_all({client: [message.to_wire()]}, {})


def tell_worker(scheduler: Scheduler, worker: str, message: ToNode) -> None:
    """Send one message on a worker's stream, in order with Dask's messages."""
    scheduler.send_all({}, {worker: [message.to_wire()]})


def forget_split_keys() -> None:
    """Forget how Dask has split the last 100,000 keys into names and numbers: 100 bytes each."""
    key_split.cache_clear()


def num_bytes(scheduler: Scheduler, key: str) -> int:
    """Return the size of a value in bytes; -1 if it is unknown."""
    task = scheduler.tasks.get(key)
    return task.nbytes if task is not None else -1


def state_of(scheduler: Scheduler, key: str) -> str:
    """Return the state of a task or value; "forgotten" if it is unknown."""
    task = scheduler.tasks.get(key)
    return task.state if task is not None else "forgotten"


def holders(scheduler: Scheduler, key: str) -> list[str]:
    """Return the workers that have a value."""
    task = scheduler.tasks.get(key)
    return [worker.address for worker in task.who_has or ()] if task is not None else []


class _ReduceReplicasElsewhere(ReduceReplicas):
    """Dask's policy that removes surplus copies, except the copy on a value's bound worker.

    A value that was put lives as long as its owner's node, so it must not move to another.
    """

    def run(self) -> SuggestionGenerator:
        """Suggest the same removals as Dask's policy, on other workers."""
        for suggestion in super().run():
            home = suggestion.ts.worker_restrictions or ()
            others = {each for each in suggestion.ts.who_has or () if each.address not in home}
            yield suggestion._replace(candidates=others)


def keep_values_at_home(scheduler: Scheduler) -> TakeBack:
    """Keep Dask's memory manager from removing copies on the workers to which values are bound.

    Values of other users are bound to no worker, so for these nothing changes.
    """
    manager = scheduler.extensions.get("amm")
    policies = manager.policies if manager is not None else set()
    replaced = [each for each in policies if type(each) is ReduceReplicas]
    ours = [_ReduceReplicasElsewhere() for _ in replaced]

    def replace(before: list[Any], after: list[Any]) -> None:
        for policy in before:
            policies.discard(policy)
        for policy in after:
            manager.add_policy(policy)

    replace(replaced, ours)
    return lambda: replace(ours, replaced)


async def ask_node(scheduler: Scheduler, worker: str, request: Request[_A]) -> _A:
    """Call an operation of a node and return its answer.

    Raises
    ------
    OSError
        When the node cannot be reached.
    """
    return await ask(scheduler.rpc(worker), request)


def goes_on(scheduler: Scheduler, worker: str) -> bool:
    """Return whether a worker is alive and not closing; a closing one returns its tasks first."""
    state = scheduler.workers.get(worker)
    return state is not None and state.status not in (Status.closing, Status.closed)


def is_running(scheduler: Scheduler, worker: str) -> bool:
    """Return whether a worker accepts tasks: it is neither paused nor closing."""
    state = scheduler.workers.get(worker)
    return state is not None and state in scheduler.running


def running_workers(scheduler: Scheduler) -> set[str]:
    """Return the addresses of the workers that accept tasks: neither paused nor closing."""
    return {worker.address for worker in scheduler.running}


def is_change_of_status(event: Any) -> bool:
    """Return whether an event of Dask's log says that a worker was paused, or accepts tasks again."""
    return isinstance(event, dict) and event.get("action") == "worker-status-change"


async def remove_worker(scheduler: Scheduler, worker: str) -> None:
    """Treat a worker as dead. If it is alive after all, its closed connection ends it."""
    stimulus = f"raycompat-silent-{next(_order)}"
    stream = scheduler.stream_comms.get(worker)
    await scheduler.remove_worker(worker, stimulus_id=stimulus, close=False)
    if stream is not None:
        stream.abort()


async def retire_worker(scheduler: Scheduler, worker: str) -> bool:
    """Move a worker's values to other workers and close it; False, and it goes on, if that fails."""
    stimulus = f"raycompat-drain-{next(_order)}"
    return worker in await scheduler.retire_workers(
        workers=[worker], close_workers=True, stimulus_id=stimulus
    )


async def close_worker(scheduler: Scheduler, worker: str) -> None:
    """Close a worker, whatever values it has."""
    await scheduler.remove_worker(worker, stimulus_id=f"raycompat-drain-{next(_order)}")


def error_text(scheduler: Scheduler, key: str) -> str:
    """Return the error text of `key`."""
    return scheduler.tasks[key].exception_text or "unknown"


def release_replica(scheduler: Scheduler, key: str, worker: str) -> None:
    """Record that `worker` has lost a value; after the last copy, Dask computes the value again."""
    scheduler.release_worker_data(key, worker, f"raycompat-missing-{key}")


class _Unrunnable(dict[Any, float]):
    """Dask's tasks that no worker can run, without the parked ones where Dask looks for old ones."""

    def items(self) -> Any:
        """Return the tasks that wait in vain, and since when."""
        return [
            (task, since)
            for task, since in super().items()
            if not _NOWHERE.issubset(task.worker_restrictions or ())
        ]


def let_calls_wait(scheduler: Scheduler) -> TakeBack:
    """Let parked tasks wait longer than ``distributed.scheduler.no-workers-timeout``."""
    scheduler.unrunnable = _Unrunnable(scheduler.unrunnable)

    def take_back() -> None:
        scheduler.unrunnable = dict(scheduler.unrunnable)

    return take_back


def scale_for(scheduler: Scheduler, nodes_wanted: Callable[[], int]) -> TakeBack:
    """Let Dask's adaptive scaling ask for workers beyond the present ones too.

    Dask itself sees that the tasks of calls and actors run, and does not close their workers.
    """
    handler = scheduler.handlers["adaptive_target"]

    async def adaptive_target(target_duration: Any = None) -> int:
        target: int = scheduler.adaptive_target(target_duration)
        wanted = nodes_wanted()
        return max(target, len(scheduler.workers) + wanted) if wanted else target

    scheduler.handlers["adaptive_target"] = adaptive_target

    def take_back() -> None:
        scheduler.handlers["adaptive_target"] = handler

    return take_back


def replace_method(
    scheduler: Scheduler, name: str, replacement: Callable[..., Awaitable[Any]]
) -> TakeBack:
    """Replace a coroutine method of the scheduler, and the handler of the request with its name.

    The replacement is called with the original, a description of who asks, and the arguments.
    """
    original = getattr(scheduler, name)
    handlers = [each for each, handler in scheduler.handlers.items() if handler == original]

    async def method(*arguments: Any, **fields: Any) -> Any:
        return await replacement(original, "the scheduler's process", *arguments, **fields)

    async def handle(comm: Comm, **fields: Any) -> Any:
        return await replacement(original, _who_asks(scheduler, comm), **fields)

    setattr(scheduler, name, method)
    scheduler.handlers.update(dict.fromkeys(handlers, handle))

    def take_back() -> None:
        delattr(scheduler, name)
        scheduler.handlers.update(dict.fromkeys(handlers, original))

    return take_back


def _who_asks(scheduler: Scheduler, comm: Comm) -> str:
    """Describe the program at the other end of a connection.

    A client sends requests by other connections than the one that names it. It is known if it is the
    only client of its host.
    """
    address = comm.peer_address
    if address in scheduler.workers:
        return "itself"
    host = get_address_host(address)
    clients = [
        name
        for name, each in scheduler.client_comms.items()
        if get_address_host(each.comm.peer_address) == host
    ]
    others = [name for name in clients if not is_our_client(name)]
    who = f"the client {others[0]}" if len(others) == 1 else "a program"
    return f"{who} at {address}"


def forget_tasks_of_others(scheduler: Scheduler, stimulus: str) -> None:
    """Do what `Scheduler.restart` does before it ends the workers, but keep what raycompat needs."""
    for name, client in list(scheduler.clients.items()):
        if not (is_our_client(name) or name.startswith("raycompat-")):
            keys = [task.key for task in client.wants_what]
            scheduler.client_releases_keys(keys, name, stimulus)
            scheduler.report({"op": "restart"}, client=name)
    for records in (scheduler.erred_tasks, scheduler.computations, scheduler.task_metadata):
        records.clear()
    for name in list(scheduler.task_prefixes):
        forget_prefix(scheduler, name)
    for plugin in list(scheduler.plugins.values()):
        try:
            plugin.restart(scheduler)
        except Exception:
            logger.exception("A plugin of the scheduler could not handle the restart.")


def is_our_client(client: str) -> bool:
    """Return whether a client is a process of raycompat: `_dask_client.DaskClient` names it so."""
    return client.startswith("DaskClient-")


def send_client_batches_at_once(scheduler: Scheduler, client: str) -> None:
    """Remove the pause between batches to one of our clients (Dask: 2 ms)."""
    if client in scheduler.client_comms:
        send_at_once(scheduler.client_comms[client])


def send_worker_batches_at_once(scheduler: Scheduler, worker: str) -> TakeBack:
    """Remove the pause between batches to a worker (Dask: 5 ms)."""
    return send_at_once(scheduler.stream_comms[worker])


def is_registered(scheduler: Scheduler, plugin: str) -> bool:
    """Return whether both plugins with this name are registered: in the scheduler and for workers."""
    return plugin in scheduler.plugins and plugin in scheduler.worker_plugins


async def unregister_from_workers(scheduler: Scheduler, plugin: str) -> None:
    """Remove a plugin from all workers."""
    if scheduler.worker_plugins.pop(plugin, None) is not None:
        await scheduler.broadcast(msg={"op": "plugin-remove", "name": plugin})


def forget_client(scheduler: Scheduler, client: str) -> None:
    """Release everything that a client wants which is only a name."""
    if client in scheduler.clients:
        scheduler.remove_client(client)


async def close_client(scheduler: Scheduler, client: str) -> None:
    """Close the connection of a client, after what was sent to it."""
    comm = scheduler.client_comms.get(client)
    if comm is not None:
        await comm.close()


def forget_prefix(scheduler: Scheduler, name: str) -> None:
    """Forget the statistics of a name without tasks."""
    prefix = scheduler.task_prefixes.get(name)
    if prefix is not None and not prefix.groups and not any(prefix.states.values()):
        del scheduler.task_prefixes[name]
        tables = [scheduler.cumulative_worker_metrics]
        spans = scheduler.extensions.get("spans")
        if spans is not None and (span := spans.spans.get(_spans.get(scheduler))) is not None:
            tables.append(span._cumulative_worker_metrics)
        for sums in tables:  # by ("execute", name, activity, unit), and others
            for key in [each for each in sums if each[0] == "execute" and each[1] == name]:
                del sums[key]
