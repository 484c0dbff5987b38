"""`call`: sends a call with the right sender, and returns the references to its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._caller import call_sites
from raycompat._caller.by_channel import Channel
from raycompat._caller.by_lease import is_near
from raycompat._caller.calls import Call
from raycompat._caller.generator import ObjectRefGenerator, Stream
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, PENDING
from raycompat._host import interrupts
from raycompat._protocol import ids
from raycompat._protocol.strategy import InGroup

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership
    from raycompat._caller.sender import Sender
    from raycompat._caller.session import Session
    from raycompat._protocol.resource_set import LeaseKind


def call(session: Session, call: Call, sender: Sender) -> Any:
    """Send a call; return a reference to its result, a list of several, None, or a generator.

    The call is sent now, or when its arguments are ready and it has a place. This never waits.
    """
    if sender is session.by_scheduler:
        with interrupts.deferred():  # entries exist before references do
            return _call(session, call, sender)
    return _call(session, call, sender)


def _call(session: Session, call: Call, sender: Sender) -> Any:
    call.sender = sender
    call.parent = session.current_task()
    table = session.table
    if table.dropped and not session.is_connected:
        table.collect_dropped()
    if call.is_one:
        keys = [call.key]
    else:
        keys = [ids.return_key(call.key, index) for index in range(int(call.num_returns))]
    site = _site(call) if session.records_sites else None
    try:
        refs: Any = []
        for key in keys:
            entry = table.add(key)
            if site is not None:
                entry.site = site
            call.returns.append(entry)
            refs.append(ObjectRef._of_new(entry, session))
        if call.num_returns == "streaming":
            is_limited = call.max_items is not None
            call.stream = Stream(session, call.key, refs[0], is_limited=is_limited)
            call.stream.site = site
            refs = ObjectRefGenerator(call.stream)
        sender.submit(call)
        if call.stream is not None and table.error_of_end is not None:  # lost while it was sent
            call.stream.end(table.error_of_end, None)
    except BaseException:  # the caller gets no references; an interrupt may have come earlier
        session.call_ended(call)
        table.remove_unreferenced(keys)
        raise
    return refs[0] if call.num_returns in (1, "dynamic") else refs or None


def _site(call: Call) -> str:
    is_actor = isinstance(call.sender, Channel) or ids.is_of_actor(call.key)
    return call_sites.here("actor call" if is_actor else "task call")


def sender_of(session: Session, call: Call, *, lease_kind: LeaseKind | None) -> Sender:
    """Return the sender for a call of a function: a lease pool if leases can run it, else the
    scheduler.

    `lease_kind`: the kind of lease that has what the call's options need; None if there is none.
    """
    if (
        lease_kind is not None
        and session.setup.uses_leases
        and (call.strategy == "DEFAULT" or isinstance(call.strategy, InGroup))
        and (not call.dependencies or _arguments_come_here(session, call))
    ):
        return session.lease_pool(call.strategy, lease_kind)
    return session.by_scheduler


def _arguments_come_here(session: Session, call: Call) -> bool:
    """Return whether a call's arguments are in this process, or will arrive here."""
    for entry in call.dependencies:
        if entry.state is PENDING:
            is_ours = entry.origin is not None or entry.channel is not None
            if not is_ours and (entry.parent or entry).key not in session.calls:
                return False
        elif entry.state is FAILED or not is_near(entry, session.setup.host):
            return False
    return True


def cancel(session: Membership, ref: ObjectRef[object], *, force: bool, recursive: bool) -> None:
    """Request the end of the call that makes an object, a call of this process or of another.

    Raises
    ------
    ValueError
        With `force` on a call of an actor's method; for a reference that was made from an id alone.
    """
    entry = ref._entry
    if force and isinstance(entry.channel, Channel):
        raise ValueError(
            "force=True is not supported for actor tasks: it would end the actor. Call ray.kill(actor) "
            "for that, or cancel without force."
        )
    session.cancel(ids.call_of(ref._key), force=force, recursive=recursive)
