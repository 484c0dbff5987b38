"""Calls that are sent directly to the process that runs them, and the handling of the answers.

A `DirectSender` is a channel to an actor or a pool of leases. It sends its calls once their arguments
are ready, and keeps a record of those that were sent and not answered. The caller owns the results.

Lock order: a sender's lock before the table's. The thread that reads handles the answers. A call is
failed while no sender is locked, because code that waits for it may run at once.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from raycompat._caller.calls import Call
from raycompat._caller.object_table import Entry
from raycompat._caller.sender import Sender
from raycompat._host import clock, segment
from raycompat._messages import direct
from raycompat._messages.calls import FailedCall
from raycompat._protocol import failures, ids
from raycompat._protocol.frames import Unreadable
from raycompat._protocol.plain import Row
from raycompat._protocol.values import (
    ErrorValue,
    InlineValue,
    SegmentLink,
    Wire,
    from_wire,
    to_wire,
)

if TYPE_CHECKING:
    from raycompat._caller.call_connection import CallConnection
    from raycompat._caller.membership import Membership

logger = logging.getLogger(__name__)

#: A failed call: its error, and the call's name if an argument caused the error.
_Failure: TypeAlias = tuple[Call, bytes, str | None]

#: A call with at least this many bytes of arguments is sent alone.
LARGE_BYTES = 16 * 1024

#: Seconds for reading the last answers of a process that was reported dead.
_DRAIN_S = 5.0

#: Seconds for the scheduler to report the end of a process whose connection has ended.
REPORT_S = 5.0

#: Seconds between two checks whether the last answers were read.
_LOOK_S = 0.1

#: A check that is so many seconds late shows that code held the interpreter lock. It has delayed the
#: reading threads too.
_HELD_UP_S = 0.5


def when_drained(session: Membership, connection: CallConnection, end: Callable[[], None]) -> None:
    """Call `end` when the last answers had time to arrive, and all of them were handled.

    Called in the session's event loop. A call with an unread answer must not count as unanswered: it
    would run again.
    """

    def look(due: float) -> None:
        now = clock.monotonic()
        if now - due > _HELD_UP_S or not connection.is_silent:
            session.call_later_in_loop(_LOOK_S, look, now + _LOOK_S)
        else:
            end()

    session.call_later_in_loop(_DRAIN_S, look, clock.monotonic() + _DRAIN_S)


class _FailAfterUnlock:
    """A context: when it ends, the calls of a sender fail that were marked as failed inside it."""

    __slots__ = ("_sender",)

    def __init__(self, sender: DirectSender) -> None:
        self._sender = sender

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self._sender._failed:
            self._sender.conclude_failed()


class DirectSender(Sender):
    """A sender whose calls travel without the scheduler."""

    #: Whether the value of a cancelled call counts: in Ray, that of a task does.
    _takes_cancelled = False

    def __init__(self, session: Membership) -> None:
        super().__init__(session)
        self._lock = threading.RLock()
        #: Calls that failed while the lock was held.
        self._failed: deque[_Failure] = deque()
        #: ``with self._failing, self._lock:`` holds the lock, and then concludes those calls
        #: without it. The lock is a context of the ``with`` statement, not acquired in a method: an
        #: interrupt could come between that method and the block that releases the lock.
        self._failing = _FailAfterUnlock(self)

    # --- arguments ------------------------------------------------------------------------------

    def _await_arguments(self, call: Call) -> None:
        """Delay a call until its arguments are ready."""
        when_settled = self._session.table.when_settled

        def settled(_: Entry) -> None:
            self._wait_is_over(call)

        call.num_waits = 1
        for entry in call.dependencies:
            call.num_waits += 1
            if not when_settled(entry, settled):
                call.num_waits -= 1
        self._wait_is_over(call)

    def _wait_is_over(self, call: Call) -> None:
        """Count one finished wait of a call."""
        raise NotImplementedError

    def _await_sync(self, call: Call) -> None:
        """Delay a call until the scheduler knows the references that are sent with it.

        The process that receives them may ask the scheduler for their values.
        """
        if call.carries_references or any(wire[0] == "key" for wire in call.wires or ()):
            call.num_waits += self._session.sharing.when_synced(lambda: self._wait_is_over(call))

    def _wire_of(self, entry: Entry, host: str) -> Wire:
        """Return the value of an argument in the form for a process on `host`."""
        value, here = entry.value, self._session.setup.host
        if isinstance(value, InlineValue):
            return to_wire(value)
        if isinstance(value, SegmentLink) and value.host == here == host:
            # When the process reads it, a node may own the segment and have moved it to disk.
            return ("key", entry.key, value.path)
        return ("key", self._session.sharing.publish(entry), None)

    # --- answers --------------------------------------------------------------------------------

    def _take_results(
        self, call: Call, results: Sequence[Wire], connection: CallConnection | None
    ) -> None:
        """Handle the answer `direct.DONE` to a call."""
        if call.is_cancelled and not self._takes_cancelled:
            self._drop(call.key, results, connection)
            self._fail(call, failures.cancelled(call.key))
            return
        wires = self._take_over(results)
        if wires is None and call.is_cancelled:  # as in Ray, it is not made again
            self._fail(call, failures.cancelled(call.key))
        elif wires is None:
            self._fail_or_retry(call, failures.object_lost(call.key), may_retry=True)
        else:
            self._succeed(call, wires, connection)

    def _fail_or_retry(self, call: Call, error: bytes, may_retry: bool) -> None:
        """Make a call again if it may be retried and has a retry left; otherwise fail it."""
        raise NotImplementedError

    def _not_handled(self, call: Call, error: Exception) -> None:
        """Fail a call whose answer could not be handled."""
        logger.error("raycompat could not handle the answer to %s", call.name, exc_info=error)
        self._fail(call, failures.internal(f"The answer could not be handled: {error!r}"))

    def refused(self, message: direct.FromCaller, why: str) -> None:
        """Fail the call whose message could not be written. Called by the pump or the event loop."""
        logger.error("raycompat could not write a message of the kind %r: %s", message[0], why)
        call = self._session.calls.get(message[1]) if message[0] == direct.CALL else None
        if call is not None and call.sender is self:
            self._fail(call, failures.unwritable(f"The call of {call.name}", why))

    def _take_unreadable(self, message: Unreadable, unanswered: dict[str, Call]) -> None:
        """Fail the call whose answer could not be read; all calls if the answer does not say which."""
        logger.error("raycompat could not read an answer: %s", message.why)
        calls = [unanswered.get(message.key)] if message.key else list(unanswered.values())
        for call in calls:
            if call is not None:
                what = f"The answer of {call.name}"
                self._fail(call, failures.unreadable(what, message.why))

    def _succeed(
        self, call: Call, wires: Sequence[Wire], connection: CallConnection | None
    ) -> None:
        has_references = False
        for entry, wire in zip(call.returns, wires, strict=True):
            self._settle(entry, wire)
            if wire[-1]:
                has_references = True
        if call.stream is not None:
            call.stream.end(None, None)
        if has_references:
            self._acknowledge(call.key, connection)
        self._end_call(call)

    def _add_item(
        self, call: Call, index: int, wire: Wire, connection: CallConnection | None
    ) -> None:
        """Handle the answer `direct.ITEM` to a generator's call."""
        stream = call.stream
        if stream is None or not stream.receive(index, wire):
            self._drop(f"{call.key}:{index}", [wire], connection)
            return
        entry = self._session.table.add(ids.return_key(call.key, index))
        taken = self._take_over([wire])
        if taken is None:
            taken = [to_wire(ErrorValue(failures.object_lost(entry.key)))]
        self._settle(entry, taken[0])
        stream.add(entry)
        if wire[-1]:
            self._acknowledge(f"{call.key}:{index}", connection)

    def _discard(
        self,
        message: direct.Done | direct.Failed | direct.Item,
        connection: CallConnection | None,
    ) -> None:
        """Drop an answer to a call that has already ended."""
        match message:
            case (direct.DONE, key, wires, _):
                self._drop(key, wires, connection)
            case (direct.ITEM, call, index, wire):
                self._drop(f"{call}:{index}", [wire], connection)

    def _drop(self, key: str, wires: Sequence[Wire], connection: CallConnection | None) -> None:
        """Drop values, and report that the references in them are not needed."""
        for wire in wires:
            if wire[0] == "segment" and wire[3] == self._session.setup.host:
                self._session.home.place.remove(wire[1])
        if any(wire[-1] for wire in wires):
            self._acknowledge(key, connection)

    def _acknowledge(self, key: str, connection: CallConnection | None) -> None:
        """Report to the other process that this one holds the references in a result."""
        if connection is None:
            return
        if not self._session.sharing.when_synced(
            lambda: connection.post((direct.HELD, key), now=True)
        ):
            connection.post((direct.HELD, key), now=True)

    def _take_over(self, wires: Sequence[Wire]) -> Sequence[Wire] | None:
        """Take ownership of an answer's segments; None if a segment is lost with its node.

        From now on they are removed when this process ends, not when the writer does. A second call
        with the same segments changes nothing.
        """
        here, place = self._session.setup.host, self._session.home.place
        taken = list(wires)
        paths: list[str] = []
        try:
            for index, wire in enumerate(wires):
                if wire[0] == "segment" and wire[3] == here:
                    paths.append(segment.take(wire[1], place.store))
                    taken[index] = (wire[0], paths[-1], *wire[2:])
        except OSError as error:
            logger.warning("a result is lost with the node that made it: %s", error.strerror)
            for path in paths:
                place.remove(path)
            return None
        return taken

    def _settle(self, entry: Entry, wire: Wire) -> None:
        """Store a result, or record that it is in the cluster."""
        raise NotImplementedError

    def _settle_here(self, entry: Entry, wire: Wire) -> bool:
        """Store a result that is readable on this host; False if another host has it.

        Its segment was taken over before.
        """
        session = self._session
        value = from_wire(wire)
        if isinstance(value, InlineValue):
            session.table.settle(entry, value=value, holds=session.sharing.hold(value.refs))
        elif not isinstance(value, SegmentLink):
            session.table.fail(entry, value.error)
        elif value.host == session.setup.host:
            held = session.sharing.hold(value.refs)
            session.table.settle(entry, value=value, holds=held, own_segment=True)
            session.sharing.share_segments()
            session.wake()
        else:
            return False
        return True

    # --- ends -----------------------------------------------------------------------------------

    def _forget(self, call: Call) -> None:
        """Remove a call that has ended from the records."""
        raise NotImplementedError

    def _fail(self, call: Call, error: bytes, victim: str | None = None) -> None:
        """Fail a call: now, or when this thread releases the lock that it holds."""
        self._forget(call)
        with self._failing, self._lock:
            self._failed.append((call, error, victim))

    def _fail_answered(self, call: Call, error: bytes) -> None:
        """Fail a call because of the answer of its process, which reports it too."""
        call.is_reported = True
        self._fail(call, error)

    def _fail_all(self, calls: Sequence[Call], error: bytes) -> None:
        for call in calls:
            self._fail(call, error)

    def conclude_failed(self) -> None:
        """Conclude the calls that have failed, unless this thread still holds the lock."""
        if self._lock._is_owned():  # type: ignore[attr-defined]  # as `threading.Condition` asks it
            return
        while self._failed:
            try:
                call, error, victim = self._failed.popleft()
            except IndexError:  # another thread was quicker
                return
            self._conclude(call, error, victim)

    def _conclude(self, call: Call, error: bytes, victim: str | None) -> None:
        self._fail_results(call, error, victim)
        if not call.is_reported:
            self._report_failure(call, error)
        self._end_call(call, error)

    def _report_failure(self, call: Call, error: bytes) -> None:
        """Report a call of which only this process knows that it has failed."""
        failure = failures.failure_of(error)
        self._session.send(
            FailedCall(
                key=call.key,
                name=call.name,
                job=self._session.setup.job,
                failure=(
                    failure.type,
                    failure.text.encode(errors="backslashreplace").decode(),
                    failure.traceback,
                ),
                **self._whereabouts(call),
            )
        )

    def _whereabouts(self, call: Call) -> Row:
        """Return the fields `party`, `group` and `resources` of a call."""
        raise NotImplementedError

    def _end_call(self, call: Call, error: bytes | None = None) -> None:
        self._forget(call)
        super()._end_call(call, error)
