"""Values that this process puts: small ones stay in it, large ones go to the store of this host."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, TypeVar

from raycompat import exceptions
from raycompat._caller import call_sites
from raycompat._caller.object_ref import ObjectRef
from raycompat._host import interrupts
from raycompat._pickling.serialization import (
    INLINE_LIMIT_BYTES,
    Block,
    serialize,
    shortened,
    unpicklable,
)
from raycompat._protocol import ids
from raycompat._protocol.values import InlineValue

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership
    from raycompat._pickling.tensor_bytes import Reducer

T = TypeVar("T")


def put(session: Membership, value: T, tensors: Reducer | None = None) -> ObjectRef[T]:
    """Store a value and return the reference to it; `tensors` reduces its tensors.

    Raises
    ------
    TypeError, pickle.PicklingError, ...
        When the value cannot be pickled.
    """
    try:
        block, found = serialize(value, tensors)
    except TypeError as error:  # other errors are raised as they are, as in Ray
        raise unpicklable(f"the put value {shortened(value)}", error) from error
    ref: ObjectRef[T] = put_block(session, block, tuple(found.values()))
    return ref


def put_block(session: Membership, block: Block, holds: tuple[object, ...]) -> ObjectRef[Any]:
    """Store a block in this process (small) or on this host (large), and return a reference to it.

    Raises
    ------
    OutOfDiskError
        When neither the store nor the disk has room for it.
    """
    if block.size <= INLINE_LIMIT_BYTES:
        return _put_block(session, block, holds)
    session.table.collect_dropped()  # the memory of a value that was just dropped is used again
    while True:
        try:
            with interrupts.deferred():  # so that a segment always has an owner to remove it
                return _put_block(session, block, holds)
        except exceptions.OutOfDiskError:
            if not session.wait_for_room():
                raise


def _put_block(session: Membership, block: Block, holds: tuple[object, ...]) -> ObjectRef[Any]:
    try:
        value = session.home.place.save(block)
    except OSError as error:
        folders = " or ".join(session.home.place.directories)
        raise not_stored(f"An object of {block.size} bytes", folders, error) from error
    entry = session.table.add(ids.call_key("put", ids.new_task_id()))
    if session.records_sites:
        entry.site = call_sites.here("put object")
    ref = ObjectRef._from_key(entry.key, session)
    is_large = not isinstance(value, InlineValue)
    session.table.settle(entry, value=value, holds=holds, own_segment=is_large)
    if is_large:
        session.sharing.share_segments()
    if not session.is_connected:
        session.table.collect_dropped()
    return ref


def put_error(session: Membership, error: bytes) -> ObjectRef[object]:
    """Return a reference to an error: `get` raises it."""
    entry = session.table.add(ids.call_key("put", ids.new_task_id()))
    ref = ObjectRef._from_key(entry.key, session)
    session.table.settle(entry, error=error)
    return ref


#: Why a segment could not be written, other than for lack of room: the cause, and what to do.
_OTHER_CAUSES = {
    errno.EFBIG: "The limit for the size of a file is too low (ulimit -f). Raise it before init.",
    errno.EROFS: "The file system is read-only. Mount it with write access.",
    errno.EACCES: "This process may not write there. Check the permissions of the folders.",
    errno.EMFILE: "This process has opened all files that it may open (ulimit -n). Close some.",
}


def not_stored(what: str, folders: str, error: OSError) -> exceptions.RayError:
    """Return the error of an object that could not be written into the object store."""
    cause = _OTHER_CAUSES.get(error.errno or 0)
    if cause is not None:
        return exceptions.RaySystemError(f"{what} could not be written to {folders}. {cause}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return exceptions.OutOfDiskError(f"{what} does not fit into {folders}: {error.strerror}.")
    return exceptions.ObjectStoreFullError(f"{what} does not fit into {folders}.")
