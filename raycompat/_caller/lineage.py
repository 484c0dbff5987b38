"""Calls that leases run, made known to Dask when others need their results, or when a lease fails.

The scheduler sees no call that a lease runs. It learns of one when its result is passed on before it is
there, or is large and others may have to make it anew: then the call is *announced*, as a task that
waits for this process to say what it has returned. From then on the result is like that of any other
task. A call that was announced, or never was, can be left to the scheduler altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raycompat._caller.calls import PendingCall
from raycompat._caller.object_table import Entry
from raycompat._protocol import failures
from raycompat._protocol.values import ErrorValue, SegmentLink, Wire, to_wire
from raycompat.object_ref import ObjectRef

if TYPE_CHECKING:
    from raycompat._caller.calls import DirectCall
    from raycompat._caller.session import Session


def announce(session: Session, call: DirectCall) -> None:
    """Tell Dask of a call that this process runs by a lease."""
    with session.table.lock:
        if not call.is_announced:
            call.is_announced = True
            ref = _submit(session, call, promised=True)
            call.holds = (*call.holds, ref)  # until it has ended


def schedule(session: Session, call: DirectCall) -> None:
    """Leave a call to the scheduler, which runs it as any other."""
    with session.table.lock:
        if session.calls.get(call.key) is not call and not call.has_ended:
            return  # we were interrupted after that
        if call.is_announced:
            ref = ObjectRef._from_key(call.key, session)
            session.send("raycompat-schedule", key=call.key, retries=call.retries)
        else:
            ref = _submit(session, call, promised=False)
        for entry in call.returns:
            entry.origin = entry.channel = None
            entry.is_on_wire = False
        session.calls[call.key] = PendingCall(
            call.key, call.name, call.returns, call.holds, ref, call.parent
        )


def _submit(session: Session, call: DirectCall, *, promised: bool) -> ObjectRef[None]:
    """Tell the scheduler of a call, and return the reference that keeps it there."""
    table = session.table
    deps = [session.sharing.publish(entry) for entry in call.dependencies]
    setup = session.setup
    spec = call.spec(setup.job, deps, runtime_env=setup.runtime_env, promised=promised)
    if call.num_returns == 1:
        entry = call.returns[0]
        table.entries[call.key] = entry  # its references may all be gone
    else:
        entry = table.add(call.key)
        for index, one in enumerate(call.returns):
            if table.get(one.key) is one:
                one.parent, one.pick_index = entry, index
                entry.count += 1
    entry.wanted = True
    session.submit(spec)
    return ObjectRef._from_key(call.key, session)


def tell_made(
    session: Session,
    call: DirectCall,
    *,
    error: bytes | None = None,
    wires: Sequence[Wire] | None = None,
    worker: str = "",
) -> None:
    """Tell Dask how a call ended that was announced: its error, or `wires` in the keeping of a node.

    By default what it has returned is here, and our own node keeps it.
    """
    with session.table.lock:
        if call.is_made or not call.is_announced:
            return
        call.is_made = True
        if error is None and wires is None:
            wires, worker = [_give(session, entry) for entry in call.returns], ""
        session.send(
            "raycompat-made",
            key=call.key,
            wires=None if wires is None else list(wires),
            worker=worker or session.home.address,
            error=error,
        )


def _give(session: Session, entry: Entry) -> Wire:
    if entry.error is not None:
        return to_wire(ErrorValue(entry.error))
    if isinstance(entry.value, SegmentLink) and session.table.get(entry.key) is not entry:
        return to_wire(ErrorValue(failures.object_lost(entry.key)))  # nobody refers to it
    return session.sharing.give(entry)


def keep_for_others(session: Session, call: DirectCall) -> None:
    """See to it that a result that has just come can be made anew, if others come to need it."""
    if not call.is_announced and not any(isinstance(e.value, SegmentLink) for e in call.returns):
        for entry in call.returns:
            entry.origin = None
        return
    with session.table.lock:
        call.has_ended = True
        large = [
            each
            for each in call.returns
            if isinstance(each.value, SegmentLink) and session.table.get(each.key) is each
        ]
        if large and not call.is_announced:
            if not call.dependencies and call.num_returns == 1:
                return  # whoever publishes it will announce the call
            announce(session, call)  # while its arguments are still there
        tell_made(session, call)
        for entry in call.returns:
            entry.origin = None
