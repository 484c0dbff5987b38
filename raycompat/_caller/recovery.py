"""Where a value comes from that was in this process and is gone. Only this module decides that."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership
    from raycompat._caller.object_table import Entry
    from raycompat._caller.reading import Missing


class Remedy(Enum):
    """Where a missing value comes from."""

    #: Dask keeps it for this process, so the next read fetches it.
    FETCH = auto()
    #: A node has it among the results of its call. When Dask knows the key, it can be fetched.
    PUBLISH = auto()
    #: The call that made it has a retry left, and runs again.
    MAKE_AGAIN = auto()
    #: It is lost.
    GIVE_UP = auto()


def remedy_for(entry: Entry) -> Remedy:
    """Decide where the value of an object comes from that is ready and not in this process."""
    if entry.is_held_in_dask:
        return Remedy.FETCH
    call = entry.origin
    if entry.parent is not None and (call is None or call.is_end_reported):
        return Remedy.PUBLISH
    if call is not None and call.retries:
        return Remedy.MAKE_AGAIN
    return Remedy.GIVE_UP


def recover(session: Membership, missing: Missing) -> None:
    """Let a missing value come from elsewhere, or mark its object as lost.

    It does nothing if another thread has noticed it too, and has fetched the value again.
    """
    entry, path = missing
    table = session.table
    with session.lock:
        if path is None or not table.forget_segment(entry, path):
            return
        remedy, call = remedy_for(entry), entry.origin
        if remedy is Remedy.PUBLISH:
            session.sharing.publish(entry)
        elif remedy is Remedy.MAKE_AGAIN and call is not None:
            call.use_retry()
            table.await_again(entry)
            session.by_scheduler.resubmit(call)
        elif remedy is Remedy.GIVE_UP:
            table.lose(entry)
