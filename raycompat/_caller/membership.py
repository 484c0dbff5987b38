"""What connects this process to the cluster: its place, its objects, its calls, and its messages.

The parts of a session are given it as a `Membership`. `session.Session` adds what sends calls: senders,
channels and leases. Messages leave through one stream in the order in which they were queued. The Dask
client's event loop handles the answers.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from raycompat import exceptions
from raycompat._caller import call_sites
from raycompat._caller.object_table import Entry, ObjectTable
from raycompat._caller.sharing import Announcer, Sharing
from raycompat._caller.unhandled import Unhandled
from raycompat._host import clock, interrupts, open_files
from raycompat._messages import direct
from raycompat._messages.calls import Cancel, Submit
from raycompat._messages.objects import ReleaseKeys
from raycompat._protocol import ids
from raycompat._protocol.call_spec import CallSpec
from raycompat._protocol.connection import Pump
from raycompat._protocol.message import FromCaller, Request, ask
from raycompat._protocol.values import (
    ErrorValue,
    InlineValue,
    SegmentLink,
    StorePlace,
)

if TYPE_CHECKING:
    from distributed import Client

    from raycompat._caller.calls import Call
    from raycompat._caller.home import Home
    from raycompat._caller.lease import Lease
    from raycompat._caller.object_ref import ObjectRef
    from raycompat._caller.setup import Setup

_A = TypeVar("_A")

#: Seconds between two collections of references to small values.
_TICK_S = 0.5

#: Seconds that a full store is waited for after the last release of a value, as Ray waits.
_ROOM_S = 2.0


class Gathering(Protocol):
    """What gathers calls, to write several of them at once."""

    def flush(self) -> None:
        """Write the calls that have gathered."""


class Membership:
    """The part of a session that needs no sender of calls."""

    #: The sender of calls by the scheduler.
    by_scheduler: Announcer

    def __init__(self, setup: Setup) -> None:
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
        self.table: ObjectTable = ObjectTable(
            self.lock, self._release, self._remove_segment, self._unhandled.tell_soon
        )
        #: Whether objects know which line of the program made them.
        self.records_sites = call_sites.are_recorded()
        #: The calls that have not ended, by key.
        self.calls: dict[str, Call] = {}
        #: Channels and leases with gathered calls that were not written yet.
        self.unflushed: set[Gathering] = set()
        #: The granted and requested leases, by key.
        self.leases: dict[str, Lease] = {}
        #: Whether other callers wait for CPUs: then a lease without a call is returned at once.
        self.is_pressed = False
        #: What gets the data of each connection that goes through the scheduler, by its name.
        self.relays: dict[str, Callable[[bytes | None], None]] = {}
        #: Addresses of nodes that only the scheduler can reach.
        self.out_of_reach: set[str] = set()
        self.pump = Pump()
        self.sharing = Sharing(self)
        #: Called before and after a wait. An executor notifies its node, which lends the CPU meanwhile.
        self.on_block: Callable[[], None] = lambda: None
        self.on_unblock: Callable[[], None] = lambda: None
        #: Called with each segment that is about to be adopted: an executor gives it to its node.
        self.on_hand_over: Callable[[tuple[Any, ...]], None] = lambda wire: None
        #: The number of references that were unpickled here.
        self.num_restored = 0
        #: References that were pickled by another pickler; they are kept until the end.
        self.leaked: dict[str, Any] = {}
        #: When values were released last.
        self._released_s = -math.inf
        self.closed = False
        #: The error text and its class, after the scheduler or the last node was lost.
        self.lost: str | None = None
        self._lost_class: type[exceptions.RayError] = exceptions.RaySystemError
        #: What runs in the event loop and ends when they are lost.
        self._under_way: set[asyncio.Task[Any]] = set()
        #: Called in the event loop when the cluster has no node left.
        self.on_last_node_left: Callable[[], None] = lambda: None
        self._client: Client | None = None
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
    def worker_id(self) -> str:
        """The id of this process."""
        node = "" if self.setup.is_driver else self.home.node_id
        return ids.worker_id(os.getpid(), self.setup.job, node)

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
        """Let a connected client serve this session. Sets `write` and `_loop`."""
        raise NotImplementedError

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
                return answer.result()
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

    def run(self, coroutine: Coroutine[object, object, _A]) -> Future[_A]:
        """Run a coroutine in the client's event loop."""
        self.client  # noqa: B018  (connects)
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._until_lost(coroutine), self._loop)

    async def _until_lost(self, coroutine: Coroutine[object, object, _A]) -> _A:
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

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the client's event loop."""
        self.client  # noqa: B018  (connects)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    def call_later_in_loop(
        self, delay_s: float, function: Callable[..., object], *arguments: object
    ) -> None:
        """Call a function later in the client's event loop. Must be called in that loop."""
        assert self._loop is not None
        self._loop.call_later(delay_s, function, *arguments)

    def call_later(
        self, delay_s: float, function: Callable[..., object], *arguments: object
    ) -> None:
        """Call a function later in the client's event loop."""
        self.call_soon(self.call_later_in_loop, delay_s, function, *arguments)

    # --- objects ----------------------------------------------------------------------------------

    def settle(self, entry: Entry, value: InlineValue | SegmentLink | ErrorValue) -> None:
        if isinstance(value, ErrorValue):
            self.table.settle(entry, error=value.error)
        elif isinstance(value, InlineValue):
            self.table.settle(entry, value=value, holds=self.sharing.hold(value.refs))
        elif value.host == self.setup.host:
            self.table.settle(entry, value=value)
        else:
            self.table.settle(entry)  # the value is in the cluster

    def _release(self, keys: list[str]) -> None:
        if not self.closed:
            self._released_s = clock.monotonic()
            self.send(ReleaseKeys(keys))
            if self.sharing.lingering:
                self.sharing.unload(keys)

    def wait_for_room(self) -> bool:
        """Wait a moment if the store may soon have room again; return whether that was so.

        A node removes what was released here a little later, and tells nobody.
        """
        if clock.monotonic() > self._released_s + _ROOM_S:
            return False
        time.sleep(0.005)  # polling with a deadline
        return True

    def _remove_segment(self, link: SegmentLink) -> None:
        self.home.place.remove(link.path)

    def as_future(self, ref: ObjectRef[object]) -> Future[Any]:
        """Return a future that gets the value, or the error, of a reference."""
        raise NotImplementedError

    def as_asyncio_future(self, ref: ObjectRef[object]) -> asyncio.Future[Any]:
        """Return a future of the current event loop that gets the value, or the error."""
        raise NotImplementedError

    @property
    def callbacks(self) -> ThreadPoolExecutor:
        """The thread that runs user code when a future is done."""
        with self._connect_lock:
            if self._callbacks is None:
                self._callbacks = ThreadPoolExecutor(1, thread_name_prefix="raycompat-callbacks")
            return self._callbacks

    # --- calls that have not ended ------------------------------------------------------------------

    def flush(self) -> None:
        """Write the calls that have gathered, because a thread is about to wait."""
        while self.unflushed:
            try:
                self.unflushed.pop().flush()
            except KeyError:  # another thread has just taken the last
                return

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

    def call_ended(self, call: Call) -> None:
        """Release the objects that a call has kept alive."""
        call.holds = ()
        self.calls.pop(call.key, None)
        if not self.calls and self._is_awaited:
            with self._idle:
                self._idle.notify_all()

    def wait_until_idle(self, timeout_s: float | None) -> None:
        """Wait until every call of this process has ended, or until the timeout."""
        self.flush()
        with self._idle:
            self._is_awaited = True
            self._idle.wait_for(lambda: not self.calls, timeout_s)
