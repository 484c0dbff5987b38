"""What Dask stores for a Ray object: a small value itself, or a link to its segment.

User types never exist in a node or the scheduler: a value is bytes there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from raycompat._protocol import segment
from raycompat._protocol.serialization import Block


@dataclass(frozen=True, slots=True)
class InlineValue:
    """A small value: its block, and the keys of the references inside it."""

    block: bytes
    refs: tuple[str, ...] = ()

    def __sizeof__(self) -> int:
        """Tell Dask the real size."""
        return len(self.block) + 64


@dataclass(frozen=True, slots=True)
class SegmentLink:
    """Where a large value lies: mappable by the processes of one host."""

    path: str
    size: int
    host: str
    refs: tuple[str, ...] = ()

    def __sizeof__(self) -> int:
        """Tell Dask the size of what it links to."""
        return self.size


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """Why one of several results is missing: a pickled error."""

    error: bytes

    def __sizeof__(self) -> int:
        """Tell Dask the real size."""
        return len(self.error) + 64


class SegmentValue:
    """A large value in the keeping of a node: the segment goes when this object does."""

    __slots__ = ("__weakref__", "link")

    def __init__(self, link: SegmentLink, remove: Callable[[str], None] = segment.remove) -> None:
        self.link = link
        weakref.finalize(self, remove, link.path)

    def __reduce__(self) -> Any:
        raise TypeError(
            "A SegmentValue is its segment's owner: it crosses by way of _transfer alone."
        )

    def __sizeof__(self) -> int:
        """Tell Dask the size of what it keeps, so that it schedules by it."""
        return self.link.size


@dataclass(frozen=True, slots=True)
class SeveralValues:
    """The results of a call that has several."""

    values: tuple[InlineValue | SegmentValue | ErrorValue, ...]

    def __sizeof__(self) -> int:
        """Tell Dask the real size."""
        return sum(value.__sizeof__() for value in self.values)


class CallFailed(Exception):
    """The one exception that leaves a call's body in a node: a pickled error, and its text.

    Dask pickles and unpickles exceptions in workers and in the scheduler's clients; the user's own
    exception stays bytes until a caller asks for it.
    """

    def __init__(self, error: bytes, text: str) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text

    def __str__(self) -> str:
        """Show the text alone: it is what Dask logs and its dashboard shows."""
        return self.text

    __repr__ = __str__


#: A value as messages carry it, by kind; the keys of the references inside it come last:
#: ("inline", block, refs), ("segment", path, size, host, refs) or ("error", error, ()).
Wire: TypeAlias = tuple[Any, ...]


def to_wire(value: InlineValue | SegmentLink | SegmentValue | ErrorValue) -> Wire:
    """Turn a value into a tuple of plain types."""
    if isinstance(value, InlineValue):
        return ("inline", value.block, value.refs)
    if isinstance(value, ErrorValue):
        return ("error", value.error, ())
    link = value.link if isinstance(value, SegmentValue) else value
    return ("segment", link.path, link.size, link.host, link.refs)


def from_wire(wire: Wire) -> InlineValue | SegmentLink | ErrorValue:
    """Turn what `to_wire` made (or a list of it, after msgpack) back into a value."""
    if wire[0] == "inline":
        return InlineValue(wire[1], tuple(wire[2]))
    if wire[0] == "error":
        return ErrorValue(wire[1])
    return SegmentLink(wire[1], wire[2], wire[3], tuple(wire[4]))


@dataclass(slots=True)
class StorePlace:
    """Where the segments of one node go.

    Its name, the directories in order (shared memory first, then its disk), the host, and how many
    bytes of shared memory it may have. Writers see to it that what waits to be used again leaves room.
    """

    store: str
    directories: tuple[str, ...]
    host: str
    limit_bytes: int
    _gauge: segment.Gauge = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.directories = tuple(self.directories)
        self._gauge = segment.Gauge(self.directories[0], self.store, self.limit_bytes)

    def describe(self) -> tuple[Any, ...]:
        """Return what another process makes this place of."""
        return (self.store, self.directories, self.host, self.limit_bytes)

    def save(self, block: Block) -> InlineValue | SegmentLink:
        """Keep `block`: a small one inline, a large one as a new segment.

        Raises
        ------
        OSError
            With ``errno.ENOSPC``, when the host has no room for it.
        """
        if block.is_small:
            return InlineValue(block.to_bytes(), block.refs)
        directories = self.directories[0 if self._gauge.has_room(block.size) else 1 :]
        path = segment.write(directories, self.store, block)
        return SegmentLink(path, block.size, self.host, block.refs)

    def remove(self, path: str) -> None:
        """Remove a segment, or keep it for the next writer."""
        segment.remove(path, self.limit_bytes)
