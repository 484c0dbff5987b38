"""The objects that this process refers to: where each value is, and whether it is still needed.

Each object has one `Entry`, with a count of its `ObjectRef`s. The thread that makes a reference
increments the count. Only `collect_dropped` decrements it: a reference's ``__del__`` can run at any
moment in any thread, so it takes no lock and only records the key.

Small values are stored here. When Dask knows an object by its key (`is_held_in_dask`), this process's
client holds that key as long as the entry exists.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from raycompat import exceptions
from raycompat._host import interrupts
from raycompat._protocol import failures, ids
from raycompat._protocol.values import InlineValue, SegmentLink

if TYPE_CHECKING:
    from raycompat._caller.calls import Call
    from raycompat._host.mapping import Mapping

logger = logging.getLogger(__name__)

#: References to small values that may be dropped before they are collected at once.
_MANY_DROPPED = 1000


class AnswerReader(Protocol):
    """What brings the value of an object: a channel to an actor, or a lease."""

    def read_until(
        self, is_over: Callable[[], bool], timeout_s: float | None, entries: Sequence[Entry]
    ) -> bool:
        """Handle answers in this thread until `is_over()`; False when it must wait in another way."""


class Droppable(Protocol):
    """What has to act when one of its handles is gone, such as a channel."""

    def drop_handle(self) -> None:
        """Act on it. Called outside of ``__del__``, so it may take locks."""


class State(Enum):
    """Whether the value is being made, exists (here or in the cluster), or failed."""

    PENDING = auto()
    READY = auto()
    FAILED = auto()


#: Python 3.11 reads ``State.READY`` ten times more slowly than a global name.
PENDING, READY, FAILED = State


class Entry:
    """The record of one object. There are many, so most attributes keep the defaults of the class."""

    #: The value; None while it is only in the cluster.
    value: InlineValue | SegmentLink | None = None
    #: The mapping of a segment, as long as an object that uses it is alive here.
    mapping: Callable[[], Mapping | None] = staticmethod(lambda: None)
    #: The error of a failed object, as bytes.
    error: bytes | None = None
    #: In local mode, the exception itself, with the frames of the user's code.
    raised: BaseException | None = None
    #: The name of the call that could not run because an argument had this error.
    victim: str | None = None
    #: Whether a call of this process failed with it.
    is_failed_call = False
    #: Whether code has asked for the value or the error: then the error is not logged as unhandled.
    is_asked_for = False
    #: Whether this process's Dask client holds the key.
    is_held_in_dask = False
    #: Whether this process has announced the object to Dask and must report its value or error.
    is_promised = False
    #: Whether another process may know the key, so that Dask must keep it as long as this one does.
    is_known_elsewhere = False
    #: Whether it came from another process.
    is_borrowed = False
    #: Whether this process must remove the segment: no node owns it.
    own_segment = False
    #: The key of the Dask task with the object's value, if one was made.
    key_in_dask: str | None = None
    #: References kept alive because the value contains them.
    holds: tuple[Any, ...] = ()
    #: For one of several results of a call: the entry of the call, and the number of the result.
    parent: Entry | None = None
    pick_index = 0
    #: The call that makes it by a lease. A large value keeps the call, to compute the value again.
    origin: Call | None = None
    #: The channel or lease by which the value will arrive.
    channel: AnswerReader | None = None
    #: For a result of a method whose tensors stay in the actor: the name of the transport.
    tensor_transport: str | None = None
    #: Whether its call has been sent: then the channel brings the end, or closes.
    is_on_wire = False
    #: Where the program made it, if this process records that (`_caller.call_sites`).
    site: str | None = None
    #: What to call when it ends, and how often. Many calls can wait for one object.
    callbacks: dict[Callable[[Entry], None], int] | None = None

    def __init__(self, key: str, state: State = PENDING) -> None:
        self.key = key
        self.state = state
        self.count = 0

    @property
    def is_here(self) -> bool:
        """Whether the value is ready and needs no fetching."""
        return self.state is READY and self.value is not None

    @property
    def is_made_by_call(self) -> bool:
        """Whether others get the value from the call: it is not ready, or it is large."""
        return self.state is PENDING or isinstance(self.value, SegmentLink)

    @property
    def is_ours_alone(self) -> bool:
        """Whether the value is small, or an error, and no other process knows the key."""
        small = self.state is FAILED or isinstance(self.value, InlineValue)
        return small and not self.is_known_elsewhere


class _OfParent(dict[str, Entry]):
    """The entries of a forked process: looking one up raises an error."""

    def __init__(self, reason: str, entries: dict[str, Entry]) -> None:
        super().__init__()
        self._reason = reason
        #: The parent's entries. Their destructors must not run here.
        self._kept = entries

    def __missing__(self, key: str) -> Entry:
        raise exceptions.RaySystemError(self._reason)


class ObjectTable:
    """All entries of this process.

    Changes hold `lock`, which is the session's. `release` is called with keys that Dask need not keep
    for this process. `report` is called with the errors of failed calls whose references are dropped
    before they are read.
    """

    def __init__(
        self,
        lock: threading.RLock,
        release: Callable[[list[str]], None],
        remove_segment: Callable[[SegmentLink], None],
        report: Callable[[Entry], None],
    ) -> None:
        self._lock = lock
        self.entries: dict[str, Entry] = {}
        #: Keys of dropped references; channels, streams and code of dropped handles.
        self.dropped: deque[str | Droppable] = deque()
        #: How many objects have failed so far, and how many have failed or become ready.
        self.num_failed = 0
        self.num_settled = 0
        self._settled = threading.Condition()
        self._num_watching = 0
        #: The entries whose segments this process owns, oldest first, and their total bytes.
        self.own: dict[str, Entry] = {}
        self.own_bytes = 0
        self._release = release
        self._remove_segment = remove_segment
        self._report = report
        self._unasked: deque[Entry] = deque()
        #: The error of all objects that are not ready, once the session is lost.
        self.error_of_end: bytes | None = None

    def end(self, error: bytes) -> None:
        """Fail all objects that are not ready, and those that are added later."""
        self.error_of_end = error
        for entry in list(self.entries.values()):
            self.settle(entry, error=error)

    def leave_to_parent(self, reason: str) -> None:
        """Refuse to look up objects: this process was forked. Takes no lock."""
        self.entries = _OfParent(reason, self.entries)

    def find_and_count(self, digits: str) -> str | None:
        """Return the key of the object whose id has these hexadecimal digits; None if unknown.

        It counts one more reference to the object.
        """
        with self._lock:
            key = next((key for key in self.entries if ids.object_hex(key) == digits), None)
            if key is not None:
                self.count_up(key)
            return key

    def add(self, key: str, *, is_held_in_dask: bool = False) -> Entry:
        """Add the entry of an object that is new to this process."""
        self.entries[key] = entry = Entry(key)
        if is_held_in_dask:
            entry.is_held_in_dask = True
        if self.error_of_end is not None:  # checked after it is added, because `end` may run now
            self.settle(entry, error=self.error_of_end)
        return entry

    def get(self, key: str) -> Entry | None:
        """Return the entry of `key`."""
        return self.entries.get(key)

    def count_up(self, key: str) -> None:
        """Count one more reference to an object that has an entry."""
        with self._lock:
            self.entries[key].count += 1

    def note_dropped(self, key: str) -> bool:
        """Record a dropped reference; return True if it should be collected soon.

        Called from ``__del__`` at any moment in any thread, so it takes no lock.
        """
        self.dropped.append(key)
        entry = self.entries.get(key)
        return (
            entry is None
            or entry.is_held_in_dask
            or entry.own_segment
            or entry.is_failed_call
            or bool(entry.holds)
            or (entry.state is PENDING and entry.channel is None and entry.origin is None)
            or len(self.dropped) > _MANY_DROPPED
        )

    def collect_dropped(self) -> None:
        """Count the dropped references, and remove the entries without references."""
        released: list[str] = []
        others: list[Droppable] = []
        with interrupts.deferred():  # a reference that has left the queue must be counted
            with self._lock:
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
                    self._release(released)  # before another thread can want one of them again
            for other in others:
                other.drop_handle()
            self._report_unasked()

    def remove_unreferenced(self, keys: Iterable[str]) -> None:
        """Remove the entries of a call that was never sent, if they have no references."""
        with self._lock:
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
        if entry.is_held_in_dask:
            released.append(entry.key)
        if entry.key_in_dask is not None:
            released.append(entry.key_in_dask)
        if entry.own_segment and not entry.is_promised and isinstance(entry.value, SegmentLink):
            self.disown(entry)
            self._remove_segment(entry.value)
        if entry.parent is not None:
            self.let_go_of_parent(entry, released)

    def let_go_of_parent(self, entry: Entry, released: list[str]) -> None:
        """Release the call's own entry from one of its several results."""
        parent, entry.parent = entry.parent, None
        if parent is not None:
            parent.count -= 1
            if not parent.count:
                self._remove(parent, released)

    def _note_unasked(self, entry: Entry) -> None:
        if entry.state is FAILED and not entry.is_asked_for and not entry.is_known_elsewhere:
            entry.is_asked_for = True  # once is enough
            self._unasked.append(entry)

    def _report_unasked(self) -> None:
        while self._unasked:
            try:
                entry = self._unasked.popleft()
            except IndexError:  # another thread has reported it
                return
            self._report(entry)

    def fail(self, entry: Entry, error: bytes, victim: str | None = None) -> None:
        """Enter the error of a call of this process."""
        entry.is_failed_call = True
        self.settle(entry, error=error, victim=victim)
        with self._lock:
            if self.entries.get(entry.key) is not entry:  # no reference is left
                self._note_unasked(entry)
        self._report_unasked()

    def settle(
        self,
        entry: Entry,
        *,
        value: InlineValue | SegmentLink | None = None,
        error: bytes | None = None,
        victim: str | None = None,
        holds: tuple[object, ...] = (),
        own_segment: bool = False,
    ) -> None:
        """Enter an object's value or error, and run the callbacks that wait for it.

        May be called again after an interrupt.
        """
        released: list[str] = []
        with self._lock:
            state = entry.state
            if state is PENDING or (state is READY and entry.value is None):
                entry.value = value
                if error is not None:
                    entry.error, entry.victim = error, victim
                    self.num_failed += 1
                if holds:
                    entry.holds = holds
                entry.state = READY if error is None else FAILED
                self.num_settled += 1
                if entry.parent is not None and entry.is_ours_alone:
                    self.let_go_of_parent(entry, released)
                if own_segment:
                    self._own_segment(entry)
            elif own_segment and isinstance(value, SegmentLink) and not _is_at(entry, value):
                self._remove_segment(value)  # the call has failed in the meantime, or was run again
            if released:
                self._release(released)
        if entry.callbacks:
            self._call_back(entry)
        if self._num_watching:
            with self._settled:
                self._settled.notify_all()

    def wait_until_settled(self, number: int, timeout_s: float | None) -> bool:
        """Wait until `number` objects, of any kind, have ended since this table was made."""
        with self._settled:
            self._num_watching += 1  # from now on `settle` notifies this thread
            try:
                return self._settled.wait_for(lambda: self.num_settled >= number, timeout_s)
            finally:
                self._num_watching -= 1

    def _own_segment(self, entry: Entry) -> None:
        """Own a segment: remove it with its entry, or at once if no reference exists."""
        assert isinstance(entry.value, SegmentLink)
        if self.entries.get(entry.key) is not entry and not entry.is_promised:
            self._remove_segment(entry.value)
        elif not entry.own_segment:
            entry.own_segment = True
            self.own[entry.key] = entry
            self.own_bytes += entry.value.size

    def own_again(self, entry: Entry) -> None:
        """Own a segment again, because no other process keeps it."""
        if isinstance(entry.value, SegmentLink):
            self._own_segment(entry)

    def forget_segment(self, entry: Entry, path: str) -> bool:
        """Forget a segment that is gone; return False if the value is no longer there."""
        with self._lock:
            if not isinstance(entry.value, SegmentLink) or entry.value.path != path:
                return False  # another thread has noticed, and has fetched it again
            self.disown(entry)
            entry.value = None
            return True

    def await_again(self, entry: Entry) -> None:
        """Wait for a value that was ready and will be made again."""
        with self._lock:
            entry.state = PENDING

    def lose(self, entry: Entry) -> None:
        """Mark a value as lost that was ready."""
        with self._lock:
            entry.state, entry.error = FAILED, failures.object_lost(entry.key)
            self.num_failed += 1

    def disown(self, entry: Entry) -> None:
        """Pass the ownership of a segment to another process."""
        if entry.own_segment and isinstance(entry.value, SegmentLink):
            entry.own_segment = False
            del self.own[entry.key]
            self.own_bytes -= entry.value.size

    def _call_back(self, entry: Entry) -> None:
        """Run each callback once, also if another thread settles the object at the same time."""
        while True:
            with interrupts.deferred():  # a callback that was taken is called
                with self._lock:
                    if not entry.callbacks:
                        entry.callbacks = None
                        return
                    callback = next(iter(entry.callbacks))
                    number = entry.callbacks.pop(callback)
                for _ in range(number):
                    try:
                        callback(entry)
                    except Exception:  # the other callbacks must run too
                        logger.exception("raycompat could not report the end of %s", entry.key)

    def keep_alone(self, entry: Entry) -> None:
        """Let Dask forget a small value, or an error, that only this process knows."""
        with self._lock:
            release = entry.is_held_in_dask and entry.is_ours_alone
            if release:
                entry.is_held_in_dask = False
                self._release([entry.key])

    def when_settled(self, entry: Entry, callback: Callable[[Entry], None]) -> bool:
        """Call `callback` when `entry` ends; return False, without a call, if it has ended already."""
        with self._lock:
            if entry.state is not PENDING:
                return False
            if entry.callbacks is None:
                entry.callbacks = {}
            entry.callbacks[callback] = entry.callbacks.get(callback, 0) + 1
            return True

    def forget_callback(self, entry: Entry, callback: Callable[[Entry], None]) -> None:
        """Remove a callback of `when_settled`."""
        with self._lock:
            if entry.callbacks:
                entry.callbacks.pop(callback, None)


def _is_at(entry: Entry, link: SegmentLink) -> bool:
    """Return whether an object's value is this segment."""
    return isinstance(entry.value, SegmentLink) and entry.value.path == link.path
