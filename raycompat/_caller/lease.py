"""A lease as its caller sees it: an executor that takes calls of this process (see `by_lease`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from raycompat._caller.object_table import PENDING, Entry
from raycompat._messages.leases import LeaseGranted

if TYPE_CHECKING:
    from raycompat._caller.call_connection import CallConnection
    from raycompat._caller.calls import Call
    from raycompat._messages import direct
    from raycompat._protocol.frames import Unreadable

#: Seconds of work, and calls, that may wait in an executor: enough to keep it busy for a round trip.
_DEPTH_S, _DEPTH = 0.004, 256

#: Seconds: an executor may still be busy after a call that takes longer, because it frees memory.
_SHORT_S = 0.001


class Pool(Protocol):
    """What a lease reports to: the pool that sends its calls (`by_lease.LeasePool`)."""

    def granted(self, lease: Lease, place: LeaseGranted) -> None:
        """Connect to the executor."""

    def connected(self, lease: Lease, connection: CallConnection) -> None:
        """Use a lease from now on: its executor is connected."""

    def on_message(self, lease: Lease, message: direct.FromProcess | Unreadable) -> None:
        """Handle one message from an executor."""

    def refused(self, message: direct.FromCaller, why: str) -> None:
        """Fail the call whose message could not be written."""

    def disconnected(self, lease: Lease, connection: CallConnection) -> None:
        """Handle the end of the connection to an executor."""

    def ended(self, lease: Lease, error: bytes | None, how: str) -> None:
        """Handle the scheduler's report that a lease has ended."""

    def kill(self, lease: Lease) -> None:
        """Request the end of an executor from its node."""


class Lease:
    """One executor for calls of this process, from the request to the end. A `connections.Party`."""

    def __init__(self, pool: Pool, key: str, ref: object, units: int) -> None:
        self.key = key
        #: Units of CPU that it has: it takes calls that need at most as many.
        self.units = units
        #: The reference that keeps the lease.
        self.ref = ref
        self.host = ""
        self.node_address = ""
        self.connection: CallConnection | None = None
        self.was_connected = False
        #: Whether it accepts calls now.
        self.is_open = False
        #: How often calls left it without an answer.
        self.num_departures = 0
        #: Calls that were sent and not answered, in order.
        self.unanswered: dict[str, Call] = {}
        #: Estimated seconds of all calls that were sent, and of all that were answered. Each has one
        #: writer: the holder of the pool's lock, and the thread that reads.
        self.sent_s = self.done_s = 0.0
        self.idle_since = 0.0
        #: Seconds that its last call took.
        self.took_s = 0.0
        #: Set when the scheduler has reported its end.
        self.is_over = threading.Event()
        #: The error in that report.
        self.error: bytes | None = None
        #: How its process died, as in that report; empty if it did not, or if that is not known.
        self.how_it_died = ""
        self._pool = pool

    @property
    def backlog_s(self) -> float:
        """The estimated seconds of work that it has left."""
        return self.sent_s - self.done_s

    def has_room(self, cost_s: float) -> bool:
        """Return whether one more call of `cost_s` seconds may be sent."""
        if not self.is_open:
            return False
        sent = len(self.unanswered)
        return not sent or (sent < _DEPTH and self.sent_s - self.done_s + cost_s <= _DEPTH_S)

    @property
    def is_low(self) -> bool:
        """Whether it has at most half of the allowed work left."""
        return 2 * len(self.unanswered) <= _DEPTH and 2 * self.backlog_s <= _DEPTH_S

    def flush(self) -> None:
        """Write the calls that have gathered."""
        connection = self.connection
        if connection is not None:
            connection.flush()

    def read_until(
        self, is_over: Callable[[], bool], timeout_s: float | None, entries: Sequence[Entry]
    ) -> bool:
        """Handle answers in this thread until `is_over()`; False when it must wait in another way."""
        connection = self.connection
        if connection is None:
            return False
        returned: int | None = None

        def stops() -> bool:
            nonlocal returned
            if returned is None:  # this thread reads now, so only it can see returned calls
                returned = self.num_departures
                for entry in entries:
                    if entry.state is PENDING and entry.channel is not self:
                        return True
            return is_over() or self.num_departures != returned

        connection.receive_until(stops, timeout_s)
        return is_over()

    def granted(self, place: LeaseGranted) -> None:
        """Connect to the executor. Called in the session's event loop."""
        self._pool.granted(self, place)

    def ended(self, error: bytes | None, how: str) -> None:
        """Handle the scheduler's report that it has ended. Called in the session's event loop."""
        self._pool.ended(self, error, how)

    def connected(self, connection: CallConnection, incarnation: int) -> None:
        """Send calls from now on."""
        self._pool.connected(self, connection)

    def on_message(self, message: direct.FromProcess | Unreadable) -> None:
        """Handle one message from the executor."""
        self._pool.on_message(self, message)

    def refused(self, message: direct.FromCaller, why: str) -> None:
        """Fail the call whose message could not be written."""
        self._pool.refused(message, why)

    def disconnected(self, connection: CallConnection) -> None:
        """Handle unanswered calls, once the end of the lease is known."""
        self._pool.disconnected(self, connection)

    def broken(self, connection: CallConnection) -> None:
        """End the executor, because this process cannot reach it any more."""
        self._pool.kill(self)
        self._pool.disconnected(self, connection)

    def connect_failed(self) -> None:
        """End the executor if it still runs."""
        self._pool.kill(self)


def best_idle(idle: dict[str, Lease], cost_s: float, units: int) -> Lease | None:
    """Return the smallest lease with at least `units` of CPU, for a call of `cost_s` seconds.

    `idle` has the leases in the order in which they became idle. Of those with the same size, a short
    call goes to the last one, because its code is in the CPU's caches. Any other call, and one after a
    longer call, goes to the first one.
    """
    if not idle:
        return None
    leases = idle.values()
    last = next(reversed(leases))
    is_short = cost_s <= _SHORT_S and last.took_s <= _SHORT_S
    lease = last if is_short else next(iter(leases))
    if lease.units == units:
        return lease
    large = [each for each in (reversed(leases) if is_short else leases) if each.units >= units]
    return min(large, key=lambda each: each.units, default=None)
