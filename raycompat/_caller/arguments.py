"""The serialized arguments of a call.

A reference among the arguments becomes a dependency of the call. If its value is small and in this
process, the value is sent instead. References inside an argument are sent as they are; the call keeps
them alive.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raycompat._caller.dask_values import as_ref, is_dask_value
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, READY, Entry
from raycompat._caller.put import put_block
from raycompat._host.segment import RECYCLED_BYTES
from raycompat._pickling.serialization import (
    INLINE_LIMIT_BYTES,
    Block,
    serialize,
    shortened,
    unpicklable,
)
from raycompat._protocol.argument_slots import NO_ARGUMENTS, Known, Slot
from raycompat._protocol.values import InlineValue

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership

#: Bytes. Up to this size arguments travel inside a message to an actor: about where the cost of a
#: segment (to make, map and remove a file) equals that of the copies.
CHANNEL_LIMIT_BYTES = 200 * 1024


class Arguments:
    """The serialized arguments of one call.

    `block` holds them, with a `Slot` for each of the `dependencies`. A large block is stored as the
    last dependency, and `block` is None. `holds` keeps the objects alive that the arguments refer to.
    """

    def __init__(
        self,
        session: Membership,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        name: str,
        *,
        inline_limit_bytes: int = INLINE_LIMIT_BYTES,
    ) -> None:
        self.dependencies: list[Entry] = []
        self.holds: list[Any] = []
        self.block: bytes | None = NO_ARGUMENTS
        #: Whether there are references inside the arguments.
        self.carries_references = False
        self._session = session
        #: The numbers of dependencies by the ids of the arrays that they are made of.
        self._apart_by_id: dict[int, int] = {}
        if not args and not kwargs:
            return
        args = [self._top_level(value) for value in args]
        kwargs = {name: self._top_level(value) for name, value in kwargs.items()}
        block, found = _serialize_arguments(args, kwargs, name)
        if found:
            self.holds += found.values()
            self.carries_references = True
        if block.size <= inline_limit_bytes:
            self.block = block.to_bytes()
        else:
            self.block = None
            ref = put_block(session, block, tuple(found.values()))
            self.holds.append(ref)
            self.dependencies.append(ref._entry)

    def _top_level(self, value: object) -> object:
        if not isinstance(value, ObjectRef):
            if not is_dask_value(value):
                return self._apart(value) if _is_large_array(value) else value
            value = as_ref(self._session, value)
        entry = value._entry
        if value._session is not self._session:
            raise ValueError(
                f"{value!r} is not from the current Ray session: its cluster is gone. Call ray.put "
                "again."
            )
        if entry.state is READY and isinstance(entry.value, InlineValue):
            if entry.holds:
                self.holds.append(value)
                self.carries_references = True
            return Known(entry.value.block)
        entry.is_asked_for = True  # by the call itself
        self.holds.append(value)
        self.dependencies.append(entry)
        return Slot(len(self.dependencies) - 1)

    def _apart(self, value: object) -> Slot:
        """Store a large array as a separate object. A call that returns it need not copy it."""
        number = self._apart_by_id.get(id(value))
        if number is None:
            ref = put_block(self._session, serialize(value)[0], ())
            self.holds.append(ref)
            self.dependencies.append(ref._entry)
            number = self._apart_by_id[id(value)] = len(self.dependencies) - 1
        return Slot(number)

    def failed(self) -> Entry | None:
        """Return the first dependency that has failed already."""
        return next((e for e in self.dependencies if e.state is FAILED), None)


def _is_large_array(value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    is_array = numpy is not None and type(value) is numpy.ndarray
    return is_array and value.nbytes >= RECYCLED_BYTES and not value.dtype.hasobject


def _serialize_arguments(
    args: Sequence[object], kwargs: Mapping[str, object], name: str
) -> tuple[Block, dict[str, object]]:
    try:
        return serialize((args, kwargs))
    except TypeError as error:  # other errors are raised as they are, as in Ray
        culprit = next(filter(_cannot_be_pickled, [*args, *kwargs.values()]), args)
        what = f"the argument {shortened(culprit)} for a task or actor {name}"
        raise unpicklable(what, error) from error


def _cannot_be_pickled(value: object) -> bool:
    try:
        serialize(value)
    except Exception:
        return True
    return False
