"""The values that Dask stores for Ray objects: a small value itself, or a link to its segment.

In a node and the scheduler a value is bytes: the user's types need not exist there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from raycompat._host import disk, segment
from raycompat._pickling.serialization import Block


@dataclass(frozen=True, slots=True)
class InlineValue:
    """A small value: its block and the keys of the references inside it."""

    block: bytes
    refs: tuple[str, ...] = ()

    def __sizeof__(self) -> int:
        """Return the real size, which Dask uses."""
        return len(self.block) + 64


@dataclass(frozen=True, slots=True)
class SegmentLink:
    """The location of a large value, which the processes of one host can map."""

    path: str
    size: int
    host: str
    refs: tuple[str, ...] = ()

    def __sizeof__(self) -> int:
        """Return the size of the linked value, which Dask uses."""
        return self.size


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """The pickled error of one of several results that could not be made."""

    error: bytes

    def __sizeof__(self) -> int:
        """Return the real size, which Dask uses."""
        return len(self.error) + 64


class SegmentValue:
    """A large value that a node owns: the segment is removed together with this object."""

    __slots__ = ("__weakref__", "link")

    def __init__(self, link: SegmentLink, remove: Callable[[str], None] = segment.remove) -> None:
        self.link = link
        weakref.finalize(self, remove, link.path)

    def __reduce__(self) -> Any:
        raise TypeError(
            "A SegmentValue owns its segment, so only _dask.transfer can send it to another process."
        )

    def __sizeof__(self) -> int:
        """Return the size of the owned segment, by which Dask schedules."""
        return self.link.size


@dataclass(frozen=True, slots=True)
class SeveralValues:
    """The results of a call with several results."""

    values: tuple[InlineValue | SegmentValue | ErrorValue, ...]

    def __sizeof__(self) -> int:
        """Return the real size, which Dask uses."""
        return sum(value.__sizeof__() for value in self.values)


class CallFailed(Exception):
    """The only exception that a call's body in a node raises: a pickled error and its text.

    Dask pickles and unpickles exceptions in workers and in clients. The user's exception stays bytes
    until a caller reads it.
    """

    def __init__(self, error: bytes, text: str) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text

    def __str__(self) -> str:
        """Return the text, which Dask logs and shows in its dashboard."""
        return self.text

    __repr__ = __str__


#: A value in messages, by kind; the keys of the references inside it come last:
#: ("inline", block, refs), ("segment", path, size, host, refs) or ("error", error, ()).
#: As the argument of a call also a reference that its executor resolves: ("key", key, path), with the
#: path of the value's segment on this host, or None. `from_wire` does not read this kind.
Wire: TypeAlias = tuple[Any, ...]


def to_wire(value: InlineValue | SegmentLink | SegmentValue | ErrorValue) -> Wire:
    """Return a value as a tuple of plain types."""
    if isinstance(value, InlineValue):
        return ("inline", value.block, value.refs)
    if isinstance(value, ErrorValue):
        return ("error", value.error, ())
    link = value.link if isinstance(value, SegmentValue) else value
    return ("segment", link.path, link.size, link.host, link.refs)


def from_wire(wire: Wire) -> InlineValue | SegmentLink | ErrorValue:
    """Return the value from a result of `to_wire`, or from a list of its items, as msgpack makes."""
    if wire[0] == "inline":
        return InlineValue(wire[1], tuple(wire[2]))
    if wire[0] == "error":
        return ErrorValue(wire[1])
    return SegmentLink(wire[1], wire[2], wire[3], tuple(wire[4]))


@dataclass(slots=True)
class StorePlace:
    """The place where one node's segments are written.

    It has a name, directories in order of preference (shared memory, then disk), a host, a limit of
    shared memory in bytes, and the share of the disk that may be in use when a new value goes there.
    Writers remove free segments to stay within the limit.
    """

    store: str
    directories: tuple[str, ...]
    host: str
    limit_bytes: int
    disk_share: float = 1.0
    _gauge: segment.Gauge = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.directories = tuple(self.directories)
        self._gauge = segment.Gauge(self.directories[0], self.store, self.limit_bytes)

    def describe(self) -> tuple[Any, ...]:
        """Return the arguments from which another process makes an equal place."""
        return (self.store, self.directories, self.host, self.limit_bytes, self.disk_share)

    def __reduce__(self) -> tuple[object, ...]:
        return StorePlace, self.describe()

    def save(self, block: Block, *, is_copy: bool = False) -> InlineValue | SegmentLink:
        """Store `block`: a small one inline, a large one as a new segment.

        A copy of a value that exists already is written as long as the host has any room for it,
        beyond all limits: otherwise values on a full disk could not be read.

        Raises
        ------
        OSError
            With ``errno.ENOSPC``, when no directory of the host has room for it.
        """
        if block.is_small:
            return InlineValue(block.to_bytes(), block.refs)
        # A linked one can be a few bytes shorter than the block, and takes no more room in memory.
        path = segment.link(self.directories[0], self.store, block)
        if path is None:
            path = self._write(block, is_copy=is_copy)
        return SegmentLink(path, block.size, self.host, block.refs)

    def _write(self, block: Block, *, is_copy: bool) -> str:
        memory, disks = self.directories[:1], self.directories[1:]
        if self._gauge.has_room(block.size):
            directories = (*memory, *disks)
        else:
            directories = (*disks, *memory) if is_copy else disks
        check = () if is_copy else (self._check_room,)
        return segment.write(directories, self.store, block, *check)

    def _check_room(self, directory: str, size: int) -> None:
        if directory != self.directories[0]:  # shared memory has its own limit
            disk.check_room(directory, size, self.disk_share)

    def remove(self, path: str) -> None:
        """Remove a segment, or keep it for the next writer."""
        segment.remove(path, self.limit_bytes)
