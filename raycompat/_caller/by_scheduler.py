"""Calls that the scheduler places: those that leases do not take or could not run, and new actors.

The scheduler does not see a call that a lease runs, with two exceptions: its result is passed on before
it is ready, or is large, so that another process may need it computed again. Then the call is
*announced*, as a task that waits until this process reports its result. From then on the result is like
that of any other task. The scheduler can also run any call of a lease itself (`take_from_lease`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raycompat._caller.calls import ENDED, SENT, Call
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, Entry
from raycompat._caller.sender import Sender
from raycompat._messages.calls import Cancel, Credit, EndedByLease, Schedule
from raycompat._protocol import failures
from raycompat._protocol.values import ErrorValue, SegmentLink, Wire, from_wire, to_wire


class SchedulerSender(Sender):
    """The sender of calls by the scheduler. A session has one."""

    def submit(self, call: Call) -> None:
        """Submit a call, which the scheduler runs when its arguments are ready and a node has room."""
        failed = next((e for e in call.dependencies if e.state is FAILED), None)
        if failed is not None:
            self._refuse(call, failed.error or b"")
            return
        session = self._session
        if call.actor is not None:
            # Keeps the row of a dead actor, which says why it died.
            call.returns[0].is_known_elsewhere = True
        session.calls[call.key] = call
        ref = self._make_known(call, runs_by_lease=False)
        call.state = SENT
        # A call whose references are dropped still runs; an actor ends.
        call.ref = ref if call.actor is None else None

    def _refuse(self, call: Call, error: bytes) -> None:
        """Fail a call that cannot run because an argument has already failed."""
        if call.actor is not None:
            self._fail_results(call, failures.actor_not_built(error, call.key))
        else:
            self._fail_results(call, error, victim=call.name)
        self._end_call(call)

    def cancel(self, call: Call, *, force: bool, recursive: bool) -> None:
        """Request the end of a call from the scheduler."""
        self._session.send(Cancel(call.key, force, recursive))

    def give_credit(self, call: Call, num_received: int, is_wanted: bool) -> None:
        """Report, through the scheduler, how many items of a call's generator were received here."""
        self._session.send(Credit(call.key, num_received, is_wanted))

    def ended(
        self,
        call: Call,
        values: Sequence[Any] | None,
        error: bytes | None,
        *,
        of_an_argument: bool = False,
    ) -> None:
        """Store a call's results or its error. Called in the session's event loop."""
        session = self._session
        if error is not None:
            self._fail_results(call, error, call.name if of_an_argument else None)
        else:
            assert values is not None
            if call.stream is not None:
                call.stream.end(None, None)
            for index, entry in enumerate(call.returns):
                value = from_wire(values[index])
                if isinstance(value, ErrorValue):
                    session.table.fail(entry, value.error)
                else:
                    session.settle(entry, value)
        call.ref = None
        self._end_call(call)
        session.wake()

    def add_item(self, call: Call, index: int, item: str, wire: Wire, *, stored: bool) -> bool:
        """Store an item of a generator; False if this process does not need it."""
        session, stream = self._session, call.stream
        if stream is None or not stream.receive(index, wire):
            return False
        entry = session.table.add(item, is_held_in_dask=stored)
        session.settle(entry, from_wire(wire))
        stream.add(entry)
        return True

    # --- calls of leases ------------------------------------------------------------------------

    def announce(self, call: Call) -> None:
        """Announce to Dask a call that this process runs by a lease."""
        with self._session.lock:
            if not call.is_announced:
                call.is_announced = True
                ref = self._make_known(call, runs_by_lease=True)
                call.holds = (*call.holds, ref)  # until it has ended

    def take_from_lease(self, call: Call) -> None:
        """Submit a call that its lease pool gives up: no lease can run it, or it is to be retried."""
        with self._session.lock:
            # After an interrupt, the pool may give up a call for the second time.
            if call.sender is not self and call.state is not ENDED:
                self.resubmit(call)

    def resubmit(self, call: Call) -> None:
        """Submit a call of a lease pool: no lease runs it, or its result was lost."""
        session = self._session
        with session.lock:
            if call.is_announced:
                call.ref = ObjectRef._from_key(call.key, session)
                session.send(Schedule(call.key, call.retries))
            else:
                call.ref = self._make_known(call, runs_by_lease=False)
            for entry in call.returns:
                entry.origin = entry.channel = None
                entry.is_on_wire = False
            session.calls[call.key] = call
            call.state, call.sender = SENT, self

    def _make_known(self, call: Call, *, runs_by_lease: bool) -> ObjectRef[None]:
        """Submit or announce a call, and return the reference that keeps it in the scheduler."""
        session, table = self._session, self._session.table
        deps = [session.sharing.publish(entry) for entry in call.dependencies]
        spec = call.spec(session.setup, deps, runs_by_lease=runs_by_lease)
        with session.lock:
            if call.is_one:
                entry = call.returns[0]
                table.entries[call.key] = entry  # the user may have dropped all references
            else:
                entry = table.add(call.key)
                for index, one in enumerate(call.returns):
                    if table.get(one.key) is one:
                        one.parent, one.pick_index = entry, index
                        entry.count += 1
            entry.is_held_in_dask = True
            ref: ObjectRef[None] = ObjectRef._from_key(call.key, session)
        session.submit(spec)
        return ref

    def report_end(
        self,
        call: Call,
        *,
        error: bytes | None = None,
        wires: Sequence[Wire] | None = None,
        worker: str = "",
    ) -> None:
        """Report how an announced call ended: with an error, or with `wires` that a node stores.

        By default, the results are in this process, and its home node stores them.
        """
        session = self._session
        with session.lock:
            if call.is_end_reported or not call.is_announced:
                return
            call.is_end_reported = True
            if error is None and wires is None:
                wires, worker = [self._give(entry) for entry in call.returns], ""
            given = None if wires is None else list(wires)
            session.send(EndedByLease(call.key, given, worker or session.home.address, error))

    def _give(self, entry: Entry) -> Wire:
        if entry.error is not None:
            return to_wire(ErrorValue(entry.error))
        if isinstance(entry.value, SegmentLink) and self._session.table.get(entry.key) is not entry:
            return to_wire(ErrorValue(failures.object_lost(entry.key)))  # unreferenced
        return self._session.sharing.give(entry)

    def conclude_lease_call(self, call: Call) -> None:
        """Report the end of an announced call of a lease.

        A call whose large result may have to be computed again is announced first, as long as its
        arguments exist.
        """
        if not call.is_announced and not any(
            isinstance(e.value, SegmentLink) for e in call.returns
        ):
            for entry in call.returns:
                entry.origin = None
            return
        table = self._session.table
        with self._session.lock:
            call.state = ENDED
            large = [
                each
                for each in call.returns
                if isinstance(each.value, SegmentLink) and table.get(each.key) is each
            ]
            if large and not call.is_announced:
                if not call.dependencies and call.num_returns == 1:
                    return  # `publish` will announce the call
                self.announce(call)  # while its arguments still exist
            self.report_end(call)
            for entry in call.returns:
                entry.origin = None
