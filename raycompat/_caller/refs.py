"""References in messages between processes: with a small value, or with the key of a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, READY
from raycompat._pickling.serialization import report_ref
from raycompat._protocol.values import InlineValue

if TYPE_CHECKING:
    from raycompat._caller.session import Session


def export(ref: ObjectRef[Any]) -> tuple[Any, ...]:
    """Return the tuple to pickle in place of `ref`."""
    session, entry = ref._session, ref._entry
    with session.lock:
        if entry.state is READY and isinstance(entry.value, InlineValue):
            for held in entry.holds:
                if not report_ref(held._key, held):
                    session.leaked[held._key] = held  # its receiver is unknown
            return ("value", ref._key, entry.value.block, entry.value.refs)
        if entry.state is FAILED:
            entry.is_asked_for = True
            return ("error", ref._key, entry.error, entry.victim)
        return ("key", session.sharing.publish(entry))


def restore(session: Session, carried: tuple[Any, ...]) -> ObjectRef[Any]:
    """Return the reference from a tuple of `export`, in this process."""
    kind, key, *rest = carried
    session.num_restored += 1
    with session.lock:
        entry = session.table.get(key)
        if entry is None:
            if kind == "key":
                session.sharing.borrow(key)
            else:
                entry = session.table.add(key)
        ref = ObjectRef._from_key(key, session)
    if kind == "value" and entry is not None:
        value = InlineValue(rest[0], tuple(rest[1]))
        session.table.settle(entry, value=value, holds=session.sharing.hold(value.refs))
    elif kind == "error" and entry is not None:
        session.table.settle(entry, error=rest[0], victim=rest[1])
    return ref
