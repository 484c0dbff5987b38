"""The objects that this process refers to: where each value is, and who still needs it.

One `Entry` an object, one count of the `ObjectRef`s to it. Counts go up in whatever thread makes a
reference. They go down only in `collect_dropped`: a reference's ``__del__`` may run at any moment in
any thread, so it takes no lock and just leaves a note.

Small values live here. When an object is known to Dask under its key (`wanted`), this process's
client wants that key, from the moment the entry is made until it goes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from raycompat._protocol import failures, ids
from raycompat._protocol.values import InlineValue, SegmentLink

if TYPE_CHECKING:
    from raycompat._caller.by_channel import Channel
    from raycompat._caller.calls import Call
    from raycompat._caller.generator import Stream
    from raycompat._caller.lease import Lease
    from raycompat._protocol.mapping import Mapping

logger = logging.getLogger(__name__)

#: References to small values that may be gone before anybody looks.
_MANY_DROPPED = 1000


class State(Enum):
    """Whether the value is being made, is there (here or in the cluster), or failed."""

    PENDING = auto()
    READY = auto()
    FAILED = auto()


class Entry:
    """What this process knows of one object. Most attributes keep their defaults: calls are many."""

    #: The value, or None while it is only in the cluster.
    value: InlineValue | SegmentLink | None = None
    #: The mapping of a segment, as long as anything made of it is alive here.
    mapping: Callable[[], Mapping | None] = staticmethod(lambda: None)
    #: Why it failed, as bytes.
    error: bytes | None = None
    #: The call that could not run because of this error, when another call raised it.
    victim: str | None = None
    #: Whether a call of ours failed with it, and whether somebody has asked how the call ended.
    is_failed_call = False
    is_asked_for = False
    #: Whether our Dask client wants the key.
    wanted = False
    #: Whether Dask knows the key, and we tell it how the object turns out.
    promised = False
    #: Whether somebody else may know the key, so that Dask must keep it as long as we do.
    escaped = False
    #: Whether the segment is still ours to remove: no node keeps it.
    own_segment = False
    #: The key of the Dask task whose value is this object's, if somebody asked for one.
    key_in_dask: str | None = None
    #: References kept alive because the value contains them.
    holds: tuple[Any, ...] = ()
    #: One of several results of a call: the call's entry, and which result.
    parent: Entry | None = None
    pick_index = 0
    #: The call that makes it by a lease; a large value keeps it, so that it can be made anew.
    origin: Call | None = None
    #: The channel or lease by which the value will arrive.
    channel: Channel | Lease | None = None
    #: Whether its call has been sent: then the end comes by the channel, or the channel closes.
    is_on_wire = False
    callbacks: Sequence[Callable[[Entry], None]] = ()

    def __init__(self, key: str, state: State = State.PENDING) -> None:
        self.key = key
        self.state = state
        self.count = 0

    @property
    def is_here(self) -> bool:
        """Whether the value needs no fetching."""
        return self.state is State.READY and self.value is not None

    @property
    def is_made_by_call(self) -> bool:
        """Whether others get the value from the call that makes it: it is not there yet, or large."""
        return self.state is State.PENDING or isinstance(self.value, SegmentLink)

    @property
    def is_ours_alone(self) -> bool:
        """Whether the value, or the error, is small and nobody else has heard of the key."""
        small = self.state is State.FAILED or isinstance(self.value, InlineValue)
        return small and not self.escaped


class ObjectTable:
    """All entries of this process.

    `release` is called for keys that Dask need not keep for us, `report` for the results of failed
    calls that are let go of before anybody asked for them.
    """

    def __init__(
        self,
        release: Callable[[list[str]], None],
        remove_segment: Callable[[SegmentLink], None],
        report: Callable[[Entry], None],
    ) -> None:
        self.lock = threading.RLock()
        self.entries: dict[str, Entry] = {}
        #: Keys of references that are gone, and channels and streams of handles that are gone.
        self.dropped: deque[str | Channel | Stream] = deque()
        #: How many objects have failed so far, and how many have ended in any way.
        self.num_failed = 0
        self.num_settled = 0
        self._settled = threading.Condition()
        self._num_watching = 0
        #: The entries whose segments are ours, oldest first, and how many bytes they have.
        self.own: dict[str, Entry] = {}
        self.own_bytes = 0
        self._release = release
        self._remove_segment = remove_segment
        self._report = report
        self._unasked: deque[Entry] = deque()
        self._end: bytes | None = None

    def end(self, error: bytes) -> None:
        """Fail all objects that are not there, and those that are yet to be added."""
        self._end = error
        for entry in list(self.entries.values()):
            self.settle(entry, error=error)

    def find(self, digits: str) -> str | None:
        """Return the key of the object whose id has these hexadecimal digits, if it is here."""
        with self.lock:
            return next((key for key in self.entries if ids.object_hex(key) == digits), None)

    def add(self, key: str, *, wanted: bool = False) -> Entry:
        """Make the entry of an object that is new to this process."""
        self.entries[key] = entry = Entry(key)
        if wanted:
            entry.wanted = True
        if self._end is not None:  # looked at only now: see `end`
            self.settle(entry, error=self._end)
        return entry

    def get(self, key: str) -> Entry | None:
        """Return the entry of `key`."""
        return self.entries.get(key)

    def count_up(self, key: str) -> None:
        """Count one more reference to an object that has an entry."""
        with self.lock:
            self.entries[key].count += 1

    def note_dropped(self, key: str) -> bool:
        """Note that a reference is gone; True when it should be collected soon.

        Called from ``__del__``, at any moment in any thread: takes no lock.
        """
        self.dropped.append(key)
        entry = self.entries.get(key)
        return (
            entry is None
            or entry.wanted
            or entry.own_segment
            or entry.is_failed_call
            or bool(entry.holds)
            or (entry.state is State.PENDING and entry.channel is None and entry.origin is None)
            or len(self.dropped) > _MANY_DROPPED
        )

    def collect_dropped(self) -> None:
        """Count down what `note_dropped` has noted, and let go of what nobody refers to."""
        released: list[str] = []
        others: list[Channel | Stream] = []
        with self.lock:
            while self.dropped:
                note = self.dropped.popleft()
                if not isinstance(note, str):
                    others.append(note)
                    continue
                entry = self.entries.get(note)
                if entry is not None:
                    entry.count -= 1
                    if not entry.count:
                        self._remove(entry, released)
            if released:
                self._release(released)  # before anybody can want one of them again
        for other in others:
            other.drop_handle()
        self._report_unasked()

    def remove_unreferenced(self, keys: Iterable[str]) -> None:
        """Remove the entries of a call that was never sent to which no reference was made."""
        with self.lock:
            for key in keys:
                entry = self.entries.get(key)
                if entry is not None and entry.count <= 0:
                    del self.entries[key]

    def _remove(self, entry: Entry, released: list[str]) -> None:
        if entry.count or self.entries.get(entry.key) is not entry:
            return
        del self.entries[entry.key]
        if entry.is_failed_call:
            self._note_unasked(entry)
        if entry.wanted:
            released.append(entry.key)
        if entry.key_in_dask is not None:
            released.append(entry.key_in_dask)
        if entry.own_segment and not entry.promised and isinstance(entry.value, SegmentLink):
            self.disown(entry)
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

    def _note_unasked(self, entry: Entry) -> None:
        if entry.state is State.FAILED and not entry.is_asked_for and not entry.escaped:
            entry.is_asked_for = True  # once is enough
            self._unasked.append(entry)

    def _report_unasked(self) -> None:
        while self._unasked:
            try:
                entry = self._unasked.popleft()
            except IndexError:  # another thread has told of it
                return
            self._report(entry)

    def fail(self, entry: Entry, error: bytes, victim: str | None = None) -> None:
        """Enter that a call of ours failed."""
        entry.is_failed_call = True
        self.settle(entry, error=error, victim=victim)
        with self.lock:
            if self.entries.get(entry.key) is not entry:  # nobody waits for it
                self._note_unasked(entry)
        self._report_unasked()

    def settle(
        self,
        entry: Entry,
        *,
        value: InlineValue | SegmentLink | None = None,
        error: bytes | None = None,
        victim: str | None = None,
        holds: tuple[Any, ...] = (),
        own_segment: bool = False,
    ) -> None:
        """Enter how an object turned out, and call back whoever waits.

        May be called again when it was interrupted.
        """
        released: list[str] = []
        with self.lock:
            state = entry.state
            if state is State.PENDING or (state is State.READY and entry.value is None):
                entry.value = value
                if error is not None:
                    entry.error, entry.victim = error, victim
                    self.num_failed += 1
                if holds:
                    entry.holds = holds
                entry.state = State.READY if error is None else State.FAILED
                self.num_settled += 1
                if entry.parent is not None and entry.is_ours_alone:
                    self.let_go_of_parent(entry, released)
                if own_segment:
                    self._own_segment(entry)
            elif own_segment and isinstance(value, SegmentLink) and not _is_at(entry, value):
                self._remove_segment(value)  # the call has failed meanwhile, or has run again
            callbacks = entry.callbacks
            if released:
                self._release(released)
        if callbacks:
            self._call_back(entry, callbacks)
        if self._num_watching:
            with self._settled:
                self._settled.notify_all()

    def wait_until_settled(self, number: int, timeout_s: float | None) -> bool:
        """Wait until so many objects have ended, whichever, since this table was made."""
        with self._settled:
            self._num_watching += 1  # from now on whoever settles tells us
            try:
                return self._settled.wait_for(lambda: self.num_settled >= number, timeout_s)
            finally:
                self._num_watching -= 1

    def _own_segment(self, entry: Entry) -> None:
        """Remove a segment with its entry; at once, if no reference waited for it."""
        assert isinstance(entry.value, SegmentLink)
        if self.entries.get(entry.key) is not entry and not entry.promised:
            self._remove_segment(entry.value)
        elif not entry.own_segment:
            entry.own_segment = True
            self.own[entry.key] = entry
            self.own_bytes += entry.value.size

    def take_back(self, entry: Entry) -> None:
        """Remove a segment with its entry again: no other process keeps it."""
        if isinstance(entry.value, SegmentLink):
            self._own_segment(entry)

    def lose_value(self, entry: Entry, path: str) -> bool:
        """Forget a segment that is gone; whether nobody is known to have the value now."""
        with self.lock:
            if not isinstance(entry.value, SegmentLink) or entry.value.path != path:
                return False  # another thread has found out, and has it again
            self.disown(entry)
            entry.value = None
            return not entry.wanted

    def lose(self, entry: Entry) -> None:
        """Enter that a value is lost that was there."""
        with self.lock:
            entry.state, entry.error = State.FAILED, failures.object_lost(entry.key)
            self.num_failed += 1

    def disown(self, entry: Entry) -> None:
        """Leave the removal of a segment to somebody else."""
        if entry.own_segment and isinstance(entry.value, SegmentLink):
            entry.own_segment = False
            del self.own[entry.key]
            self.own_bytes -= entry.value.size

    def _call_back(self, entry: Entry, callbacks: Sequence[Callable[[Entry], None]]) -> None:
        for callback in callbacks:
            try:
                callback(entry)
            except Exception:  # the others are to hear of it too
                logger.exception("raycompat could not tell of the end of %s", entry.key)
        entry.callbacks = ()

    def keep_alone(self, entry: Entry) -> None:
        """Let Dask forget a small value, or an error, that nobody else knows of."""
        with self.lock:
            release = entry.wanted and entry.is_ours_alone
            if release:
                entry.wanted = False
                self._release([entry.key])

    def when_settled(self, entry: Entry, callback: Callable[[Entry], None]) -> bool:
        """Call `callback` once `entry` is no longer pending; return False if it is not already."""
        with self.lock:
            if entry.state is not State.PENDING:
                return False
            entry.callbacks = (*entry.callbacks, callback)
            return True

    def forget_callback(self, entry: Entry, callback: Callable[[Entry], None]) -> None:
        """Take back what `when_settled` was asked."""
        with self.lock:
            entry.callbacks = tuple(each for each in entry.callbacks if each != callback)


def _is_at(entry: Entry, link: SegmentLink) -> bool:
    """Whether the value of an object is this segment."""
    return isinstance(entry.value, SegmentLink) and entry.value.path == link.path
