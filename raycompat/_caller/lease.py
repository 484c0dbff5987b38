"""A lease: an executor that takes calls of ours, as its caller sees it. See `leases`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raycompat._caller import roads
from raycompat._caller.object_table import Entry, State

if TYPE_CHECKING:
    from raycompat._caller.by_lease import LeasePool
    from raycompat._caller.calls import Call

#: Seconds of work, and calls, that may wait in a process: enough to keep it busy while we hear of it.
_DEPTH_S, _DEPTH = 0.004, 256


class Lease:
    """One executor that takes our calls, from the asking to the end. A `roads.Party`."""

    def __init__(self, pool: LeasePool, key: str, ref: Any, units: int) -> None:
        self.key = key
        #: Units of CPU that it has: calls that ask for no more may be sent.
        self.units = units
        #: Keeps the lease.
        self.ref = ref
        self.host = ""
        self.node_address = ""
        self.road: roads.Road | None = None
        self.was_connected = False
        #: Whether it takes calls just now, and how often it gave some back.
        self.is_open = False
        self.num_returned = 0
        #: Calls that were sent and not answered, in order.
        self.unanswered: dict[str, Call] = {}
        #: How many seconds all that was sent may take, and all that was answered: each has one writer,
        #: whoever holds the pool's lock and whoever reads.
        self.sent_s = self.done_s = 0.0
        self.idle_since = 0.0
        #: Whether the scheduler has said that it is over, and what it said.
        self.is_over = threading.Event()
        self.error: bytes | None = None
        self.how = ""
        self._pool = pool

    @property
    def backlog_s(self) -> float:
        """How many seconds it has to do."""
        return self.sent_s - self.done_s

    def has_room(self, cost_s: float) -> bool:
        """Whether it may be sent one call more, of so many seconds."""
        if not self.is_open:
            return False
        sent = len(self.unanswered)
        return not sent or (sent < _DEPTH and self.backlog_s + cost_s <= _DEPTH_S)

    @property
    def is_low(self) -> bool:
        """Whether it has done half of what it may have to do."""
        return 2 * len(self.unanswered) <= _DEPTH and 2 * self.backlog_s <= _DEPTH_S

    def flush(self) -> None:
        """Write the calls that have gathered."""
        road = self.road
        if road is not None:
            road.flush()

    def read_until(
        self, is_over: Callable[[], bool], timeout_s: float | None, entries: Sequence[Entry]
    ) -> bool:
        """Handle answers in this thread until `is_over()`; False when it must wait otherwise."""
        road = self.road
        if road is None:
            return False
        returned: int | None = None

        def stops() -> bool:
            nonlocal returned
            if returned is None:  # from now on we read: nothing is given back but to this thread
                returned = self.num_returned
                if not all(e.channel is self for e in entries if e.state is State.PENDING):
                    return True
            return is_over() or self.num_returned != returned

        road.receive_until(stops, timeout_s)
        return is_over()

    def granted(self, place: dict[str, Any]) -> None:
        """Connect to the executor. Called in the session's event loop."""
        self._pool.granted(self, place)

    def ended(self, error: bytes | None, how: str) -> None:
        """Hear from the scheduler that it is over. Called in the session's event loop."""
        self._pool.ended(self, error, how)

    def connected(self, connection: roads.Road, incarnation: int) -> None:
        """Take calls from now on."""
        self._pool.connected(self, connection)

    def on_message(self, message: tuple[Any, ...]) -> None:
        """Handle one message of the executor."""
        self._pool.on_message(self, message)

    def disconnected(self, connection: roads.Road) -> None:
        """Account for what was not answered, once it is known how the lease has ended."""
        self._pool.disconnected(self, connection)

    def broken(self, connection: roads.Road) -> None:
        """End the executor, which cannot be reached any more."""
        self._pool.kill(self)
        self._pool.disconnected(self, connection)

    def expect_news(self) -> None:
        """End the executor if it still runs."""
        self._pool.kill(self)
