"""The connection from this process to one actor: its calls in order, their answers, and its failures.

The scheduler reports where the actor's process is. A channel sends a call when all earlier calls were
sent and its arguments are ready. The channel also handles calls that were sent and not answered: when
the actor's process dies, it sends them again if they may be retried; otherwise it fails them.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from raycompat import exceptions
from raycompat._caller import connections
from raycompat._caller.calls import SENT, WAITING, Call
from raycompat._caller.direct_sender import (
    LARGE_BYTES,
    REPORT_S,
    DirectSender,
    when_drained,
)
from raycompat._caller.object_table import FAILED, Entry
from raycompat._messages import direct
from raycompat._messages.actors import ActorState, UnwatchActor, WatchActor
from raycompat._messages.calls import CancelDirect
from raycompat._protocol import failures
from raycompat._protocol.connection import Notes
from raycompat._protocol.frames import Unreadable
from raycompat._protocol.values import Wire

if TYPE_CHECKING:
    from raycompat._caller.call_connection import CallConnection
    from raycompat._caller.membership import Membership

logger = logging.getLogger(__name__)


class Channel(DirectSender):
    """The sender of one actor's calls. All handles of a session share it."""

    def __init__(
        self, session: Membership, actor: str, channels: dict[str, Channel], *, in_order: bool
    ) -> None:
        super().__init__(session)
        #: The session's channels, by the actors' keys: one without handles leaves them.
        self._channels = channels
        #: The actor's Dask key.
        self.key = actor
        self._in_order = in_order
        self._num_handles = 0
        #: Calls that were not sent yet, by key, in order. Access by key needs no search.
        self._queue: OrderedDict[str, Call] = OrderedDict()
        #: Calls that were sent and not answered, in order.
        self._unanswered: dict[str, Call] = {}
        #: The scheduler's last report, and the incarnation of the process that was connected.
        self._report = ActorState(actor)
        self._incarnation = -1
        self._connection: CallConnection | None = None
        self._host = ""
        self._node_address = ""
        entry = session.table.get(actor)
        #: The error that says why the actor is dead.
        self._error: bytes | None = entry.error if entry is not None else None
        if self._error is None:
            session.send(WatchActor(actor))

    # --- handles --------------------------------------------------------------------------------

    def add_handle(self) -> None:
        """Count a handle that uses this channel."""
        with self._session.lock:
            self._num_handles += 1

    def drop_handle(self) -> None:
        """Remove a handle; close the channel after the last one. Running calls hold handles too."""
        session = self._session
        with session.lock:
            self._num_handles -= 1
            if self._num_handles:
                return
            if self._channels.get(self.key) is self:
                del self._channels[self.key]
                session.send(UnwatchActor(self.key))
        # Wait until the scheduler knows the references in the last results: the actor holds them until
        # then.
        if not session.sharing.when_synced(self.close):
            self.close()

    def close(self) -> None:
        """Close the connection to the actor."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def num_pending(self) -> int:
        """The number of calls that have not ended."""
        return len(self._queue) + len(self._unanswered)

    # --- sending calls --------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call when its turn has come. Never waits."""
        for entry in call.returns:
            entry.channel = self
        try:
            self._session.calls[call.key] = call
            with self._lock:
                connection = self._connection
                must_wait = self._queue or call.dependencies or call.carries_references
                if connection is not None and not must_wait:
                    self._post(call, connection)
                    return
            with self._failing, self._lock:
                if self._error is not None:
                    self._fail(call, self._error)
                    return
                self._queue[call.key] = call
                self._await_arguments(call)
                self._refuse_while_restarting([call])
        except BaseException:  # the caller gets no reference
            with self._failing, self._lock:
                self._unanswered.pop(call.key, None)
                if self._queue.pop(call.key, None) is not None:
                    self._advance()  # later calls may wait behind it
            raise

    def _wait_is_over(self, call: Call) -> None:
        with self._failing, self._lock:
            call.num_waits -= 1
            if not call.num_waits:
                self._fail_if_an_argument_failed(call)
            self._advance([call])

    def _fail_if_an_argument_failed(self, call: Call) -> None:
        for entry in call.dependencies:
            if entry.state is FAILED and self._queue.pop(call.key, None) is not None:
                self._fail(call, entry.error or b"", victim=call.name)

    def _resolve(self, call: Call) -> bool:
        """Insert the values of arguments that were references; False if it must wait longer."""
        if call.wires is None:
            call.wires = tuple(self._wire_of(entry, self._host) for entry in call.dependencies)
            self._await_sync(call)
        return not call.num_waits

    def _advance(self, calls: Iterable[Call] = ()) -> None:
        """Send calls that are ready: the next ones in order, or any of `calls` if order is free.

        The caller holds the lock.
        """
        for call in calls if not self._in_order else ():
            is_ready = not call.num_waits and call.key in self._queue
            if self._connection is not None and is_ready and self._resolve(call):
                self._post(call, self._connection, self._dequeue(call))
        while (connection := self._connection) is not None and self._queue:
            call = next(iter(self._queue.values()))
            if call.num_waits or not self._resolve(call):
                break
            self._post(call, connection, self._dequeue(call))
        self.flush()

    def _dequeue(self, call: Call) -> Callable[[], object]:
        return partial(self._queue.pop, call.key, None)

    def _post(self, call: Call, connection: CallConnection, *taken: Callable[[], object]) -> None:
        """Send a call; the functions in `taken` remove it from the queue where it waited."""
        is_first = not self._unanswered
        call.attempt += 1
        call.state = SENT
        for entry in call.returns:
            entry.is_on_wire = True
        # The first call leaves at once. While its answer is awaited, small calls gather behind it.
        now = is_first or len(call.arguments or b"") > LARGE_BYTES
        sent: Notes = (*taken, partial(self._unanswered.__setitem__, call.key, call))
        connection.post(call.message(), now=now, notes=sent)
        if not now:
            self._session.unflushed.add(self)

    def flush(self) -> None:
        """Write the calls that have gathered."""
        connection = self._connection
        if connection is not None:
            connection.flush()

    def read_until(
        self, is_over: Callable[[], bool], timeout_s: float | None, entries: Sequence[Entry]
    ) -> bool:
        """Handle answers in this thread until `is_over()`; False when it must wait in another way."""
        connection = self._connection
        return connection is not None and connection.receive_until(is_over, timeout_s)

    def cancel(self, call: Call, *, force: bool, recursive: bool) -> None:
        """Remove a call that was not sent; tell the actor's process to end one that was."""
        with self._failing, self._lock:
            call.is_cancelled = True
            if self._queue.pop(call.key, None) is not None:
                self._fail(call, failures.cancelled(call.key))
                self._advance()
                return
        self.flush()  # a cancellation that overtakes its call takes effect when others have ended
        self._session.send(CancelDirect(self.key, call.key, force=False, recursive=recursive))

    def give_credit(self, call: Call, num_received: int, is_wanted: bool) -> None:
        """Report to the generator of a call how many of its items were received here.

        Without a connection nothing is sent: the generator starts again on the next connection. A
        cancelled one must not go on before the cancellation arrives.
        """
        connection = self._connection
        if connection is not None and not call.is_cancelled:
            connection.post((direct.CREDIT, call.key, num_received, is_wanted), now=True)

    # --- where the actor is ---------------------------------------------------------------------

    def on_report(self, report: ActorState) -> None:
        """Follow the actor to its new state. Called in the session's event loop.

        Answers that the process wrote before its death are still read first.
        """
        with self._failing, self._lock:
            self._report = report
            if self._connection is None:
                self._follow()
            elif report.state != "ALIVE" or report.incarnation != self._incarnation:
                connection = self._connection
                when_drained(self._session, connection, partial(self._end, connection))

    def _end(self, connection: CallConnection) -> None:
        if connection is self._connection:
            connection.close()
            self.disconnected(connection)

    def _follow(self) -> None:
        state, error = self._report.state, self._report.error
        if self._error is not None:
            return
        if state == "ALIVE" and self._report.incarnation > self._incarnation:
            self._incarnation = self._report.incarnation
            self._host, self._node_address = self._report.host, self._report.address
            self._handle_unanswered(error)
            for call in self._queue.values():
                call.wires = None  # the new process may be on another host
            self._session.run(connections.connect(self._session, self._report, self))
        elif state == "RESTARTING":
            self._handle_unanswered(error)
            self._refuse_while_restarting(list(self._queue.values()))
        elif state == "DEAD":
            self._bury(error or failures.actor_died("The actor is dead.", self.key))

    def connected(self, connection: CallConnection, incarnation: int) -> None:
        """Send the calls that waited for a connection."""
        with self._failing, self._lock:
            with self._session.lock:
                is_stale = not self._num_handles
            if is_stale or self._error is not None or incarnation != self._incarnation:
                connection.close()
                return
            self._connection = connection
            connection.post(self._session.hello, now=True)
            self._advance(list(self._queue.values()))

    def bury(self, error: bytes) -> None:
        """Fail all calls, now and later: the actor is dead for the reason in `error`."""
        with self._failing, self._lock:
            if self._error is None:
                self._bury(error)

    @property
    def is_dead(self) -> bool:
        """Whether the actor is dead, as far as this process knows."""
        return self._error is not None

    def kill(self) -> None:
        """Treat the actor as dead from now on: this process has requested its end."""
        self.bury(failures.actor_killed(self.key))

    def disconnected(self, connection: CallConnection) -> None:
        """Follow the scheduler's reports: this connection has ended."""
        with self._failing, self._lock:
            if connection is self._connection:
                self._connection = None
                self._follow()
                self.connect_failed()

    def connect_failed(self) -> None:
        """Connect through the scheduler, unless it soon reports the end of the actor's process."""
        if self._error is None and not self._session.closed:
            incarnation = self._incarnation
            self._session.call_later(REPORT_S, self._connect_through_scheduler, incarnation)

    def _connect_through_scheduler(self, incarnation: int) -> None:
        with self._failing, self._lock:
            is_lost = self._connection is None and self._report.state == "ALIVE"
            if is_lost and incarnation == self._incarnation and self._num_handles:
                self._handle_unanswered()
                self._session.run(
                    connections.through_the_scheduler(self._session, self._report, self)
                )

    def broken(self, connection: CallConnection) -> None:
        """Connect another way, through the scheduler: the actor may be alive."""
        with self._failing, self._lock:
            if connection is self._connection:
                self._handle_unanswered()
                self._session.run(
                    connections.through_the_scheduler(self._session, self._report, self)
                )

    def _handle_unanswered(self, reported: bytes | None = None) -> None:
        """Retry or fail the calls that were running in a lost process.

        `reported` is the error with which the process has ended, if the scheduler has reported its end.
        """
        self.close()
        lost, self._unanswered = self._unanswered, {}
        again = []
        for call in lost.values():
            if call.use_retry():
                again.append(call)
            else:
                lost_it = "its process has died or is out of reach"
                self._fail(call, self._unavailable(lost_it, reported))
        self._queue = OrderedDict({call.key: call for call in (*again, *self._queue.values())})
        for call in again:
            self._mark_waiting(call)
            call.wires = None
            self._await_arguments(call)

    @staticmethod
    def _mark_waiting(call: Call) -> None:
        call.state = WAITING
        for entry in call.returns:
            entry.is_on_wire = False

    def _refuse_while_restarting(self, calls: Sequence[Call]) -> None:
        """Fail calls that may not be retried: as in Ray, they do not wait for a restart."""
        if self._report.state != "RESTARTING":
            return
        for call in calls:
            if call.waits_for_restart or self._queue.pop(call.key, None) is None:
                continue
            restarts = "The actor is restarting"
            self._fail(call, self._unavailable(restarts, self._report.error))

    def _unavailable(self, why: str, reported: bytes | None) -> bytes:
        reason = failures.reason_of(reported) if reported is not None else ""
        text = f"{why}: {reason.removesuffix('.')}" if reason else why
        return failures.actor_unavailable(text, self.key)

    def _bury(self, error: bytes) -> None:
        self._error = error
        self.close()
        pending = [*self._unanswered.values(), *self._queue.values()]
        self._unanswered, self._queue = {}, OrderedDict()
        self._fail_all(pending, error)

    # --- answers --------------------------------------------------------------------------------

    def on_message(self, message: direct.FromProcess | Unreadable) -> None:
        """Handle one message from the actor's process."""
        if isinstance(message, Unreadable):
            self._take_unreadable(message, self._unanswered)
            return
        match message:
            case (direct.DONE | direct.FAILED | direct.ITEM, key, *_):
                call = self._unanswered.get(key)
                if call is None:
                    self._discard(message, self._connection)
                else:
                    self._take_answer(call, message)
            case (direct.UNREADABLE, error):
                self._fail_all(list(self._unanswered.values()), error)

    def _take_answer(self, call: Call, message: direct.Done | direct.Failed | direct.Item) -> None:
        try:
            match message:
                case (direct.DONE, _, wires, _):
                    self._take_results(call, wires, self._connection)
                case (direct.ITEM, _, index, wire):
                    self._add_item(call, index, wire, self._connection)
                case (direct.FAILED, _, error, may_retry, attempt):
                    if attempt == call.attempt or not may_retry or not call.retries:
                        self._fail_or_retry(call, error, may_retry)
        except Exception as error:
            self._not_handled(call, error)

    def _fail_or_retry(self, call: Call, error: bytes, may_retry: bool) -> None:
        if not may_retry or not call.use_retry():
            self._fail_answered(call, error)
            return
        with self._failing, self._lock:
            self._unanswered.pop(call.key, None)
            if self._connection is not None:
                self._post(call, self._connection)
                self._connection.flush()
            else:
                self._mark_waiting(call)
                self._queue[call.key] = call

    def _whereabouts(self, call: Call) -> dict[str, object]:
        return {"party": self.key, "group": None, "resources": {}}

    def _settle(self, entry: Entry, wire: Wire) -> None:
        session = self._session
        if not self._settle_here(entry, wire):
            session.sharing.adopt(entry, wire, self._node_address)
            session.table.settle(entry)  # the value is in the cluster
        elif entry.is_promised:
            session.sharing.fulfil(entry)

    def _forget(self, call: Call) -> None:
        self._unanswered.pop(call.key, None)

    def check_room(self, limit: int, method: str) -> None:
        """Raise an error for a call of `method` when `limit` calls have not ended.

        Raises
        ------
        PendingCallsLimitExceeded
        """
        if self.num_pending >= limit:
            raise exceptions.PendingCallsLimitExceeded(
                f"The task {method} could not be submitted to {self.key} because more than {limit} "
                f"tasks are queued on the actor: {self.num_pending} calls of this process have not "
                f"ended, and max_pending_calls={limit}. Get results first, or raise max_pending_calls."
            )
