"""The session of this process: its connection to the cluster, and the state of its calls and objects.

A driver has one from `init` to `shutdown`. An executor has one for its whole life, and connects when it
first calls, puts, or keeps a reference. Messages leave through one stream in the order in which they
were queued. The Dask client's event loop handles the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from raycompat import exceptions
from raycompat._caller import call_sites, look, tensors
from raycompat._caller.by_channel import Channel
from raycompat._caller.by_scheduler import SchedulerSender
from raycompat._caller.calls import Call
from raycompat._caller.home import Home
from raycompat._caller.object_table import PENDING, Entry, ObjectTable
from raycompat._caller.scheduler_messages import SchedulerMessages
from raycompat._caller.sharing import Sharing
from raycompat._caller.unhandled import Unhandled
from raycompat._host import clock, interrupts, open_files, segment, thread_stacks, warm_memory
from raycompat._messages import direct
from raycompat._messages.base import FromCaller, Request, ask, handled
from raycompat._messages.calls import Cancel, Submit
from raycompat._messages.logs import LogsAwaited, LogsFlushed, OutputPiece
from raycompat._messages.objects import ObjectFreed, ReleaseKeys, Synced
from raycompat._messages.watching import (
    CallerLooked,
    DriverStack,
    Look,
    Measured,
    ShowStack,
    Tracked,
)
from raycompat._protocol import failures, ids
from raycompat._protocol.call_spec import CallSpec
from raycompat._protocol.connection import Pump
from raycompat._protocol.measurements import Measurements
from raycompat._protocol.runtime_env import EMPTY
from raycompat._protocol.strategy import InGroup, LeaseStrategy
from raycompat._protocol.tracked import Tracker
from raycompat._protocol.values import (
    ErrorValue,
    InlineValue,
    SegmentLink,
    StorePlace,
)

if TYPE_CHECKING:
    from distributed import Client

    from raycompat._caller.by_lease import LeasePool
    from raycompat._caller.connections import RelayedConnection
    from raycompat._caller.driver_logs import DriverLogs
    from raycompat._caller.exports import Exported
    from raycompat._caller.html_report import Report
    from raycompat._caller.lease import Lease
    from raycompat._protocol.resource_set import LeaseKind, ResourceSet

logger = logging.getLogger(__name__)

_A = TypeVar("_A")

#: Seconds for idle executors to close their connections before this process leaves the cluster.
_RETURN_S = 1.0

#: Seconds for the Dask client to close its connections.
_CLOSE_S = 5.0

#: Seconds between two collections of references to small values.
_TICK_S = 0.5


@dataclass
class Setup:
    """The settings of a session: from `init` in a driver, from the node in an executor."""

    job: str
    namespace: str
    home: Home
    scheduler: str
    is_driver: bool
    #: The id of this process's host.
    host: str
    #: Whether calls use leases where they can.
    uses_leases: bool
    #: The runtime environment of this process, which its calls inherit (`_protocol.runtime_env`).
    runtime_env: str = EMPTY
    #: Arguments of `distributed.Security` for the client; None uses Dask's settings.
    security: dict[str, Any] | None = None
    #: Whether this process may connect to nodes; otherwise the scheduler asks them.
    reaches_nodes: bool = True
    #: Whether actors that are created without a lifetime are detached.
    actors_are_detached: bool = False
    #: The folder of this process's node for files with output; empty in drivers.
    logs: str = ""


class Session:
    """The connection, calls, objects, leases and channels of one process."""

    def __init__(self, setup: Setup, client: Client | None = None) -> None:
        self.setup = setup
        #: The node that stores large values; a new one is chosen when it leaves the cluster.
        self.home = setup.home
        self._former_places: list[StorePlace] = []
        #: Set when that node leaves. For use in the event loop.
        self.home_left = asyncio.Event()
        #: Held to change the record of an object or a call and to send what follows from the change:
        #: so the scheduler gets messages in the order of the changes.
        self.lock = threading.RLock()
        self._unhandled = Unhandled(self)
        self.table = ObjectTable(
            self.lock, self._release, self._remove_segment, self._unhandled.tell_soon
        )
        #: Whether objects know which line of the program made them.
        self.records_sites = call_sites.are_recorded()
        self.calls: dict[str, Call] = {}
        #: The channels to the actors that were called, by the actors' keys.
        self.channels: dict[str, Channel] = {}
        #: The granted and requested leases by key, and their pools.
        self.leases: dict[str, Lease] = {}
        self._pools: dict[tuple[LeaseStrategy, LeaseKind], LeasePool] = {}
        #: Whether other callers wait for CPUs: then a lease without a call is returned at once.
        self.is_pressed = False
        #: Channels and leases with gathered calls that were not written yet.
        self.unflushed: set[Channel | Lease] = set()
        #: Connections that go through the scheduler, by name.
        self.relays: dict[str, RelayedConnection] = {}
        #: Addresses of nodes that only the scheduler can reach.
        self.out_of_reach: set[str] = set()
        self.pump = Pump()
        self.sharing = Sharing(self)
        self.by_scheduler = SchedulerSender(self)
        #: Values that the program records: executors send them through their nodes.
        self.measurements = Measurements(self._send_measured, self.call_later)
        self.tracker = Tracker(self._send_tracked, self.call_later)
        #: Writes a report of the program at its end, if the program requested one.
        self.report: Report | None = None
        self._scheduler_messages = SchedulerMessages(self)
        #: Called before and after a wait. An executor notifies its node, which lends the CPU meanwhile.
        self.on_block: Callable[[], None] = lambda: None
        self.on_unblock: Callable[[], None] = lambda: None
        #: Called with each segment that is about to be adopted: an executor gives it to its node.
        self.on_hand_over: Callable[[tuple[Any, ...]], None] = lambda wire: None
        #: Prints the output of tasks and actors, in drivers that show it.
        self.logs: DriverLogs | None = None
        #: The address of the dashboard, in drivers, if there is one.
        self.dashboard_url: str | None = None
        #: Returns the task id of the call that runs in this thread, if any.
        self.current_task: Callable[[], str | None] = lambda: None
        #: Returns the placement group that captures the calls of the task in this thread.
        self.captured: Callable[[], InGroup | None] = lambda: None
        #: The bundles of placement groups that this process uses, by the groups' ids.
        self.group_bundles: dict[str, list[ResourceSet]] = {}
        #: Values of objects that become ready with a placement group, by group and key.
        self.awaited_groups: dict[str, dict[str, InlineValue]] = {}
        #: The code of the exported functions that exist, by their ids.
        self.exported: dict[str, Exported] = {}
        #: Ids that this process has given to functions; other ids came with the functions.
        self.own_exports: set[str] = set()
        #: The version of the environment variables that this process's calls see.
        self.environment = (setup.job, 0)
        #: The frameworks that this process's code uses, as the scheduler was told.
        self.frameworks: set[str] = set()
        #: The number of references that were unpickled here.
        self.num_restored = 0
        #: References that were pickled by another pickler; they are kept until the end.
        self.leaked: dict[str, Any] = {}
        self.closed = False
        #: The error text and its class, after the scheduler or the last node was lost.
        self.lost: str | None = None
        self._lost_class: type[exceptions.RayError] = exceptions.RaySystemError
        #: What runs in the event loop and ends when they are lost.
        self._under_way: set[asyncio.Task[Any]] = set()
        #: Called in the event loop when the cluster has no node left.
        self.on_last_node_left: Callable[[], None] = lambda: None
        self._client = client
        self._outbox: deque[FromCaller] = deque()
        self._flush_due = False
        self._connect_lock = threading.Lock()
        self._callbacks: ThreadPoolExecutor | None = None
        self._idle = threading.Condition()
        self._is_awaited = False
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Writes messages to the scheduler; called in the event loop.
        self.write: Callable[[list[FromCaller]], None]
        open_files.allow_many()
        if client is not None:
            self._attach(client)

    # --- connection -----------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The Dask client, which connects at its first use."""
        if self._client is None:
            from raycompat._dask.client_class import DaskClient

            with self._connect_lock:
                if self._client is None:
                    client = DaskClient(
                        self.setup.scheduler, security=self.setup.security, set_as_default=False
                    )
                    self._attach(client)
                    self._client = client
        return self._client

    @property
    def client_id(self) -> str:
        """The id of this process at the scheduler."""
        return str(self.client.id)

    @property
    def hello(self) -> direct.Hello:
        """The first message to a process that gets this process's calls."""
        return (direct.HELLO, self.setup.host, self.client_id)

    @property
    def shares_home_memory(self) -> bool:
        """Whether the home node can map the segments that this process writes."""
        return self.home.host == self.setup.host

    def move(self, home: Home | None) -> None:
        """Change the home node, because the old one has left the cluster.

        None: there is no other node, at least not yet. Values that the old node did not get stay where
        they are: the segments of a living process are never removed by others. Called in the event
        loop.
        """
        self.home_left.set()
        if home is not None:
            self._former_places.append(self.home.place)
            self.home, self.home_left = home, asyncio.Event()
            self.sharing.home_moved()
        else:
            self.on_last_node_left()

    @property
    def is_connected(self) -> bool:
        """Whether this process has connected to the scheduler."""
        return self._client is not None

    def _attach(self, client: Client) -> None:
        # Not imported at the top: importing Dask takes most of a second.
        from raycompat._dask import client as adapter
        from raycompat._dask import transfer  # noqa: F401  (registers how values cross)

        handlers = {
            **self._scheduler_messages.handlers(),
            **dict(
                [
                    handled(Synced, self.sharing.on_synced),
                    handled(ObjectFreed, tensors.on_freed),
                    handled(OutputPiece, self._on_output),
                    handled(LogsFlushed, self._on_output),
                    handled(LogsAwaited, self._on_logs_awaited),
                    handled(Look, self._on_look),
                    handled(ShowStack, self._on_show_stack),
                ]
            ),
        }
        client.sync(_call_soon, adapter.prepare_client, client, handlers, self.lose_connection)
        self.write = partial(adapter.send, client, self._scheduler_messages.on_refused)
        # Set last: other threads send as soon as it is set. Until then, they wait in `client`.
        self._loop = adapter.event_loop(client)
        self._loop.call_soon_threadsafe(self._tick)

    def _on_look(self, message: Look) -> None:
        self.send(CallerLooked(message.token, look.describe(self, message.most)))

    def _on_show_stack(self, message: ShowStack) -> None:
        self.send(DriverStack(thread_stacks.describe()))

    def _on_output(self, message: OutputPiece | LogsFlushed) -> None:
        if self.logs is not None:
            self.logs.receive(message)

    def _on_logs_awaited(self, message: LogsAwaited) -> None:
        if self.logs is not None:
            self.logs.note_that_it_comes()

    def send(self, message: FromCaller) -> None:
        """Queue one message to the scheduler, behind all earlier ones."""
        if self.closed:
            return
        if self._loop is None:
            self.client  # noqa: B018  (connects)
        self._outbox.append(message)
        self.wake()

    def submit(self, spec: CallSpec) -> None:
        """Queue one call; calls in a row travel in one message."""
        self.send(Submit([spec]))
        self.sharing.count_message()

    def wake(self) -> None:
        """Wake the event loop to send the queued messages. Safe everywhere, also in ``__del__``."""
        if self._loop is not None and not self._flush_due and not self.closed:
            self._flush_due = True
            try:
                self._loop.call_soon_threadsafe(self._flush)
            except RuntimeError:  # the loop is closed, so the session is too
                self.closed = True

    def _tick(self) -> None:
        """Regularly collect dropped references that nothing else has collected."""
        try:
            self._flush()
        finally:
            if not self.closed and self._loop is not None:
                self._loop.call_later(_TICK_S, self._tick)

    def _flush(self) -> None:
        self._flush_due = False
        self.table.collect_dropped()
        messages: list[FromCaller] = []
        while self._outbox:
            message = self._outbox.popleft()
            last = messages[-1] if messages else None
            if isinstance(message, Submit) and isinstance(last, Submit):
                last.calls += message.calls
            else:
                messages.append(message)
        if messages and not self.closed:
            self.write(messages)

    def is_in_event_loop(self) -> bool:
        """Return whether this is the thread of the client's event loop."""
        return self._loop is not None and asyncio._get_running_loop() is self._loop

    def rpc(self, request: Request[_A]) -> _A:
        """Send a request to the scheduler plugin and wait for the answer.

        The scheduler handles all earlier messages about references and placement groups first.

        Raises
        ------
        RaySystemError
            When the connection to the scheduler is or was lost.
        TypeError, ValueError
            When a field is neither of a built-in type nor can be converted to one.
        """
        client = self.client
        self.check_connection()
        self.sharing.wait_until_synced()  # requests go by another connection
        try:
            return cast("_A", client.sync(self._until_lost, ask(client.scheduler, request)))
        except OSError:
            self.check_connection()
            raise

    def rpc_or_undo(self, request: Request[_A], undo: Callable[[], object]) -> _A:
        """Send a request as `rpc` does. After an interrupt, call `undo` once the scheduler answers.

        Interrupts can come while this waits, also inside `interrupts.deferred`.
        """
        self.check_connection()
        with interrupts.allowed():
            self.sharing.wait_until_synced()  # no request was sent yet, so there is nothing to undo
        answer = self.run(ask(self.client.scheduler, request))
        try:
            with interrupts.allowed():
                return cast("_A", answer.result())
        except OSError:
            self.check_connection()
            raise
        except KeyboardInterrupt:
            answer.add_done_callback(lambda _: undo())
            raise

    def check_connection(self) -> None:
        """Raise `RaySystemError` if the scheduler was lost, `LocalRayletDiedError` if the node was."""
        if self.lost is not None:
            raise self._lost_class(self.lost)

    def error_of_end(self, otherwise: str) -> exceptions.RayError:
        """Return the error of code that waits after the end of the session.

        Its text is `otherwise` if nothing was lost.
        """
        return self._lost_class(otherwise if self.lost is None else self.lost)

    def run(self, coroutine: Any) -> Future[Any]:
        """Run a coroutine in the client's event loop."""
        self.client  # noqa: B018  (connects)
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._until_lost(coroutine), self._loop)

    async def _until_lost(self, coroutine: Any) -> Any:
        """Await a coroutine, at most until the scheduler or the last node is lost.

        Dask would try to reconnect for 30 seconds.

        Raises
        ------
        OSError
            When it was lost before or meanwhile.
        """
        if self.lost is not None:
            coroutine.close()
            raise OSError(self.lost)
        task = asyncio.ensure_future(coroutine)
        self._under_way.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self.lost is None:
                raise
            raise OSError(self.lost) from None
        finally:
            self._under_way.discard(task)

    def call_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in the client's event loop."""
        self.client  # noqa: B018  (connects)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    def call_later_in_loop(
        self, delay_s: float, function: Callable[..., Any], *arguments: Any
    ) -> None:
        """Call a function later in the client's event loop. Must be called in that loop."""
        assert self._loop is not None
        self._loop.call_later(delay_s, function, *arguments)

    def call_later(self, delay_s: float, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function later in the client's event loop."""
        self.call_soon(self.call_later_in_loop, delay_s, function, *arguments)

    def channel(self, actor: str, *, in_order: bool) -> Channel:
        """Return the channel to an actor, for one more handle."""
        with self.lock:
            channel = self.channels.get(actor)
            if channel is None:
                channel = self.channels[actor] = Channel(self, actor, in_order=in_order)
            channel.add_handle()
            return channel

    def lease_pool(self, strategy: LeaseStrategy, kind: LeaseKind) -> LeasePool:
        """Return the pool that sends calls to leases of one kind, without or with a placement group."""
        pool = self._pools.get((strategy, kind))
        if pool is None:
            from raycompat._caller.by_lease import LeasePool

            with self.lock:
                pool = self._pools.setdefault((strategy, kind), LeasePool(self, strategy, kind))
        return pool

    def return_leases(self) -> None:
        """Return the idle leases, so that others can use their CPUs."""
        for pool in list(self._pools.values()):
            pool.return_idle()

    def flush(self) -> None:
        """Write the calls that have gathered, because a thread is about to wait."""
        while self.unflushed:
            try:
                self.unflushed.pop().flush()
            except KeyError:  # another thread has just taken the last
                return

    def close(self) -> None:
        """Leave the cluster after all queued messages. Threads that still wait get an error.

        After an interrupt or an error, messages may be lost, but every resource is released.
        """
        with interrupts.deferred(), contextlib.ExitStack() as steps:
            # The last callback runs first, and each runs even if another one raises.
            if self.logs is not None:
                steps.callback(self.logs.close)
            steps.callback(self._close_client)
            steps.callback(self._remove_segments)
            steps.callback(self._end_work)
            with interrupts.allowed():
                self._send_last_messages()

    @property
    def worker_id(self) -> str:
        """The id of this process."""
        node = "" if self.setup.is_driver else self.home.node_id
        return ids.worker_id(os.getpid(), self.setup.job, node)

    def _send_measured(self, measured: list[Any]) -> None:
        process, job = self.worker_id, self.setup.job
        self.send(Measured(process, job, measured))

    def _send_tracked(self, records: list[Any]) -> None:
        self.send(Tracked(records))

    def _send_last_messages(self) -> None:
        if self.is_connected:
            self.measurements.flush()
            self.tracker.flush()
        self._return_leases_and_wait()
        if self.logs is not None and not self.closed and self.client.status == "running":
            self.logs.flush()
        if self._client is not None and not self.closed:
            with contextlib.suppress(OSError, RuntimeError):  # the scheduler may be gone
                self._client.sync(_call_soon, self._flush)

    def _end_work(self) -> None:
        self.closed = True
        self._unhandled.log_counts()
        text = "The session was shut down while this object was being made."
        with contextlib.ExitStack() as steps:
            if self._callbacks is not None:
                steps.callback(self._callbacks.shutdown, wait=False, cancel_futures=True)
            steps.callback(self._fail_all, failures.internal(text))
            steps.callback(self.pump.close)

    def _remove_segments(self) -> None:
        warm_memory.drop_all()
        for entry in list(self.table.own.values()):  # segments of nodes stay
            if isinstance(entry.value, SegmentLink):
                segment.remove(entry.value.path)
        for place in self._former_places:
            segment.remove_all(place.directories, place.store, os.getpid())
        if not self.shares_home_memory:
            segment.remove_all(self.home.place.directories, self.home.place.store)

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close(timeout=_CLOSE_S)

    def _return_leases_and_wait(self) -> None:
        """Return the idle leases, and wait for their last messages: the output of their calls."""
        leases = list(self.leases.values())
        self.return_leases()
        deadline = clock.monotonic() + _RETURN_S
        for lease in leases:
            if not lease.unanswered and lease.connection is not None and self.setup.is_driver:
                lease.is_over.wait(max(0.0, deadline - clock.monotonic()))

    def lose_connection(self) -> None:
        """Fail everything that waits for the scheduler, because it died or cannot be reached.

        There is no reconnection: the scheduler has already released the state of this process. Called
        in the client's event loop.
        """
        text = (
            f"The connection to the cluster's scheduler at {self.setup.scheduler} was lost: it has "
            "died, or cannot be reached any more. Call ray.shutdown(), and ray.init() when there is "
            "a cluster again."
        )
        self._lose(exceptions.RaySystemError, text)

    def lose_cluster(self, text: str) -> None:
        """Fail everything, because raycompat was taken off the cluster. `text` says how.

        Called in the client's event loop.
        """
        self._lose(exceptions.RaySystemError, text)

    def lose_node(self, text: str) -> None:
        """Fail everything, because the only node of the cluster that this process started is dead.

        Called in the client's event loop. `text` says why.
        """
        self._lose(exceptions.LocalRayletDiedError, text)

    def _lose(self, kind: type[exceptions.RayError], text: str) -> None:
        if self.lost is not None or self.closed:
            return
        self._lost_class, self.lost = kind, text
        logger.log(logging.ERROR if self.setup.is_driver else logging.DEBUG, "%s", text)
        self.closed = True
        for task in list(self._under_way):
            task.cancel()
        self._fail_all(exceptions.dumps_error(kind(text)))
        for channel in list(self.channels.values()):
            channel.close()  # a waiting thread may be reading there
        for lease in list(self.leases.values()):
            if lease.connection is not None:
                lease.connection.close()

    def leave_to_parent(self) -> None:
        """Refuse all later operations: this process was forked, and its parent uses the connections.

        Takes no lock: a thread that exists only in the parent may hold it.
        """
        self.lost = (
            f"This process is a fork of process {os.getppid()}, and cannot use its connection to the "
            "cluster, its references and its handles. Call ray.init() in this process, with the "
            "address of the cluster if it has one, or let a task do the work."
        )
        self.closed = True
        self.unflushed = set()
        self.table.leave_to_parent(self.lost)

    def _fail_all(self, error: bytes) -> None:
        for call in list(self.calls.values()):
            if call.stream is not None:
                call.stream.end(error, None)
        self.table.end(error)
        self.sharing.end_waits()

    @property
    def callbacks(self) -> ThreadPoolExecutor:
        """The thread that runs user code when a future is done."""
        with self._connect_lock:
            if self._callbacks is None:
                self._callbacks = ThreadPoolExecutor(1, thread_name_prefix="raycompat-callbacks")
            return self._callbacks

    def cancel(self, key: str, *, force: bool, recursive: bool) -> None:
        """Request the end of a call, of this process or of another."""
        call = self.calls.get(key)
        if call is not None:
            with interrupts.deferred():
                call.sender.cancel(call, force=force, recursive=recursive)
        else:
            self.send(Cancel(key, force, recursive))

    def cancel_children(self, key: str) -> None:
        """Request the end of all calls that a task has made here."""
        for call in list(self.calls.values()):
            if call.parent == key:
                call.sender.cancel(call, force=False, recursive=True)

    def give_credit(self, key: str, num_received: int, is_wanted: bool) -> None:
        """Report to the generator of a call how many of its items were received here."""
        call = self.calls.get(key)
        if call is not None:
            call.sender.give_credit(call, num_received, is_wanted)

    # --- lifetimes ------------------------------------------------------------------------------

    def _release(self, keys: list[str]) -> None:
        if not self.closed:
            self.send(ReleaseKeys(keys))
            if self.sharing.lingering:
                self.sharing.unload(keys)

    def _remove_segment(self, link: SegmentLink) -> None:
        self.home.place.remove(link.path)

    # --- how calls end --------------------------------------------------------------------------

    def call_ended(self, call: Call) -> None:
        """Release the objects that a call has kept alive."""
        call.holds = ()
        self.calls.pop(call.key, None)
        if not self.calls and self._is_awaited:
            with self._idle:
                self._idle.notify_all()

    def settle(self, entry: Entry, value: InlineValue | SegmentLink | ErrorValue) -> None:
        if isinstance(value, ErrorValue):
            self.table.settle(entry, error=value.error)
        elif isinstance(value, InlineValue):
            self.table.settle(entry, value=value, holds=self.sharing.hold(value.refs))
        elif value.host == self.setup.host:
            self.table.settle(entry, value=value)
        else:
            self.table.settle(entry)  # the value is in the cluster

    def lose_value(self, entry: Entry, path: str) -> None:
        """Forget a segment that is gone: a node has the value, or it is computed again, or lost."""
        with self.lock:
            if not self.table.lose_value(entry, path):
                return
            origin = entry.origin
            if entry.parent is not None and (origin is None or origin.is_end_reported):
                self.sharing.publish(entry)  # a node has it, among the results of its call
            elif origin is not None and origin.use_retry():
                entry.state = PENDING
                self.by_scheduler.resubmit(origin)
            else:
                self.table.lose(entry)

    def wait_until_idle(self, timeout_s: float | None) -> None:
        """Wait until every call of this process has ended, or until the timeout."""
        self.flush()
        with self._idle:
            self._is_awaited = True
            self._idle.wait_for(lambda: not self.calls, timeout_s)


async def _call_soon(function: Callable[..., Any], *arguments: Any) -> None:
    function(*arguments)
