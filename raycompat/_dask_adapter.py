"""Every private name of Dask that raycompat uses, in one place.

It runs with the releases of Dask since `_dask_versions.OLDEST`. What is used with some of them only:

* Before 2026.1, ``parse_input`` and ``convert_legacy_task`` of ``dask._task_spec`` are replaced: Dask
  did not know futures of other classes (``__dask_future__``) yet. See `_let_dask_know_futures`.
  ``Client.map`` does not know them in any release: see `_let_map_know_futures`.

The main techniques:

* Calls become Dask tasks through `add_task`, one by one, in the order of the client's stream. Dask's
  ``update_graph`` is not used: it unpickles a graph on the scheduler, and not in the stream's order.
* A task that may not run yet is *parked*: it is restricted to a worker that does not exist. So Dask
  keeps it in ``no-worker`` when its dependencies are ready. `release_to` lets it run on one worker.
* A coroutine body releases its thread slot at once (`secede`), so only resources limit it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import logging
import os
import pickle
import re
import ssl
import sys
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from raycompat import _dask_versions  # noqa: F401
from raycompat._messages.base import Request, ask

# First: it raises a plain error where Dask is too old for the imports below.
from raycompat._messages.nodes import Pulse

# isort: split
import dask
import dask.base
import dask.utils
import distributed
from dask import _task_spec
from dask._task_spec import Alias, Task, TaskRef
from dask.utils import key_split
from distributed import Security
from distributed.active_memory_manager import ReduceReplicas, SuggestionGenerator
from distributed.client import _MapExpr, _maybe_call_security_loader
from distributed.comm.addressing import get_address_host
from distributed.comm.core import Comm
from distributed.comm.tcp import BaseTCPListener
from distributed.core import Status, connect
from distributed.diagnostics.task_stream import TaskStreamPlugin
from distributed.protocol.pickle import loads
from distributed.protocol.serialize import Serialized, to_serialize
from distributed.scheduler import TaskPrefix
from distributed.spill import MaxSpillExceeded, PickleError, Slow, SpillBuffer
from distributed.worker_state_machine import (
    RemoveReplicasEvent,
    SecedeEvent,
    StateMachineEvent,
    WorkerState,
)
from tornado import tcpserver, web
from tornado.ioloop import IOLoop
from tornado.routing import PathMatches, Rule

from raycompat import (
    _accepting,
    _local_comm,  # noqa: F401  (registers its addresses with Dask)
)
from raycompat._protocol import failures
from raycompat._protocol.text import encodable
from raycompat._protocol.values import CallFailed

if TYPE_CHECKING:
    from distributed import Client, Scheduler, Worker

    from raycompat._messages.base import FromCaller, FromNode, ToCaller, ToNode
    from raycompat._protocol.spans import Span

logger = logging.getLogger(__name__)

_A = TypeVar("_A")

#: A nanny sets this variable. Dask then gives titles to the processes that the nanny's process starts.
_TITLES_VARIABLE = "__DASK_PARENT_PID"

#: Dask's page; below its menu it is dark where the system is, fits a narrow window, and takes keys.
_TEMPLATE = """
{% extends "simple.html" %}
{% block extra_resources %}
<style>
  .content { overflow-x: auto; }
  @media (prefers-color-scheme: dark) {
    html { background: #181818; color-scheme: dark; }
    body { background: #181818; }
    .navbar ul, .dropdown-content { background: #242424; }
    .navbar li a { color: #ddd; }
    .navbar li:hover, .navbar li.active { background: #6b4a28; }
    #navbar-toggle-icon img { filter: invert(1); }
    .content { filter: invert(0.92) hue-rotate(180deg); }
    .content { background: white; color: black; color-scheme: light; }
  }
</style>
<script>
  {{ script }}
  // Bokeh's tabs take the focus, but no keys.
  document.addEventListener("keydown", (event) => {
    const target = event.composedPath()[0];
    if (["Enter", " "].includes(event.key) && target.matches(".bk-tab")) target.click();
  });
</script>
{% endblock %}
"""

#: Returned by the handler of a connection that it serves itself.
NO_REPLY = Status.dont_reply

#: The worker to which parked tasks are restricted. No worker has such an address.
_NOWHERE = frozenset({"raycompat-parked"})

_order = itertools.count()

#: The span of raycompat's tasks, by scheduler.
_spans: weakref.WeakKeyDictionary[Scheduler, Any] = weakref.WeakKeyDictionary()

#: Messages that a stream copies for debugging. Dask's default is 1,000, of up to 1 MB each.
_RECENT_MESSAGES = 10


#: Dask's function for an accepted connection: the handshakes of TLS and Dask, then the handler.
_handle_stream = BaseTCPListener._handle_stream

#: Seconds after which the web server closes a connection that sends no request.
_IDLE_PAGE_S = 60


def guard_listeners() -> None:
    """Let the listeners of this process bear floods of connections (see `_accepting`)."""

    async def handle_stream(listener: Any, stream: Any, address: Any) -> None:
        with _accepting.identifying(stream.close):
            await _handle_stream(listener, stream, address)

    BaseTCPListener._handle_stream = handle_stream
    tcpserver.add_accept_handler = _accepting.add_accept_handler  # type: ignore[attr-defined]


def close_idle_pages(server: Any) -> None:
    """Let the web server of a scheduler or worker close connections that send no request."""
    if server.http_server is not None:
        server.http_server.conn_params.header_timeout = _IDLE_PAGE_S


def keep_command_line() -> None:
    """Let Dask give no title to this process and its children: a title replaces the command line."""
    os.environ.pop(_TITLES_VARIABLE, None)


#: Undoes a change of Dask.
TakeBack = Callable[[], None]


def _send_at_once(stream: Any) -> TakeBack:
    """Remove the pause between the batches of a stream."""
    before = stream.interval, stream.recent_message_log
    stream.interval = 0
    stream.recent_message_log = deque(maxlen=_RECENT_MESSAGES)

    def take_back() -> None:
        stream.interval, stream.recent_message_log = before

    return take_back


def add_handlers(
    handlers: dict[str, Callable[..., Any]], added: Mapping[str, Callable[..., Any]]
) -> TakeBack:
    """Add handlers of messages or requests."""
    handlers.update(added)

    def take_back() -> None:
        for operation, handler in added.items():
            if handlers.get(operation) is handler:
                del handlers[operation]

    return take_back


def guarded(
    handlers: Mapping[str, Callable[..., None]],
    on_error: Callable[[dict[str, Any], Exception], None] = lambda message, error: None,
) -> dict[str, Callable[..., None]]:
    """Return handlers of a stream that continue after an error in one message: Dask would end the
    stream.

    `on_error` is called with the message and the error, to notify the callers that wait.
    """
    return {operation: _guarded(operation, each, on_error) for operation, each in handlers.items()}


def _guarded(
    operation: str,
    handler: Callable[..., None],
    on_error: Callable[[dict[str, Any], Exception], None],
) -> Callable[..., None]:
    def handle(**message: Any) -> None:
        try:
            handler(**message)
        except Exception as error:
            logger.exception("raycompat could not handle the message %s", operation)
            on_error(message, error)

    return handle


# --- in the scheduler ---------------------------------------------------------------------------


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


def show_in_task_stream(
    scheduler: Scheduler,
    worker: str,
    thread: int,
    spans: Iterable[Span],
) -> None:
    """Add calls that are not Dask tasks to the task stream."""
    stream = scheduler.plugins.get(TaskStreamPlugin.name)
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


def import_dashboard() -> None:
    """Import Dask's pages, and Bokeh with them, which is slow."""
    import distributed.dashboard.scheduler  # noqa: F401


def place_of_dashboard(scheduler: Scheduler) -> str:
    """Return host and port of the web server of a scheduler, as other hosts reach it."""
    server = scheduler.http_server
    host = server.address
    if host in ("0.0.0.0", "::"):  # on all interfaces
        host = get_address_host(scheduler.address)
    return f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}"


def add_dashboard(scheduler: Scheduler) -> None:
    """Add Dask's pages to a scheduler that was made without them."""
    from distributed.dashboard.scheduler import connect

    connect(scheduler.http_application, scheduler.http_server, scheduler)


def add_page_without_bokeh(scheduler: Scheduler) -> None:
    """Add Dask's page that says which Bokeh it needs."""
    from distributed.http.utils import get_handlers

    routes = get_handlers(scheduler, ["distributed.http.scheduler.missing_bokeh"])
    scheduler.http_application.add_handlers(".*", routes)


def add_pages(
    scheduler: Scheduler,
    applications: Callable[[], Mapping[str, Callable[..., None]]],
    menu: str,
) -> TakeBack:
    """Add pages to Dask's dashboard, if there is one; `menu` is the address in its menu.

    `applications` returns the function of each page, which is called with the scheduler, the variables
    of Dask's template and the document.
    """
    shown = [each for each in scheduler.http_application.applications if hasattr(each, "prefix")]
    if not shown:
        return lambda: None
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables

    variables = template_variables(scheduler)
    pages = applications()
    singles = [path.strip("/") for path in pages if path.strip("/") != menu]
    plots = [
        {"url": path, "name": path.removeprefix("individual-").replace("-", " ").title()}
        for path in singles
    ]
    variables["pages"].insert(1, menu)
    variables["plots"] += plots
    added = BokehApplication(pages, scheduler, prefix=shown[0].prefix, template_variables=variables)
    scheduler.http_application.add_application(added)
    added.initialize(IOLoop.current())
    added.start()
    rules = scheduler.http_application.default_router.rules
    paths = [f"/{path}" for path in singles]
    rules.insert(0, plots_rule := _rule_of_plots(scheduler, paths, shown[0].prefix))

    def take_back() -> None:
        rules.remove(plots_rule)
        variables["pages"].remove(menu)
        for plot in plots:
            variables["plots"].remove(plot)
        scheduler.http_application.applications.remove(added)
        added.stop()

    return take_back


def add_routes(scheduler: Scheduler, pattern: str, application: web.Application) -> TakeBack:
    """Let an application answer the requests for some addresses of the scheduler's web server."""
    rules = scheduler.http_application.default_router.rules
    rules.insert(0, rule := Rule(PathMatches(pattern), application))
    return lambda: rules.remove(rule)


def _rule_of_plots(scheduler: Scheduler, paths: list[str], prefix: str) -> Rule:
    """Return the rule for a longer list of Dask's plots, which JupyterLab's extension reads.

    `prefix` begins the addresses of a dashboard behind a proxy, but not those in the list.
    """
    from distributed.http.scheduler.info import IndividualPlots

    more = {path.strip("/").replace("-", " ").title(): path for path in paths}

    class Plots(IndividualPlots):
        def write(self, chunk: Any) -> None:
            super().write({**chunk, **more} if isinstance(chunk, dict) else chunk)

    arguments = {"dask_server": scheduler}
    target = web.Application(default_handler_class=Plots, default_handler_args=arguments)
    return Rule(PathMatches(rf"{re.escape(prefix)}/individual-plots\.json"), target)


class _Collector:
    """The collector that prometheus_client calls when Dask's endpoint is read."""

    def __init__(self, collect: Callable[[], Iterable[Any]]) -> None:
        self.collect = collect

    def describe(self) -> list[Any]:
        """Return nothing: the names are known only when values are collected."""
        return []


def publish_metrics(collect: Callable[[], Iterable[Any]]) -> Any:
    """Publish the metrics of `collect` at Dask's Prometheus endpoint.

    Return the argument for `withdraw_metrics`; None without prometheus_client.
    """
    try:
        from prometheus_client import REGISTRY
    except ModuleNotFoundError:
        return None
    collector = _Collector(collect)
    REGISTRY.register(collector)
    return collector


def withdraw_metrics(collector: Any) -> None:
    """Undo `publish_metrics`."""
    if collector is not None:
        from prometheus_client import REGISTRY

        REGISTRY.unregister(collector)


def colour_of(name: str) -> str:
    """Return the colour in which Dask's pages show the calls of a function."""
    from distributed.utils import color_of

    return str(color_of(name))


def style_page(doc: Any, variables: Mapping[str, Any]) -> None:
    """Give a page of the dashboard Dask's menu and colours.

    `variables` are those of the template: Dask's, and a `script` for the page.
    """
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env

    doc.template = env.from_string(_TEMPLATE)
    doc.template_variables.update(variables)
    doc.theme = BOKEH_THEME


def count_in_progress(scheduler: Scheduler, name: str, state: str, count: int) -> None:
    """Add `count` calls that are not Dask tasks to the progress in the dashboard."""
    prefix = scheduler.task_prefixes.get(name)
    if prefix is None:
        scheduler.task_prefixes[name] = prefix = TaskPrefix(name)
    prefix.states[cast("Any", state)] += count


def prefix_of(scheduler: Scheduler, key: str) -> str:
    """Return the name under which Dask counts a task that it is about to forget."""
    return str(scheduler.tasks[key].prefix.name)


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


def forget_split_keys() -> None:
    """Forget how Dask has split the last 100,000 keys into names and numbers: 100 bytes each."""
    key_split.cache_clear()


#: The metric of a worker with the bytes of values that it has on disk, and that Dask counts as memory.
_ON_DISK = "raycompat-bytes-on-disk"


class _SlowWithRoom(Slow):
    """Dask's values on disk, whose limit follows the room that is left there."""

    @property
    def max_weight(self) -> int:
        """Return how large all values on disk may become, in bytes."""
        most: int = max(0, self.total_weight.disk + vars(self)["room"]())
        given: int = vars(self)["max_weight"]  # from Dask's settings
        return most if given is False else min(most, given)


class _ReadableBuffer(SpillBuffer):
    """Dask's values in memory and on disk, which can be read although others cannot move to disk.

    A value that is read moves to memory first, unless it is too large. If no other one can leave for
    it, Dask raises that error in the reader.
    """

    def __getitem__(self, key: Any) -> object:
        try:
            return super().__getitem__(key)
        except (MaxSpillExceeded, OSError, PickleError):
            if key in self.fast:
                return self.fast[key]
            if key in self.slow:  # it is too large for memory, or could not be read
                return self.slow[key]
            raise


def limit_spilling(worker: Worker, room: Callable[[], int], on_disk: Callable[[], int]) -> TakeBack:
    """Let Dask move values to disk only while `room` returns enough bytes.

    `on_disk` returns the bytes of values on disk that Dask counts as memory; the scheduler gets them
    with the other metrics.
    """
    worker.metrics[_ON_DISK] = lambda worker: on_disk()
    slow = worker.data._slow_uncached if isinstance(worker.data, SpillBuffer) else None
    if slow is not None:
        vars(slow)["room"] = room
        slow.__class__, worker.data.__class__ = _SlowWithRoom, _ReadableBuffer

    def take_back() -> None:
        del worker.metrics[_ON_DISK]
        if slow is not None:
            slow.__class__, worker.data.__class__ = Slow, SpillBuffer

    return take_back


def stored_bytes(scheduler: Scheduler, worker: str) -> tuple[int, int]:
    """Return the bytes of values that a worker has in memory and on disk."""
    state = scheduler.workers.get(worker)
    if state is None:
        return 0, 0
    spilled = state.metrics.get("spilled_bytes", {})
    disk = int(spilled.get("memory", 0)) if isinstance(spilled, dict) else 0
    disk += int(state.metrics.get(_ON_DISK, 0))
    return max(0, state.nbytes - disk), disk


def num_bytes(scheduler: Scheduler, key: str) -> int:
    """Return the size of a value in bytes; -1 if it is unknown."""
    task = scheduler.tasks.get(key)
    return task.nbytes if task is not None else -1


def locate(scheduler: Scheduler, key: str) -> tuple[str, list[str]]:
    """Return the state of a task or value ("forgotten" if unknown), and the workers that have it."""
    task = scheduler.tasks.get(key)
    if task is None:
        return "forgotten", []
    return task.state, [worker.address for worker in task.who_has or ()]


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
        _send_at_once(scheduler.client_comms[client])


def send_worker_batches_at_once(scheduler: Scheduler, worker: str) -> TakeBack:
    """Remove the pause between batches to a worker (Dask: 5 ms)."""
    return _send_at_once(scheduler.stream_comms[worker])


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


# --- in a worker --------------------------------------------------------------------------------


#: What this process tells about itself when it connects, beside Dask's own facts; and Dask's own.
_told: dict[str, str] = {}
_handshake_info = Comm.handshake_info


def tell_when_connecting(name: str, value: str) -> None:
    """Tell the other end of each new connection a fact about this process.

    Functions that serialize find it in their context, as an entry of the sender or the recipient.
    """

    def handshake_info(comm: Comm) -> dict[str, Any]:
        return {**_handshake_info(comm), **_told}

    _told[name] = value
    Comm.handshake_info = handshake_info


def secede(worker: Worker, key: str) -> None:
    """Release the thread slot of the coroutine task `key`, which continues to run."""
    worker.handle_stimulus(
        SecedeEvent(key=key, compute_duration=0.0, stimulus_id=f"raycompat-secede-{key}")
    )


@dataclass
class _Start(StateMachineEvent):
    """Start a task that is ready, although the worker may have no free thread."""

    __slots__ = ("key",)
    key: str


def _handle_start(state: WorkerState, event: _Start) -> Any:
    task = state.tasks.get(event.key)
    if task is None or task.state != "ready" or not state.running:
        return {}, []
    state.ready.discard(task)
    state.executing.add(task)
    return {task: "executing"}, []


WorkerState._handle_event.register(_Start, _handle_start)


def start_if_ready(worker: Worker, key: str) -> None:
    """Start a task whose body is a coroutine, also when other tasks use all threads of the worker.

    A coroutine needs no thread; Dask would let it wait for one.
    """
    task = worker.state.tasks.get(key)
    if task is not None and task.state == "ready":
        worker.handle_stimulus(_Start(key=key, stimulus_id=f"raycompat-start-{key}"))


def is_coroutine_of(worker: Worker, key: str, module: str) -> bool:
    """Return whether the body of a task is a coroutine function of a module."""
    task = worker.state.tasks.get(key)
    body = getattr(task and task.run_spec, "func", None)
    return getattr(body, "__module__", None) == module and inspect.iscoroutinefunction(body)


def is_closing(worker: Worker) -> bool:
    """Return whether a worker is closing."""
    return worker.status in (Status.closing, Status.closed, Status.failed)


def has(worker: Worker, key: str) -> bool:
    """Return whether a worker stores a value, in memory or on disk."""
    return key in worker.data


def stored(worker: Worker, key: str) -> Any:
    """Return the value that a worker stores, from disk if necessary.

    Raises
    ------
    KeyError
        When the worker does not have it any more.
    """
    return worker.data[key]


async def bring(worker: Worker, holders: Mapping[str, list[str]]) -> list[str]:
    """Copy values from other workers to this one; return the keys that failed."""
    others = {key: [each for each in who if each != worker.address] for key, who in holders.items()}
    answer = await worker.gather(who_has=cast("Any", others)) if others else {}
    brought = [key for key in others if key in worker.data]
    stimulus = f"raycompat-brought-{next(_order)}"
    worker.batched_stream.send({"op": "add-keys", "keys": brought, "stimulus_id": stimulus})
    return cast("list[str]", answer.get("keys", []))


def drop(worker: Worker, key: str) -> None:
    """Remove a value that a worker cannot read, and report that to the scheduler."""
    worker.handle_stimulus(
        RemoveReplicasEvent(keys=[key], stimulus_id=f"raycompat-unreadable-{key}")
    )


def as_bytes(block: Any) -> Any:
    """Wrap bytes so that an answer to a client sends them unchanged."""
    return to_serialize(memoryview(block))


def tell_scheduler(worker: Worker, message: FromNode) -> None:
    """Send one message on a worker's stream to the scheduler, in order with Dask's messages.

    Raises
    ------
    Exception
        When the message cannot be encoded; nothing is sent then.
    """
    worker.batched_stream.send(encodable(message.to_wire()))


def send_batches_at_once(worker: Worker) -> TakeBack:
    """Remove the pause between a worker's batches to the scheduler (Dask: 2 ms)."""
    return _send_at_once(worker.batched_stream)


def client_security(server: Worker | Scheduler) -> dict[str, Any] | None:
    """Return the security settings of a client on this server's host, for the same cluster.

    They are arguments of `distributed.Security`; None when the server uses no TLS.
    """
    security = server.security
    for role in ("client", "worker", "scheduler"):
        certificate = getattr(security, f"tls_{role}_cert")
        key = getattr(security, f"tls_{role}_key")
        if certificate is not None:
            break
    else:
        return None
    found = {
        "tls_ca_file": security.tls_ca_file,
        "tls_client_cert": certificate,
        "tls_client_key": key,
        "tls_ciphers": security.tls_ciphers,
        "require_encryption": security.require_encryption,
    }
    return {name: _absolute(value) for name, value in found.items() if value is not None}


def _absolute(value: Any) -> Any:
    """Return the absolute path of a certificate; a certificate itself is not changed."""
    is_path = isinstance(value, str) and "\n" not in value and os.path.exists(value)
    return os.path.abspath(value) if is_path else value


# --- in the process of a pulse ------------------------------------------------------------------


async def send_pulses(
    scheduler: str, security: dict[str, Any] | None, worker: str, period_s: float
) -> None:
    """Report to a scheduler, regularly, that a worker is alive.

    Raises
    ------
    OSError
        When the connection breaks.
    """
    arguments = Security(**(security or {})).get_connection_args("client")
    comm = await connect(scheduler, **arguments)
    try:
        while True:
            await comm.write({**Pulse(worker).to_wire(), "reply": True})
            await comm.read()
            await asyncio.sleep(period_s)
    finally:
        comm.abort()


# --- in a client --------------------------------------------------------------------------------


def default_scheme() -> str:
    """Return the scheme of addresses without one, by Dask's configuration."""
    if dask.config.get("distributed.comm.require-encryption"):
        return "tls"
    return str(dask.config.get("distributed.comm.default-scheme"))


def tls_context(security: Any) -> ssl.SSLContext | None:
    """Return the TLS context of a client with this security, or with Dask's configuration."""
    arguments = (security or Security()).get_connection_args("client")
    return cast("ssl.SSLContext | None", arguments["ssl_context"])


async def identify(address: str, security: Any, timeout_s: float) -> dict[str, Any]:
    """Return the description of the scheduler (or worker) at `address`.

    Call it with `asyncio.run`: it closes all sockets of the event loop, because Dask may leave the
    socket of a refused connection open.

    Raises
    ------
    Exception
        When no Dask server answers; at most after twice the timeout.
    """
    security = security or _maybe_call_security_loader(address) or Security()
    arguments = security.get_connection_args("client")
    try:
        async with asyncio.timeout(2 * timeout_s):
            comm = await connect(address, timeout=timeout_s, **arguments)
            try:
                await comm.write({"op": "identity", "reply": True})
                return cast("dict[str, Any]", await comm.read())
            finally:
                comm.abort()
    except TimeoutError:
        raise OSError(f"the server has not answered within {2 * timeout_s:.0f} s") from None
    finally:
        _close_sockets()


def _close_sockets() -> None:
    """Close the sockets of all streams of the running event loop."""
    loop = IOLoop.current()
    for file, _ in list(loop.handlers.values()):  # type: ignore[attr-defined]
        loop.remove_handler(file)
        loop.close_fd(file)


def asks_for_workers(cluster: Any) -> bool:
    """Return whether a Dask Cluster has or will have workers; True too if this is unknown."""
    plan = getattr(cluster, "plan", None)
    return plan is None or bool(plan) or getattr(cluster, "_adaptive", None) is not None


def prepare_client(
    client: Client,
    handlers: Mapping[str, Callable[..., None]],
    when_lost: Callable[[], None],
) -> None:
    """Add handlers of the stream from the scheduler, and send batches at once (Dask: 10 ms).

    A handler for one of Dask's own operations runs before Dask's. When the stream breaks, `when_lost`
    is called, and the client can only be closed; Dask would try to reconnect for 30 s. The client does
    not poll the cluster's state until `poll_scheduler`: each of many clients would poll every two
    seconds, and one that closes during a poll leaves a socket open.
    """
    client._periodic_callbacks["scheduler-info"].stop()

    async def give_up() -> None:
        client.scheduler_comm = None
        when_lost()

    client._reconnect = give_up
    own = client._stream_handlers
    for operation, handler in guarded(handlers).items():
        own[operation] = _both(handler, own[operation]) if operation in own else handler
    _send_at_once(client.scheduler_comm)


def poll_scheduler(client: Client) -> None:
    """Let a client poll the cluster's state every two seconds, as Dask's clients do, to show it."""
    polling = client._periodic_callbacks["scheduler-info"]
    if not polling.is_running():
        client.loop.add_callback(polling.start)


def _both(first: Callable[..., None], then: Callable[..., None]) -> Callable[..., None]:
    def handle(**message: Any) -> None:
        first(**message)
        then(**message)

    return handle


class _AliasThatKeeps(Alias):
    """A task with the value of another one; in this process it also keeps an object alive."""

    __slots__ = ("_kept",)

    def __init__(self, key: str, target: str, kept: object) -> None:
        super().__init__(key, target)
        self._kept = kept


def graph_of_one(key: str, source: str, kept: object) -> dict[str, Any]:
    """Return a graph with one task `key`, which has the value of a task in the scheduler.

    Everything made from the graph keeps `kept` alive until it is sent to the scheduler.
    """
    return {key: _AliasThatKeeps(key, source, kept)}


def default_client() -> Client | None:
    """Return the client that Dask's functions use, if it is connected to another process."""
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    is_there = client.status == "running" and not client.scheduler.address.startswith("inproc")
    return client if is_there else None


#: Frames between a client's method and the property that it reads.
_MANY_FRAMES = 24


def calling_client() -> Client | None:
    """Return the Dask client that runs in a frame above this one; None if none does."""
    from distributed import Client

    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MANY_FRAMES):
        if frame is None:
            break
        found = frame.f_locals.get("self")
        if isinstance(found, Client):
            return found
        frame = frame.f_back
    return None


def cluster_id(client: Client) -> str:
    """Return the id of a client's scheduler, without asking it: the client may be sending a graph."""
    return str(client._scheduler_identity.get("id"))


def _let_dask_know_futures() -> None:
    """Let Dask before 2026.1 find futures of other classes in arguments and graphs."""
    if hasattr(_task_spec, "_is_dask_future"):
        return
    parse, convert = _task_spec.parse_input, _task_spec.convert_legacy_task

    def parse_input(obj: Any) -> object:
        return parse(task_ref(obj))

    def convert_legacy_task(key: Any, task: Any, all_keys: Any) -> Any:
        return convert(key, task_ref(task), all_keys)

    _replace_in_dask("parse_input", parse, parse_input)
    _replace_in_dask("convert_legacy_task", convert, convert_legacy_task)


def _replace_in_dask(name: str, function: Any, by: Any) -> None:
    """Replace a function in all modules of Dask; those imported later import the new one."""
    for path, module in list(sys.modules.items()):
        if path.startswith(("dask.", "distributed.")) and vars(module).get(name) is function:
            setattr(module, name, by)


_let_dask_know_futures()


def _let_map_know_futures() -> None:
    """Let ``Client.map`` of all clients find futures of other classes in the arguments of a function.

    The graph of a map is made in the scheduler. This changes what the clients of this process send.
    """
    make = _MapExpr.__new__

    def new(
        cls: type[Any],
        func: Any,
        iterables: Any,
        *args: Any,
        _determ_token: Any = None,
        **named: Any,
    ) -> Any:
        if _determ_token is None:  # otherwise it is unpickled
            iterables = tuple(map(_items_for_dask, iterables))
            options = named.get("kwargs", {})
            named["kwargs"] = {name: _for_dask(each) for name, each in options.items()}
        return make(cls, func, iterables, *args, _determ_token=_determ_token, **named)

    _MapExpr.__new__ = new


def _items_for_dask(items: Any) -> Any:
    """Return a collection of arguments with its futures replaced; the same one if there are none."""
    if isinstance(items, range | str | bytes):
        return items
    pairs = [(each, _for_dask(each)) for each in items]
    return items if all(old is new for old, new in pairs) else [new for _, new in pairs]


def _for_dask(value: Any) -> Any:
    """Return an argument of a map with its futures replaced; the same one if there are none."""
    if is_foreign_future(value):
        return task_ref(value)
    return _task_spec.parse_input(value) if _has_foreign_future(value) else value


def _has_foreign_future(value: Any) -> bool:
    """Return whether a value is a container in which Dask finds a future of another class."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple | set):
        return False
    return any(is_foreign_future(each) or _has_foreign_future(each) for each in value)


def is_foreign_future(value: object) -> bool:
    """Return whether a value is a future by Dask's protocol, of a class that is not Dask's."""
    return getattr(type(value), "__dask_future__", False) is True


def task_ref(value: Any) -> Any:
    """Return the reference to a task that stands for such a future in a graph; other values as such."""
    return TaskRef(value.key) if is_foreign_future(value) else value


_let_map_know_futures()


def send(
    client: Client,
    on_refused: Callable[[FromCaller, str], None],
    messages: Iterable[FromCaller],
) -> None:
    """Send messages on a client's stream; call it in the client's event loop.

    `on_refused` is called with each message that cannot be encoded, and why.
    """
    sent = []
    for message in messages:
        try:
            sent.append(encodable(message.to_wire()))
        except Exception as error:
            client.scheduler_comm.send(*sent)  # `on_refused` may send parts of this message
            sent.clear()
            on_refused(message, f"{type(error).__name__}: {error}")
    client.scheduler_comm.send(*sent)


def error_bytes(exception: Any) -> bytes:
    """Return raycompat's error from the exception that Dask reports for a failed task."""
    if isinstance(exception, Serialized):
        exception = exception.deserialize()
    if isinstance(exception, bytes | bytearray):
        exception = loads(exception)
    if isinstance(exception, CallFailed):
        return exception.error
    return failures.internal(f"The task failed in Dask: {exception!r}")


async def addresses_of_workers(client: Client) -> list[str]:
    """Return the addresses of all workers."""
    identity = await client.scheduler.identity(n_workers=-1)
    return list(identity["workers"])


async def open_comm(client: Client, address: str, timeout_s: float) -> Any:
    """Connect to a worker with the TLS settings of `client`.

    Raises
    ------
    OSError
        When the worker cannot be reached in time.
    """
    return await connect(address, timeout=timeout_s, **client.connection_args)


async def ask_worker(client: Client, address: str, request: Request[_A]) -> _A:
    """Call an operation of a worker, over a connection that stays open.

    Raises
    ------
    OSError
        When the worker cannot be reached.
    """
    return await ask(client.rpc(address), request)


def event_loop(client: Client) -> asyncio.AbstractEventLoop:
    """Return the event loop of a client's thread."""
    return cast("asyncio.AbstractEventLoop", cast("Any", client.loop).asyncio_loop)


# --- Dask on Ray --------------------------------------------------------------------------------


def nodes_of_graph(graph: Any) -> dict[Any, Any]:
    """Return the nodes of a graph or expression by key, in the form of ``dask._task_spec``."""
    if not isinstance(graph, Mapping):
        graph = graph.__dask_graph__()
    return dict(_task_spec.convert_legacy_graph(dask.utils.ensure_dict(graph)))


def simple_node(node: Any) -> tuple[Any, bool, Any]:
    """Return the key for which a node stands, or else whether it is only a value, and the value."""
    if isinstance(node, Alias):
        return node.target, False, None
    if isinstance(node, _task_spec.DataNode):
        return None, True, node.value
    return None, False, None


def future_of(client: Any, key: Any) -> Any:
    """Return a client's future of a task that Dask's scheduler has."""
    return distributed.Future(key, client)


def let_dask_persist_by(*gets: Callable[..., Any]) -> None:
    """Let ``dask.persist`` and the method of collections ask scheduler functions for references.

    Dask asks a scheduler function for values in both `compute` and `persist`, and does not say which.
    """
    before = dask.base.persist

    @functools.wraps(before)
    def persist(*args: Any, scheduler: Any = None, **kwargs: Any) -> Any:
        if dask.base.get_scheduler(scheduler=scheduler) in gets:
            kwargs["ray_persist"] = True
        return before(*args, scheduler=scheduler, **kwargs)

    dask.base.persist = dask.persist = persist
