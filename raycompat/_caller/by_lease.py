"""Leases: executors that take calls directly from this process, so that the scheduler sees none of
them.

A lease is an executor with some resources. The scheduler grants it like a call, and it lasts while
there are calls for it. A pool holds all calls that differ only in the amount of one resource: the CPUs
of calls that need nothing else, or the memory (`LeaseKind`). They are of one placement group or of
none. The pool sends each call to an idle lease, or to one with only a few milliseconds of work; the
others wait here. An executor whose call runs longer, or waits for an object, returns the calls that
wait behind it.

A lease also takes calls that need less than it has: otherwise a thousand sizes would need a thousand
leases. Such a call has too much for a few milliseconds only. If it runs longer, its executor gives back
what the call does not need (`_executor.run_leased`), and the lease becomes smaller.

The pool handles no failures. A call that had started in a process that died, and a call that is to be
retried, go to the scheduler.
"""

from __future__ import annotations

import logging
import operator
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from raycompat._caller import connections
from raycompat._caller.calls import SENT, WAITING, Call
from raycompat._caller.direct_sender import (
    LARGE_BYTES,
    REPORT_S,
    DirectSender,
    when_drained,
)
from raycompat._caller.lease import Lease, best_idle
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, Entry
from raycompat._caller.waiting import WaitingCalls
from raycompat._host import clock
from raycompat._messages import direct
from raycompat._messages.calls import Cancel, CancelDirect
from raycompat._messages.leases import LeaseGranted
from raycompat._protocol import failures, ids
from raycompat._protocol.call_spec import new_spec
from raycompat._protocol.connection import Notes
from raycompat._protocol.frames import Unreadable
from raycompat._protocol.resource_set import LeaseKind
from raycompat._protocol.strategy import InGroup
from raycompat._protocol.values import SegmentLink, Wire

if TYPE_CHECKING:
    from raycompat._caller.by_scheduler import SchedulerSender
    from raycompat._caller.call_connection import CallConnection
    from raycompat._caller.membership import Membership
    from raycompat._protocol.strategy import LeaseStrategy

logger = logging.getLogger(__name__)

#: Estimated duration of a function that was never called: unknown, so nothing queues behind it.
_UNKNOWN_S = 1.0

#: Seconds after which an idle lease is returned, and seconds between two checks for idle leases.
_IDLE_S, _TICK_S = 0.2, 0.05

#: Requests for leases that may be open at first; later, as many as there are leases.
_ASKED = 3

#: The most functions whose durations are recorded.
_MANY_COSTS = 10_000

#: The number of leases that are compared to find the one with the least work.
_CHOICES = 4


