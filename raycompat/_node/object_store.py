"""The segments that a node owns."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from raycompat import exceptions
from raycompat._host import disk, open_files, segment
from raycompat._pickling.serialization import Block, deserialize
from raycompat._protocol import settings
from raycompat._protocol.values import (
    ErrorValue,
    InlineValue,
    SegmentLink,
    SegmentValue,
    StorePlace,
    Wire,
    from_wire,
)

#: Seconds that a free segment waits for a writer, and a shared segment for its reader.
_UNTAKEN_FOR_S = 15.0


class ObjectStore:
    """The segments that the node keeps for Dask. Others are removed when their writer crashes."""

    def __init__(self, spill_directory: str, limit_bytes: int) -> None:
        shared = segment.shared_folder()
        segment.sweep_shared_memory()
        open_files.allow_many()
        self.place = StorePlace(
            store=segment.store_name(),
            directories=(shared, spill_directory),
            host=segment.host_id(),
            limit_bytes=limit_bytes,
            disk_share=settings.disk_share(),
        )
        segment.keep_free_segments(shared, self.place.store)
        self._kept: weakref.WeakValueDictionary[str, SegmentValue] = weakref.WeakValueDictionary()
        #: Values from executors that no task has adopted yet, each with the client that submits it.
        self._handed_over: dict[str, tuple[SegmentValue, str]] = {}
        #: By job, the segments of processes that have left, which belong to the callers.
        self._left_to_callers: dict[str, list[Path]] = {}

    def adopt(self, wire: Wire) -> InlineValue | SegmentValue | ErrorValue:
        """Store a value; the node owns its segment from now on.

        Raises
        ------
        FileNotFoundError
            When its segment was removed, because its writer died.
        """
        value = from_wire(wire)
        if isinstance(value, InlineValue):  # a large one, from a driver without a node on its host
            return self.receive(Block([value.block], len(value.block), value.refs))
        if not isinstance(value, SegmentLink):
            return value
        handed_over, _ = self._handed_over.pop(value.path, (self._kept.get(value.path), ""))
        if handed_over is not None:
            return handed_over
        if not Path(value.path).exists():
            raise FileNotFoundError(value.path)
        if not Path(value.path).name.startswith(f"{self.place.store}-"):
            return self.take(value)  # the writer's home was another node, which has left
        return self._keep(value)

    def _keep(self, link: SegmentLink) -> SegmentValue:
        kept = SegmentValue(link, self.place.remove)
        self._kept[link.path] = kept
        return kept

    def hand_over(self, wire: Wire, client: str) -> None:
        """Store a value from now on; `client` submits the task that adopts it."""
        value = from_wire(wire)
        if isinstance(value, SegmentLink):
            self._handed_over[value.path] = (self._keep(value), client)

    @property
    def handed_over(self) -> dict[str, str]:
        """The segments that are not adopted yet, and the clients that must submit their tasks."""
        return {path: client for path, (_, client) in self._handed_over.items()}

    def withdraw(self, paths: Iterable[str]) -> None:
        """Remove values whose tasks will not be submitted, unless they were adopted meanwhile."""
        for path in paths:
            self._handed_over.pop(path, None)

    def discard(self, wire: Wire) -> None:
        """Remove a value that is not needed after all, unless the node already stores it."""
        value = from_wire(wire)
        if isinstance(value, SegmentLink):
            handed_over = self._handed_over.pop(value.path, None)
            if handed_over is None and value.path not in self._kept:
                self.place.remove(value.path)

    def take(self, link: SegmentLink) -> SegmentValue:
        """Store a value that another node of this host has shared.

        Raises
        ------
        FileNotFoundError
            When the segment was removed, or /dev/shm is a different one.
        """
        path = segment.take(link.path, self.place.store)
        return self._keep(SegmentLink(path, link.size, self.place.host, link.refs))

    def receive(self, block: Block) -> InlineValue | SegmentValue:
        """Store a value from another host, or from the disk."""
        value = self.place.save(block, is_copy=True)
        return value if isinstance(value, InlineValue) else self._keep(value)

    def load(self, stored: InlineValue | SegmentValue | ErrorValue) -> Any:
        """Return a stored value. Its arrays are read-only views of the segment."""
        if isinstance(stored, SegmentValue):
            return deserialize(segment.read(stored.link.path))
        if isinstance(stored, ErrorValue):
            raise exceptions.loads_error(stored.error)
        return deserialize(stored.block)

    def clean_up_after(self, writer_pid: int) -> None:
        """Remove the segments of a crashed process that have no other owner."""
        for path in self._left_by(writer_pid):
            path.unlink(missing_ok=True)

    def leave_to_callers(self, writer_pid: int, job: str) -> None:
        """Keep the segments of a process that has left: callers of the job remove their results."""
        if left := list(self._left_by(writer_pid)):
            self._left_to_callers.setdefault(job, []).extend(left)

    def end_job(self, job: str) -> None:
        """Remove what the callers of an ended job can remove no more."""
        for path in self._left_to_callers.pop(job, ()):
            if str(path) not in self._kept:
                path.unlink(missing_ok=True)

    def _left_by(self, writer_pid: int) -> Iterator[Path]:
        """Return the segments of an ended process that the node does not keep."""
        for directory in self.place.directories:
            for path in Path(directory).glob(f"{self.place.store}-{writer_pid}-*"):
                if str(path) not in self._kept:
                    yield path

    def room_on_disk(self) -> int:
        """Return the bytes that values in memory may use on the disk, which can be negative."""
        return disk.free_bytes(self.place.directories[-1], self.place.disk_share)

    def bytes_on_disk(self) -> int:
        """Return the size of the segments for which shared memory had no room."""
        return segment.used_bytes(self.place.directories[-1], self.place.store)

    @property
    def keeps_anything(self) -> bool:
        """Whether the node owns a segment."""
        return bool(self._kept)

    def tidy(self) -> None:
        """Free memory that was unused for a while, and the segments of ended nodes."""
        segment.sweep_shared_memory()
        directory, store = self.place.directories[0], self.place.store
        segment.drop_free(directory, store, _UNTAKEN_FOR_S)
        segment.drop_shared(directory, store, _UNTAKEN_FOR_S)

    def spare(self) -> bool:
        """Free unused memory; return whether there was any."""
        return segment.drop_free(self.place.directories[0], self.place.store)

    def close(self) -> None:
        """Remove all segments of this node, except those of drivers that still run."""
        self._handed_over.clear()
        segment.remove_all(self.place.directories, self.place.store, but_of_others=True)
