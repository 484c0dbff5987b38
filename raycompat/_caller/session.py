"""The session of this process: what it sends calls with, and how it begins and ends.

A driver has one from `init` to `shutdown`. An executor has one for its whole life, and connects when it
first calls, puts, or keeps a reference.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from raycompat import exceptions
from raycompat._caller import current_session, kept_tensors, look, resolve
from raycompat._caller.by_channel import Channel
from raycompat._caller.by_scheduler import SchedulerSender
from raycompat._caller.exports import Exports
from raycompat._caller.membership import Membership
from raycompat._caller.placement_groups import PlacementGroups
from raycompat._caller.scheduler_messages import SchedulerMessages
from raycompat._caller.setup import Setup
from raycompat._host import clock, interrupts, segment, thread_stacks, warm_memory
from raycompat._messages.groups import GroupReady
from raycompat._messages.logs import LogsAwaited, LogsFlushed, OutputPiece
from raycompat._messages.objects import ObjectFreed, Synced
from raycompat._messages.watching import (
    CallerLooked,
    DriverStack,
    Look,
    Measured,
    ShowStack,
    Tracked,
)
from raycompat._protocol import failures
from raycompat._protocol.measurements import Measurements
from raycompat._protocol.message import handled
from raycompat._protocol.strategy import InGroup, LeaseStrategy
from raycompat._protocol.tracked import Tracker
from raycompat._protocol.values import SegmentLink
from raycompat._upper import upper

if TYPE_CHECKING:
    from distributed import Client

    from raycompat._caller.by_lease import LeasePool
    from raycompat._caller.driver_logs import DriverLogs
    from raycompat._caller.html_report import Report
    from raycompat._caller.object_ref import ObjectRef
    from raycompat._protocol.resource_set import LeaseKind

logger = logging.getLogger(__name__)

#: Seconds for idle executors to close their connections before this process leaves the cluster.
_RETURN_S = 1.0

#: Seconds for the Dask client to close its connections.
_CLOSE_S = 5.0

#: Returns the session of this process, if it has one: it is the only membership that is set there.
current = cast("Callable[[], Session | None]", current_session.get)

#: In a forked process, the session that belongs to its parent.
_of_parent: Session | None = None


def require() -> Session:
    """Return this process's session; start one, like `init` without arguments, if there is none.

    Raises
    ------
    RaySystemError
        When the connection to the scheduler was lost.
    """
    session = current() or connected_or_not()
    session.check_connection()
    return session


def connected_or_not() -> Session:
    """Return this process's session; start one if there is none.

    Raises
    ------
    RaySystemError
        In a process that was forked from one with a session: it must call `init` itself.
    """
    session = current()
    if session is None:
        if _of_parent is not None:
            _of_parent.check_connection()
        upper("_launch.driver").start_by_itself()
        session = current()
        assert session is not None
    return session


def connected(function: str) -> Session:
    """Return this process's session, for functions that do not start one.

    Raises
    ------
    RaySystemError
        When there is no session, or its connection to the scheduler was lost.
    """
    session = current()
    if session is None:
        raise exceptions.RaySystemError(
            f"Ray has not been started yet: call ray.init() before {function}()."
        )
    session.check_connection()
    return session


def _forget_in_fork() -> None:
    """Leave the session to the parent: a forked child has no threads."""
    global _of_parent
    session = current()
    if session is not None:
        session.leave_to_parent()
        _of_parent = session
        current_session.set_to(None)


os.register_at_fork(after_in_child=_forget_in_fork)


class Session(Membership):
    """The membership of one process, with its channels, leases and other senders of calls."""

    def __init__(self, setup: Setup, client: Client | None = None) -> None:
        super().__init__(setup)
        #: The channels to the actors that were called, by the actors' keys.
        self.channels: dict[str, Channel] = {}
        self._pools: dict[tuple[LeaseStrategy, LeaseKind], LeasePool] = {}
        self.by_scheduler: SchedulerSender = SchedulerSender(self)
        #: Values that the program records: executors send them through their nodes.
        self.measurements = Measurements(self._send_measured, self.call_later)
        self.tracker = Tracker(self._send_tracked, self.call_later)
        #: Writes a report of the program at its end, if the program requested one.
        self.report: Report | None = None
        self._scheduler_messages = SchedulerMessages(
            self, self.by_scheduler, self.channels, self.return_leases, self.lose_cluster
        )
        #: Prints the output of tasks and actors, in drivers that show it.
        self.logs: DriverLogs | None = None
        #: The address of the dashboard, in drivers, if there is one.
        self.dashboard_url: str | None = None
        #: Returns the task id of the call that runs in this thread, if any.
        self.current_task: Callable[[], str | None] = lambda: None
        #: Returns the placement group that captures the calls of the task in this thread.
        self.captured: Callable[[], InGroup | None] = lambda: None
        self.placement_groups = PlacementGroups(self)
        self.exports = Exports(self)
        #: The version of the environment variables that this process's calls see.
        self.environment = (setup.job, 0)
        if client is not None:
            self._client = client
            self._attach(client)

    def _attach(self, client: Client) -> None:
        # Not imported at the top: importing Dask takes most of a second.
        from raycompat._dask import client as adapter
        from raycompat._dask import transfer  # noqa: F401  (registers how values cross)

        handlers = {
            **self._scheduler_messages.handlers(),
            **dict(
                [
                    handled(Synced, self.sharing.on_synced),
                    handled(GroupReady, self.placement_groups.on_ready),
                    handled(ObjectFreed, kept_tensors.on_freed),
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

    def _send_measured(self, measured: list[Any]) -> None:
        process, job = self.worker_id, self.setup.job
        self.send(Measured(process, job, measured))

    def _send_tracked(self, records: list[Any]) -> None:
        self.send(Tracked(records))

    # --- calls ------------------------------------------------------------------------------------

    def channel(self, actor: str, *, in_order: bool) -> Channel:
        """Return the channel to an actor, for one more handle."""
        with self.lock:
            channel = self.channels.get(actor)
            if channel is None:
                channel = self.channels[actor] = Channel(
                    self, actor, self.channels, in_order=in_order
                )
            channel.add_handle()
            return channel

    def lease_pool(self, strategy: LeaseStrategy, kind: LeaseKind) -> LeasePool:
        """Return the pool that sends calls to leases of one kind, without or with a placement group."""
        pool = self._pools.get((strategy, kind))
        if pool is None:
            from raycompat._caller.by_lease import LeasePool

            with self.lock:
                new = LeasePool(self, self.by_scheduler, strategy, kind)
                pool = self._pools.setdefault((strategy, kind), new)
        return pool

    def return_leases(self) -> None:
        """Return the idle leases, so that others can use their CPUs."""
        for pool in list(self._pools.values()):
            pool.return_idle()

    def as_future(self, ref: ObjectRef[object]) -> Future[object]:
        """Return a future that gets the value, or the error, of a reference."""
        return resolve.as_future(ref)

    def as_asyncio_future(self, ref: ObjectRef[object]) -> asyncio.Future[Any]:
        """Return a future of the current event loop that gets the value, or the error."""
        return resolve.as_asyncio_future(ref)

    # --- the end ------------------------------------------------------------------------------------

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
        self.table.end(error)  # a call that is sent now ends its own stream
        for call in list(self.calls.values()):
            if call.stream is not None:
                call.stream.end(error, None)
        self.sharing.end_waits()


async def _call_soon(function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)
