"""The objects that this process refers to: where each value is, and who still needs it.

One `Entry` an object, one count of the `ObjectRef`s to it. Counts go up in whatever thread makes a
reference. They go down only in `collect_dropped`: a reference's ``__del__`` may run at any moment in
any thread, so it takes no lock and just leaves a note.

Small values live here. When an object is known to Dask under its key (`wanted`), this process's
client wants that key, from the moment the entry is made until it goes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any

from raycompat._protocol.values import InlineValue, SegmentLink


class State(Enum):
    """Whether the value is being made, is there (here or in the cluster), or failed."""

    PENDING = auto()
    READY = auto()
    FAILED = auto()


class Entry:
    """What this process knows of one object."""

    __slots__ = (
        "callbacks",
        "count",
        "error",
        "escaped",
        "holds",
        "key",
        "own_segment",
        "parent",
        "pick_index",
        "state",
        "value",
        "victim",
        "view",
        "wanted",
    )

    def __init__(self, key: str, state: State = State.PENDING) -> None:
        self.key = key
        self.state = state
        self.count = 0
        #: The value, or None while it is only in the cluster.
        self.value: InlineValue | SegmentLink | None = None
        #: The mapping of a segment, once it has been read here.
        self.view: memoryview | None = None
        #: Why it failed, as bytes.
        self.error: bytes | None = None
        #: The call that could not run because of this error, when another call raised it.
        self.victim: str | None = None
        #: Whether our Dask client wants the key.
        self.wanted = False
        #: Whether somebody else may know the key, so that Dask must keep it as long as we do.
        self.escaped = False
        #: Whether the segment is still ours to remove (a put that nobody else knows of).
        self.own_segment = False
        #: References kept alive because the value contains them.
        self.holds: tuple[Any, ...] = ()
        #: One of several results of a call: the call's entry, and which result.
        self.parent: Entry | None = None
        self.pick_index = 0
        self.callbacks: list[Callable[[Entry], None]] = []

    @property
    def is_here(self) -> bool:
        """Whether the value needs no fetching."""
        return self.state is State.READY and self.value is not None

    @property
    def is_ours_alone(self) -> bool:
        """Whether the value, or the error, is small and nobody else has heard of the key."""
        small = self.state is State.FAILED or isinstance(self.value, InlineValue)
        return small and not self.escaped


class ObjectTable:
    """All entries of this process. `release` is called for keys that Dask need not keep for us."""

    def __init__(
        self,
        release: Callable[[list[str]], None],
        remove_segment: Callable[[SegmentLink], None],
    ) -> None:
        self.lock = threading.RLock()
        self.entries: dict[str, Entry] = {}
        self.dropped: deque[str] = deque()
        self._release = release
        self._remove_segment = remove_segment

    def add(self, key: str, *, wanted: bool = False, state: State = State.PENDING) -> Entry:
        """Make the entry of an object that is new to this process."""
        entry = Entry(key, state)
        entry.wanted = wanted
        with self.lock:
            self.entries[key] = entry
        return entry

    def get(self, key: str) -> Entry | None:
        """Return the entry of `key`."""
        return self.entries.get(key)

    def count_up(self, key: str) -> None:
        """Count one more reference to an object that has an entry."""
        with self.lock:
            self.entries[key].count += 1

    def collect_dropped(self) -> None:
        """Count down what `ObjectRef.__del__` has left, and let go of what nobody refers to."""
        released: list[str] = []
        with self.lock:
            while self.dropped:
                entry = self.entries.get(self.dropped.popleft())
                if entry is not None:
                    entry.count -= 1
                    if not entry.count:
                        self._remove(entry, released)
        if released:
            self._release(released)

    def _remove(self, entry: Entry, released: list[str]) -> None:
        if entry.count or self.entries.get(entry.key) is not entry:
            return
        del self.entries[entry.key]
        if entry.wanted:
            released.append(entry.key)
        if entry.own_segment and isinstance(entry.value, SegmentLink):
            self._remove_segment(entry.value)
        if entry.parent is not None:
            self.let_go_of_parent(entry, released)

    def let_go_of_parent(self, entry: Entry, released: list[str]) -> None:
        """One of several results no longer needs the call's own entry."""
        parent, entry.parent = entry.parent, None
        if parent is not None:
            parent.count -= 1
            if not parent.count:
                self._remove(parent, released)

    def settle(
        self,
        entry: Entry,
        *,
        value: InlineValue | SegmentLink | None = None,
        error: bytes | None = None,
        victim: str | None = None,
        holds: Iterable[Any] = (),
    ) -> None:
        """Enter how an object turned out, and call back whoever waits."""
        released: list[str] = []
        with self.lock:
            if entry.state is State.FAILED or entry.is_here:
                return
            entry.state = State.READY if error is None else State.FAILED
            entry.value, entry.error, entry.holds = value, error, tuple(holds)
            entry.victim = victim
            if entry.is_ours_alone:
                self.let_go_of_parent(entry, released)
            callbacks, entry.callbacks = entry.callbacks, []
        if released:
            self._release(released)
        for callback in callbacks:
            callback(entry)

    def keep_alone(self, entry: Entry) -> None:
        """Let Dask forget a small value, or an error, that nobody else knows of."""
        with self.lock:
            release = entry.wanted and entry.is_ours_alone
            if release:
                entry.wanted = False
        if release:
            self._release([entry.key])

    def when_settled(self, entry: Entry, callback: Callable[[Entry], None]) -> bool:
        """Have `callback` called once `entry` is no longer pending; False if it is not already."""
        with self.lock:
            if entry.state is not State.PENDING:
                return False
            entry.callbacks.append(callback)
            return True

    def forget_callback(self, entry: Entry, callback: Callable[[Entry], None]) -> None:
        """Take back what `when_settled` was asked."""
        with self.lock:
            if callback in entry.callbacks:
                entry.callbacks.remove(callback)
