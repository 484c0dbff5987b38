"""The value or the error of an object, from what this process has of it. Reading changes no object."""

from __future__ import annotations

import errno
import traceback
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from raycompat import exceptions
from raycompat._caller.object_table import FAILED, Entry
from raycompat._host import segment
from raycompat._pickling.serialization import deserialize
from raycompat._protocol.values import InlineValue

if TYPE_CHECKING:
    from raycompat._host.mapping import Mapping


class Missing(NamedTuple):
    """An object whose value is not in this process."""

    entry: Entry
    #: The path of its segment, if that does not exist any more.
    path: str | None = None


def read_all(entries: Iterable[Entry]) -> list[object] | Missing:
    """Return the values of objects, or the first one that is missing.

    Raises
    ------
    BaseException
        The error of the first object that has failed.
    """
    values = []
    for entry in entries:
        if entry.state is FAILED:
            raise error_of(entry)
        if not entry.is_here:
            return Missing(entry)
        try:
            values.append(read(entry))
        except FileNotFoundError as error:  # the node spilled or lost it
            return Missing(entry, error.filename)
    return values


def error_of(entry: Entry) -> BaseException:
    """Return the exception that `get` raises for a failed object: a new one at each call."""
    assert entry.error is not None
    entry.is_asked_for = True
    error = exceptions.loads_error(entry.error)
    if entry.victim is not None:
        error = exceptions.RayTaskError.from_dependency(error, entry.victim).as_instanceof_cause()
    elif entry.raised is not None:
        error.__cause__ = entry.raised
    return error


def read(entry: Entry) -> Any:
    """Unpickle the value of an object from data in this process.

    Raises
    ------
    FileNotFoundError
        When its segment was removed; the value must be fetched.
    RaySystemError
        When the value cannot be unpickled here.
    """
    block: bytes | Mapping
    value = entry.value  # another thread may give it to a node meanwhile
    if isinstance(value, InlineValue):
        block = value.block
    elif value is None:
        raise FileNotFoundError(errno.ENOENT, "the value has moved to a node", "")
    else:
        mapping = entry.mapping()
        if mapping is None:
            mapping = segment.read(value.path)
            entry.mapping = weakref.ref(mapping)
        block = mapping
    try:
        return deserialize(block)
    except exceptions.RayError:  # of a tensor whose actor has died
        raise
    except Exception as error:
        raise exceptions.RaySystemError(error, traceback.format_exc()) from error
