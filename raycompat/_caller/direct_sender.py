"""Calls that go straight to the process that runs them, and what a caller does with the answers.

A `DirectSender` is a channel to an actor or a pool of leases: it sends its calls once their arguments
are there, and accounts for those that were sent and not answered. Their results belong to the caller.

Lock order: a sender's lock before the table's. Answers are handled in whatever thread reads. A call is
failed with no sender locked, for whoever waits for it may act at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat._caller.calls import Call
from raycompat._caller.object_table import Entry
from raycompat._caller.sender import Sender
from raycompat._protocol import direct_messages, segment
from raycompat._protocol.values import InlineValue, SegmentLink, Wire, from_wire, to_wire

if TYPE_CHECKING:
    from raycompat._caller.roads import Road
    from raycompat._caller.session import Session

logger = logging.getLogger(__name__)

#: A call that has failed: its error, and its own name if the error is that of an argument.
_Failure: TypeAlias = tuple[Call, bytes, str | None]

#: Bytes of arguments from which on a call leaves by itself.
LARGE_BYTES = 16 * 1024

#: Seconds that a process which is said to be dead has for its last answers to be read.
LAST_WORDS_S = 5.0

#: Seconds between two looks whether they were read; and by how much a look is late when the threads
#: that read were held up too, by code that holds the interpreter lock.
_LOOK_S, _HELD_UP_S = 0.1, 0.5


def after_last_words(session: Session, road: Road, end: Callable[[], None]) -> None:
    """Call `end` once the last answers on a road had time to be read, and all that came was handled.

    Called in the session's event loop. A call whose answer lies unread must not count as unanswered: it
    would run again.
    """

    def look(due: float) -> None:
        now = time.monotonic()
        if now - due > _HELD_UP_S or not road.is_silent:
            session.call_later(_LOOK_S, look, now + _LOOK_S)
        else:
            end()

    session.call_later(LAST_WORDS_S, look, time.monotonic() + LAST_WORDS_S)


class _Conclusions:
    """At the end of a block, concludes the calls of a sender that have failed in it."""

    __slots__ = ("_sender",)

    def __init__(self, sender: DirectSender) -> None:
        self._sender = sender

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self._sender._failed:
            self._sender.conclude_failed()


class DirectSender(Sender):
    """See the module."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._lock = threading.RLock()
        #: Calls that have failed while the lock is held.
        self._failed: deque[_Failure] = deque()
        #: ``with self._conclusions, self._lock:`` holds the lock, and concludes those calls without it.
        #: The lock is entered by itself: an interrupt could come between a method that acquires it
        #: and the block that releases it.
        self._conclusions = _Conclusions(self)

    # --- arguments ------------------------------------------------------------------------------

    def _await_arguments(self, call: Call) -> None:
        """Hold a call back until its arguments are made."""
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
        """Count down what a call waits for."""
        raise NotImplementedError

    def _when_synced(self, call: Call) -> None:
        """Hold a call back until the scheduler knows the references that go with it.

        The process that gets them may ask for them.
        """
        if call.carries_references or any(wire[0] == "key" for wire in call.wires or ()):
            call.num_waits += self._session.sharing.when_synced(lambda: self._wait_is_over(call))

    def _wire_of(self, entry: Entry, host: str) -> Wire:
        """Return the value of an argument as it travels to a process of `host`."""
        value, here = entry.value, self._session.setup.host
        if isinstance(value, InlineValue):
            return to_wire(value)
        if isinstance(value, SegmentLink) and value.host == here == host:
            # By the time at which the process looks a node may keep it, and have it on disk.
            return ("key", entry.key, value.path)
        return ("key", self._session.sharing.publish(entry), None)

    # --- answers --------------------------------------------------------------------------------

    def _succeed(
        self,
        call: Call,
        wires: Sequence[Wire],
        road: Road | None,
        settle: Callable[[Entry, Wire], None],
    ) -> None:
        for entry, wire in zip(call.returns, wires, strict=True):
            settle(entry, wire)
        if call.stream is not None:
            call.stream.end(None, None)
        if any(wire[-1] for wire in wires):
            self._acknowledge(call.key, road)
        self._end_call(call)

    def _discard(self, message: tuple[Any, ...], road: Road | None) -> None:
        """Let go of an answer that nobody waits for any more."""
        match message:
            case (direct_messages.DONE, key, wires, _):
                pass
            case (direct_messages.ITEM, call, index, wire):
                key, wires = f"{call}:{index}", [wire]
            case _:
                return
        for wire in wires:
            if wire[0] == "segment" and wire[3] == self._session.setup.host:
                self._session.home.place.remove(wire[1])
        if any(wire[-1] for wire in wires):
            self._acknowledge(key, road)

    def _acknowledge(self, key: str, road: Road | None) -> None:
        """Tell the other process, once it is so, that the references in a result are held here."""
        if road is None:
            return
        if not self._session.sharing.when_synced(
            lambda: road.post((direct_messages.HELD, key), now=True)
        ):
            road.post((direct_messages.HELD, key), now=True)

    def _take_over(self, wires: Sequence[Wire]) -> Sequence[Wire] | None:
        """Take the segments of an answer over from their writer; None if one is gone with its node.

        From now on they are removed when this process ends, not when the writer does. Taking them
        again changes nothing.
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

    def _settle_here(self, entry: Entry, wire: Wire) -> bool:
        """Enter a result that needs nobody else; False if it lies in the keeping of another host.

        Its segment was taken over.
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
        """Account for a call no more: it has ended."""
        raise NotImplementedError

    def _fail(self, call: Call, error: bytes, victim: str | None = None) -> None:
        """Fail a call: now, or when the lock that this thread holds is free."""
        self._forget(call)
        with self._conclusions, self._lock:
            self._failed.append((call, error, victim))

    def conclude_failed(self) -> None:
        """Conclude the calls that have failed, unless this thread holds the lock still."""
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
        self._end_call(call, error)

    def _end_call(self, call: Call, error: bytes | None = None) -> None:
        self._forget(call)
        super()._end_call(call, error)