class LeasePool(DirectSender):
    """The sender of calls by lease. A session has one for each kind and each placement group."""

    _takes_cancelled = True

    def __init__(
        self,
        session: Membership,
        by_scheduler: SchedulerSender,
        strategy: LeaseStrategy,
        kind: LeaseKind,
    ) -> None:
        super().__init__(session)
        self._by_scheduler = by_scheduler
        self._strategy, self._kind = strategy, kind
        #: Calls that are ready to be sent.
        self._waiting = WaitingCalls()
        #: The granted leases. `_choose` compares a few at a time, and moves those to the end.
        self._leases: deque[Lease] = deque()
        #: Granted leases without a call, in the order in which they became idle.
        self._idle: dict[str, Lease] = {}
        #: The leases that are requested.
        self._asked: dict[str, Lease] = {}
        #: The average seconds that a call of each function takes.
        self._costs: dict[str, float] = {}
        self._ticks = False

    # --- sending calls --------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call when its turn has come. Never waits."""
        call.units = call.request.get(self._kind.varies)
        for entry in call.returns:
            entry.origin = call
        try:
            self._session.calls[call.key] = call
            if call.dependencies or call.carries_references:
                with self._failing, self._lock:
                    self._await_arguments(call)
            elif not (self._idle and self._sent_at_once(call)):
                queue = self._waiting.append(call)
                # With others before it, it is sent together with them when there is room.
                if queue is not None or self._may_ask:
                    with self._lock:
                        if queue is not None:
                            self._waiting.enter(call.units, queue)
                        self._advance()
        except BaseException:  # the caller gets no reference
            with self._lock:
                self._waiting.withdraw_if_there(call)
            self._forget(call)
            raise

    def _sent_at_once(self, call: Call) -> bool:
        """Send a call to an idle lease, unless others wait; return whether it was sent."""
        with self._lock:
            cost_s = self._costs.get(call.function, _UNKNOWN_S)
            # A cancelled call is counted as withdrawn, so it passes through the queue.
            if self._waiting or call.is_cancelled:
                return False
            lease = self._take_idle(call, cost_s)
            if lease is None:
                return False
            if must_be_near(call) and lease.host != self._session.setup.host:
                self._mark_idle(lease)
                return False
            self._post(call, lease, cost_s)
        return True

    def _wait_is_over(self, call: Call) -> None:
        with self._failing, self._lock:
            call.num_waits -= 1
            if call.num_waits or self._session.calls.get(call.key) is not call:
                return
            if call.wires is None and not self._resolve(call):
                return
            if not call.num_waits:
                queue = self._waiting.append(call)
                if queue is not None:
                    self._waiting.enter(call.units, queue)
                self._advance()

    def _resolve(self, call: Call) -> bool:
        """Insert the values of arguments that were references; False if a lease cannot run the call."""
        here = self._session.setup.host
        for entry in call.dependencies:
            if entry.state is FAILED:
                self._fail(call, entry.error or b"", victim=call.name)
                return False
        if not all(is_near(entry, here) for entry in call.dependencies):
            self._leave_to_scheduler(call)  # the scheduler runs it near its arguments
            return False
        call.wires = tuple(self._wire_of(entry, here) for entry in call.dependencies)
        self._await_sync(call)
        return True

    def _advance(self) -> None:
        """Send what can be sent; request leases if calls remain. The caller holds the lock."""
        waiting, limit = self._waiting, None
        while (queue := waiting.next(limit)) is not None:
            call = queue[0]
            cost_s = self._costs.get(call.function, _UNKNOWN_S)
            lease = self._choose(call, cost_s)
            if lease is None:
                limit = call.units  # no lease takes larger calls either
            elif must_be_near(call) and lease.host != self._session.setup.host:
                queue.popleft()
                self._mark_idle(lease)
                self._leave_to_scheduler(call)
            else:
                waiting.served(call.units)
                self._post(call, lease, cost_s, queue.popleft)
        if limit is not None:
            self._ask_for_more()

    def _ask_for_more(self) -> None:
        """Request leases as large as the largest waiting calls, which then take the others too.

        While no lease takes the smallest call, one request always has its size. Perhaps no more CPUs
        are free, and a lease for the larger calls is never granted.
        """
        waiting, asked = self._waiting, self._asked
        if not waiting or not (sizes := waiting.sizes()):
            return
        if not any(lease.units <= sizes[0] for lease in asked.values()) and not any(
            lease.is_open and lease.units >= sizes[0] for lease in self._leases
        ):
            self._ask(sizes[0])
        while self._may_ask:
            if len(waiting) + self._num_sent() - len(self._leases) <= len(asked):
                break
            known = {lease.units for lease in asked.values()}
            self._ask(next((size for size in reversed(sizes) if size not in known), sizes[-1]))

    def _num_sent(self) -> int:
        return sum(len(lease.unanswered) for lease in self._leases)

    @property
    def _may_ask(self) -> bool:
        """Whether another request is allowed: as many as there are leases, or `_ASKED`."""
        return len(self._asked) < max(_ASKED, len(self._leases))

    def _choose(self, call: Call, cost_s: float) -> Lease | None:
        """Return the lease for a call of this duration; None if the call must wait."""
        if self._idle and (lease := self._take_idle(call, cost_s)) is not None:
            return lease
        best, choices = None, _CHOICES
        for _ in range(len(self._leases)):
            lease = self._leases[0]
            self._leases.rotate(-1)
            if lease.units < call.units:
                continue
            if lease.has_room(cost_s) and (best is None or lease.backlog_s < best.backlog_s):
                best = lease
            choices -= 1
            if not choices:
                break
        return best

    def _take_idle(self, call: Call, cost_s: float) -> Lease | None:
        """Take the idle lease for a call of this duration, if there is one.

        A call that must be near gets a lease on this host, if one is idle.
        """
        lease, here = best_idle(self._idle, cost_s, call.units), self._session.setup.host
        if lease is None:
            return None
        if must_be_near(call) and lease.host != here:
            near = {key: each for key, each in self._idle.items() if each.host == here}
            lease = best_idle(near, cost_s, call.units) or lease
        return self._idle.pop(lease.key)

    def _post(self, call: Call, lease: Lease, cost_s: float, *taken: Callable[[], object]) -> None:
        """Send a call; the functions in `taken` remove it from the queue where it waited."""
        assert lease.connection is not None
        is_first = not lease.unanswered
        call.attempt += 1
        call.state, call.lease, call.cost_s = SENT, lease, cost_s
        lease.sent_s += cost_s
        for entry in call.returns:
            entry.channel, entry.is_on_wire = lease, True
        now = is_first or len(call.arguments or b"") > LARGE_BYTES
        sent: Notes = (*taken, partial(lease.unanswered.__setitem__, call.key, call))
        lease.connection.post(call.message(), now=now, notes=sent)
        if not now:
            self._session.unflushed.add(lease)

    def _forget(self, call: Call) -> None:
        lease = call.lease
        if lease is None:
            return
        if lease.unanswered.pop(call.key, None) is None:
            return
        lease.done_s += call.cost_s
        if not lease.unanswered:
            with self._lock:
                self._mark_idle(lease)

    def _mark_idle(self, lease: Lease) -> None:
        """Mark a lease as idle if it has no call. The caller holds the lock."""
        if not lease.is_open or lease.unanswered:
            return
        if self._session.is_pressed and not self._waiting:
            self._return(lease)
        elif lease.key not in self._idle:
            lease.sent_s = lease.done_s = 0.0
            lease.idle_since = clock.monotonic()
            self._idle[lease.key] = lease

    def _requeue(self, calls: Iterable[Call]) -> None:
        """Put calls that were sent and not started back at the head of the queue."""
        for call in reversed(list(calls)):
            lease = call.lease
            assert lease is not None
            for entry in call.returns:
                entry.channel, entry.is_on_wire = None, False
            if call.is_cancelled:
                self._fail(call, failures.cancelled(call.key))
                continue
            moves: tuple[Any, ...] = (
                partial(lease.unanswered.pop, call.key, None),
                partial(self._waiting.queue_of(call).appendleft, call),
            )
            deque(map(operator.call, moves), 0)  # in one C call: an interrupt comes before or after
            lease.done_s += call.cost_s
            call.state, call.lease = WAITING, None

    def _leave_to_scheduler(self, call: Call) -> None:
        self._by_scheduler.take_from_lease(call)
        if call.lease is not None:
            call.lease.num_departures += 1
            self._forget(call)

    def cancel(self, call: Call, *, force: bool, recursive: bool) -> None:
        """Remove a call that was not sent; tell the executor to end one that was."""
        with self._failing, self._lock:
            call.is_cancelled = True
            lease = call.lease
            if lease is None:
                if not call.num_waits:
                    self._waiting.withdraw(call)
                self._fail(call, failures.cancelled(call.key))
                return
        lease.flush()
        self._session.send(CancelDirect(lease.key, call.key, force, recursive))

    def give_credit(self, call: Call, num_received: int, is_wanted: bool) -> None:
        """Report to the generator of a call how many of its items were received here.

        A call that has no lease yet has sent none. A cancelled one must not go on before the
        cancellation arrives, because its items were dropped.
        """
        connection = call.lease.connection if call.lease is not None else None
        if connection is not None and not call.is_cancelled:
            connection.post((direct.CREDIT, call.key, num_received, is_wanted), now=True)

    # --- granted and returned leases ------------------------------------------------------------

    def _ask(self, units: int) -> None:
        session = self._session
        key = ids.call_key("lease", ids.new_task_id())
        session.call_soon(self._begin_to_tick)  # connects
        session.table.add(key, is_held_in_dask=True)
        lease = Lease(self, key, ObjectRef._from_key(key, session), units)
        session.leases[key] = lease
        setup = session.setup
        spec = new_spec(
            "lease",
            key,
            self._waiting.name_of(units),
            setup.job,
            self._kind.with_units(units),
            strategy=self._strategy,
            runtime_env=setup.runtime_env,
        )
        session.submit(spec)
        self._asked[key] = lease

    def granted(self, lease: Lease, place: LeaseGranted) -> None:
        """Connect to the executor. Called in the session's event loop."""
        lease.host, lease.node_address = place.host, place.address
        self._session.run(connections.connect(self._session, place, lease))

    def connected(self, lease: Lease, connection: CallConnection) -> None:
        """Use a lease from now on: its executor is connected."""
        with self._failing, self._lock:
            self._asked.pop(lease.key, None)
            if lease.key not in self._session.leases or lease.is_over.is_set():
                connection.close()
                return
            lease.connection, lease.is_open, lease.was_connected = connection, True, True
            connection.post(self._session.hello, now=True)
            self._leases.append(lease)
            self._mark_idle(lease)
            self._advance()

    def _begin_to_tick(self) -> None:
        if not self._ticks:
            self._tick()

    def _tick(self) -> None:
        """Return the leases that are not needed. Called in the session's event loop."""
        with self._failing, self._lock:
            try:
                self._return_what_is_not_needed()
            finally:
                self._ticks = bool(self._leases or self._asked) and not self._session.closed
                if self._ticks:
                    self._session.call_later_in_loop(_TICK_S, self._tick)

    def _return_what_is_not_needed(self) -> None:
        now = clock.monotonic()
        for lease in list(self._leases):  # an interrupt may have come between choice and call
            self._mark_idle(lease)
        self._waiting.enter_all()
        self._advance()
        # Idle leases are too small for the waiting calls, which may need their CPUs.
        idle_s = _TICK_S if self._waiting else _IDLE_S
        for lease in [each for each in self._idle.values() if now - each.idle_since > idle_s]:
            self._return(lease)
        if not self._waiting and self._num_sent() <= len(self._leases):
            self._ask_no_more()
        elif sizes := self._waiting.sizes():
            self._ask_no_more(above=sizes[-1])

    def return_idle(self) -> None:
        """Return the idle leases."""
        with self._failing, self._lock:
            for lease in list(self._idle.values()):
                self._return(lease)
            if not self._waiting:
                self._ask_no_more()

    def _return(self, lease: Lease) -> None:
        self._strike_out(lease)
        if lease.connection is not None:
            lease.connection.post((direct.RETURN,), now=True)

    def _strike_out(self, lease: Lease) -> None:
        lease.is_open = False
        self._idle.pop(lease.key, None)
        self._asked.pop(lease.key, None)
        if lease in self._leases:
            self._leases.remove(lease)

    def _ask_no_more(self, above: int = -1) -> None:
        """Withdraw requests for leases of more than `above` units."""
        asked = [lease for lease in self._asked.values() if lease.units > above]
        for lease in asked:
            del self._asked[lease.key]
            self._session.leases.pop(lease.key, None)
            lease.ref = None
        if asked:
            self._session.wake()

    def kill(self, lease: Lease) -> None:
        """Request the end of an executor from its node."""
        if not lease.is_over.is_set():
            self._session.send(Cancel(lease.key, force=True, recursive=False))

    def disconnected(self, lease: Lease, connection: CallConnection) -> None:
        """Handle the end of the connection to an executor."""
        with self._failing, self._lock:
            if connection is not lease.connection:
                return
            lease.connection = None
            self._strike_out(lease)
            if lease.is_over.is_set():
                self._handle_unanswered(lease)
            else:
                session = self._session
                session.call_later(REPORT_S, self._give_up, lease)
            self._advance()

    def ended(self, lease: Lease, error: bytes | None, how: str) -> None:
        """Handle the scheduler's report that a lease has ended. Called in the session's event loop.

        Answers that the executor wrote before its end are still read first.
        """
        with self._failing, self._lock:
            if lease.is_over.is_set():
                return
            lease.error, lease.how_it_died = error, how
            lease.is_over.set()
            lease.ref = None
            self._session.leases.pop(lease.key, None)
            self._strike_out(lease)
            if lease.connection is None:
                self._handle_unanswered(lease)
            else:
                when_drained(
                    self._session, lease.connection, partial(self._end, lease, lease.connection)
                )
            is_refused = not lease.was_connected and (error is not None or how)
            if is_refused and (queue := self._waiting.next()):
                self._leave_to_scheduler(queue.popleft())  # the scheduler reports the error
            self._advance()

    def _close_when_synced(self, lease: Lease) -> None:
        """Close the connection once the scheduler knows which references are held here."""
        connection = lease.connection
        if connection is None:
            return

        def close() -> None:
            connection.close()
            self.disconnected(lease, connection)

        if not self._session.sharing.when_synced(close):
            close()

    def _end(self, lease: Lease, connection: CallConnection) -> None:
        if connection is lease.connection:
            connection.close()
            self.disconnected(lease, connection)

    def _give_up(self, lease: Lease) -> None:
        if not lease.is_over.is_set() and not self._session.closed:
            self.kill(lease)
            self.ended(lease, failures.crashed("a task", "cannot be reached"), "")

    def _handle_unanswered(self, lease: Lease) -> None:
        """Retry, return or fail the calls that a process did not answer.

        An executor writes the answer to a call that must not run twice before it starts the next call.
        So of those calls, only the first unanswered one can have started. If answers were lost with the
        node, each can have started.
        """
        lost = list(lease.unanswered.values())
        if not lost or (lease.error is None and not lease.how_it_died):
            self._requeue(lost)
            return
        num_begun = 1 if lease.how_it_died else len(lost)
        self._requeue(lost[num_begun:])
        for call in lost[:num_begun]:
            if call.is_cancelled:
                self._fail(call, failures.cancelled(call.key))
            elif call.use_retry():
                self._leave_to_scheduler(call)
            else:
                self._fail(call, lease.error or failures.crashed(call.name, lease.how_it_died))

    # --- answers --------------------------------------------------------------------------------

    def on_message(self, lease: Lease, message: direct.FromProcess | Unreadable) -> None:
        """Handle one message from an executor."""
        match message:
            case (direct.DONE | direct.FAILED | direct.ITEM, key, *_):
                call = lease.unanswered.get(key)
                if call is None:
                    self._discard(message, lease.connection)
                else:
                    self._take_answer(lease, call, message)
            case (direct.RETURNED, calls):
                self._take_returned(lease, calls)
            case (direct.OPEN,):
                with self._failing, self._lock:
                    lease.is_open = lease in self._leases
                    self._mark_idle(lease)
                    self._advance()
            case (direct.TRIMMED, units):
                with self._failing, self._lock:
                    lease.units = units
                    self._advance()
            case (direct.BYE,):
                # The process has answered what it had begun, and begins nothing any more.
                left = [(call.key, call.attempt) for call in list(lease.unanswered.values())]
                self._take_returned(lease, left)
                self._close_when_synced(lease)
            case (direct.UNREADABLE, error):
                self._fail_all(list(lease.unanswered.values()), error)
            case Unreadable():
                self._take_unreadable(message, lease.unanswered)
        if self._waiting and lease.is_low:
            with self._failing, self._lock:
                self._advance()

    def _take_returned(self, lease: Lease, calls: Sequence[tuple[str, int]]) -> None:
        """Queue calls that an executor returns, by key and attempt; it takes no more for now."""
        with self._failing, self._lock:
            lease.is_open = False
            lease.num_departures += 1
            self._idle.pop(lease.key, None)
            self._requeue(
                call
                for key, attempt in calls
                if (call := lease.unanswered.get(key)) is not None and call.attempt == attempt
            )
            self._advance()

    def _take_answer(
        self, lease: Lease, call: Call, message: direct.Done | direct.Failed | direct.Item
    ) -> None:
        try:
            match message:
                case (direct.ITEM, _, index, wire):
                    self._add_item(call, index, wire, lease.connection)
                case (direct.DONE, _, wires, took_s):
                    self._note_cost(lease, call, took_s)
                    self._take_results(call, wires, lease.connection)
                case (direct.FAILED, _, error, may_retry, took_s):
                    self._note_cost(lease, call, took_s)
                    self._fail_or_retry(call, error, may_retry and not call.is_cancelled)
        except Exception as error:
            self._not_handled(call, error)

    def _note_cost(self, lease: Lease, call: Call, took_s: float) -> None:
        lease.took_s = took_s
        self._costs[call.function] = (self._costs.get(call.function, took_s) + took_s) / 2
        if len(self._costs) > _MANY_COSTS:  # drop half of them at once, to save time
            self._costs = dict(list(self._costs.items())[_MANY_COSTS // 2 :])

    def _fail_or_retry(self, call: Call, error: bytes, may_retry: bool) -> None:
        if may_retry and call.use_retry():
            self._leave_to_scheduler(call)
        else:
            self._fail_answered(call, error)

    def _succeed(
        self, call: Call, wires: Sequence[Wire], connection: CallConnection | None
    ) -> None:
        session, lease = self._session, call.lease
        assert lease is not None  # it has sent this answer
        if lease.host != session.setup.host and any(wire[0] == "segment" for wire in wires):
            self._by_scheduler.announce(call)  # Dask stores large results of other hosts
            self._by_scheduler.report_end(call, wires=wires, worker=lease.node_address)
        super()._succeed(call, wires, connection)

    def _settle(self, entry: Entry, wire: Wire) -> None:
        if not self._settle_here(entry, wire):
            self._session.table.settle(entry)  # the value is in the cluster

    def _report_failure(self, call: Call, error: bytes) -> None:
        if not call.is_announced:  # otherwise `_end_call` reports it
            super()._report_failure(call, error)

    def _whereabouts(self, call: Call) -> dict[str, object]:
        group = call.strategy.group if isinstance(call.strategy, InGroup) else None
        return {"party": None, "group": group, "resources": call.request.units()}

    def _end_call(self, call: Call, error: bytes | None = None) -> None:
        if error is not None:
            self._by_scheduler.report_end(call, error=error)
        self._by_scheduler.conclude_lease_call(call)
        super()._end_call(call, error)


def must_be_near(call: Call) -> bool:
    """Return whether only leases of this host can run a call.

    It can have arguments that are objects here, or it can be a generator: Dask would not know its
    items, which stay where they are made.
    """
    return bool(call.dependencies) or call.stream is not None


def is_near(entry: Entry, host: str) -> bool:
    """Return whether the processes of `host` can read an object without Dask."""
    if isinstance(entry.value, SegmentLink):
        return entry.value.host == host
    return entry.value is not None
