"""The exchange of objects between this process and Dask: values that it gives, keys that it needs.

Messages about references go through the stream to the scheduler, in order. A process that gets a
reference in another way must not use it earlier. So its sender calls `Sharing.wait_until_synced` first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from raycompat._caller.calls import ENDED, Call
from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import FAILED, PENDING, Entry
from raycompat._host import interrupts, segment
from raycompat._messages.objects import (
    Adopt,
    Borrow,
    Fulfil,
    Load,
    Pick,
    Pin,
    Promise,
    Sync,
    Synced,
    Unload,
)
from raycompat._protocol import failures
from raycompat._protocol.values import SegmentLink, Wire, to_wire

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership


class Announcer(Protocol):
    """What objects need of the sender of calls by the scheduler (`by_scheduler.SchedulerSender`)."""

    def announce(self, call: Call) -> None:
        """Announce to Dask a call that this process runs by a lease."""

    def report_end(self, call: Call) -> None:
        """Report how an announced call ended."""

    def resubmit(self, call: Call) -> None:
        """Submit a call again, because its result was lost."""


class Sharing:
    """The messages of a session about references, and how many the scheduler has handled."""

    def __init__(self, session: Membership) -> None:
        self._session = session
        #: The number of messages about references that were queued.
        self._num_sent = 0
        #: How many of them the scheduler is known to have handled.
        self._num_handled = 0
        #: How many it must have handled before another process may use the references.
        self._sync_up_to = 0
        #: Callbacks, each with the number of handled messages that it waits for.
        self._when_handled: deque[tuple[int, Callable[[], None]]] = deque()
        #: Notified when the scheduler has handled more, or cannot handle more.
        self._news = threading.Condition()
        #: Keys of Dask tasks with values, which other clients may use.
        self.lingering: set[str] = set()
        #: Keys of values for the next home node, while there is none.
        self._to_give: list[str] = []

    def home_moved(self) -> None:
        """Give the new home node the values that waited for it. Called in the event loop."""
        keys, self._to_give = self._to_give, []
        for key in keys:
            self.give_again(key)

    # --- keys that this process needs -------------------------------------------------------------

    def borrow(self, key: str) -> Entry:
        """Return the entry of a key that came from another process; Dask keeps its value."""
        entry = self._session.table.get(key)
        if entry is not None:
            return entry
        with interrupts.deferred(), self._session.lock:
            entry = self._session.table.get(key)
            if entry is None:
                entry = self._session.table.add(key, is_held_in_dask=True)
                entry.is_known_elsewhere = entry.is_borrowed = True
                self._session.send(Borrow(key))
                self.require_sync()
            return entry

    def hold(self, keys: Sequence[str]) -> tuple[ObjectRef[object], ...]:
        """Keep objects alive that a value of this process contains."""
        if not keys:
            return ()

        held = []
        for key in keys:
            with self._session.lock:
                self.borrow(key)
                held.append(ObjectRef._from_key(key, self._session))
        return tuple(held)

    def pin(self, carrier: str, keys: Iterable[str]) -> None:
        """Ask the scheduler to keep `keys` as long as it keeps `carrier`."""
        keys = list(keys)
        if keys:
            self._session.send(Pin(carrier, keys))
            self.require_sync()

    # --- messages that the scheduler has handled --------------------------------------------------

    def require_sync(self) -> None:
        """Let the next receiver wait until the scheduler has handled all messages sent so far."""
        self.count_message()
        self._sync_up_to = self._num_sent

    def count_message(self) -> None:
        """Count a message after it was queued, so that a later sync follows it."""
        with self._session.lock:
            self._num_sent += 1

    def when_synced(self, callback: Callable[[], None]) -> bool:
        """Call `callback` once the scheduler has handled all messages about references.

        Return False, without a call, if it has handled them already.
        """
        sent = self._num_sent
        if sent == self._num_handled:
            return False
        self._when_handled.append((sent, callback))
        self._session.send(Sync(sent))
        return True

    def wait_until_synced(self) -> None:
        """Wait until the scheduler knows the references that this process and its values keep.

        A process that gets a reference in another way then finds its object. When the cluster is gone,
        this does not wait. It does not wait in the event loop either, which writes the stream itself.
        """
        session, sent = self._session, self._num_sent
        if self._sync_up_to <= self._num_handled or session.is_in_event_loop():
            return
        session.send(Sync(sent))
        with self._news:
            self._news.wait_for(lambda: self._num_handled >= sent or session.closed)

    def end_waits(self) -> None:
        """End all waits for the scheduler, because the session is closed."""
        with self._news:
            self._news.notify_all()

    def on_synced(self, message: Synced) -> None:
        with self._news:
            self._num_handled = max(self._num_handled, message.token)
            self._news.notify_all()
        for _ in range(len(self._when_handled)):
            sent, callback = self._when_handled.popleft()
            if sent <= self._num_handled:
                callback()
            else:
                self._when_handled.append((sent, callback))

    # --- values that this process gives -----------------------------------------------------------

    def publish(self, entry: Entry) -> str:
        """Make sure that Dask knows an object, or will know it; return its key."""
        with self._session.lock:
            entry.is_known_elsewhere = True
            if entry.is_held_in_dask:
                return entry.key
        with interrupts.deferred():
            return self._publish(entry)

    def _publish(self, entry: Entry) -> str:
        with self._session.lock:
            if entry.is_held_in_dask:
                return entry.key
            if entry.origin is not None and entry.is_made_by_call:
                self._announce_origin(entry, entry.origin)
                if entry.parent is None:
                    return entry.key
            entry.is_held_in_dask = True
            if entry.parent is not None:
                pick = Pick(entry.key, call=entry.parent.key, index=entry.pick_index)
                self._session.send(pick)
            elif entry.state is PENDING:
                entry.is_promised = True
                self._session.send(Promise(entry.key))
            elif entry.state is FAILED:
                self._session.send(Promise(entry.key))
                self.fulfil(entry)
            else:
                self._give(entry, Adopt)
            self.count_message()
            return entry.key

    def _announce_origin(self, entry: Entry, origin: Call) -> None:
        """Announce to Dask the call of a lease that makes an object."""
        by_scheduler = self._session.by_scheduler
        by_scheduler.announce(origin)
        if origin.state is ENDED:
            by_scheduler.report_end(origin)
            entry.origin = None
        elif entry.parent is not None:  # others get it from the report of the call's end
            origin.holds = (*origin.holds, *self.hold([entry.key]))

    def load_in_dask(self, entry: Entry) -> str:
        """Return the key of a Dask task whose value is the object's; Dask knows it already.

        The task lingers until a graph with it has come (`_scheduler.objects`).
        """
        with self._session.lock:
            key = entry.key_in_dask
            if key is None or key not in self.lingering:
                source = self.publish(entry)
                key = entry.key_in_dask = f"load-{source.rpartition('-')[2]}"
                self._session.send(Load(key, source))
                self.require_sync()
                self.lingering.add(key)
        self.wait_until_synced()  # a graph may be sent by another client
        return key

    def unload(self, keys: Sequence[str]) -> None:
        """Report the release of tasks that linger."""
        late = self.lingering.intersection(keys)
        if late:
            self.lingering -= late
            self._session.send(Unload(list(late)))

    def fulfil(self, entry: Entry) -> None:
        """Report to Dask the value or error of an object that was published before it was ready."""
        with self._session.lock:
            if entry.error is not None:
                self._session.send(Fulfil(entry.key, None, error=entry.error))
            else:
                self._give(entry, Fulfil)

    def adopt(self, entry: Entry, wire: Wire, worker: str) -> None:
        """Ask Dask to store a value whose segment is on another host."""
        with self._session.lock:
            entry.is_known_elsewhere = entry.is_held_in_dask = True
            kind = Fulfil if entry.is_promised else Adopt
            entry.is_promised = False
            self._session.send(kind(entry.key, wire, worker))
            self.count_message()

    def give_again(self, key: str) -> None:
        """Give a node a value again, because the earlier node left. Called in the event loop.

        A value that this process does not have any more is lost for the processes that still need it.
        """
        with self._session.lock:
            entry = self._session.table.get(key)
            if entry is not None:
                self._session.table.own_again(entry)
            if entry is not None and self._session.home_left.is_set():
                self._to_give.append(key)
            elif entry is not None and entry.value is not None:
                self._give(entry, Fulfil)
            else:
                self._session.send(Fulfil(key, None, error=failures.object_lost(key)))

    def _give(self, entry: Entry, kind: type[Adopt | Fulfil]) -> None:
        """Give Dask a value of this process."""
        wire = self.give(entry)
        self._session.send(kind(entry.key, wire, self._session.home.address))

    def give(self, entry: Entry) -> Wire:
        """Return a value of this process in the form in which the home node stores it."""
        assert entry.value is not None
        wire = to_wire(entry.value)
        if isinstance(entry.value, SegmentLink) and not self._session.shares_home_memory:
            wire = ("inline", bytes(segment.read(entry.value.path)), entry.value.refs)
        elif entry.own_segment:
            self._session.table.disown(entry)
            self._session.on_hand_over(wire)
        return wire

    def share_segments(self) -> None:
        """Give the node the oldest segments when there are many, so that it can spill them."""
        table, home = self._session.table, self._session.home
        limit_bytes = home.place.limit_bytes // 16
        with self._session.lock:
            for entry in list(table.own.values())[:-1]:
                if table.own_bytes <= limit_bytes:
                    return
                if entry.is_promised or entry.key in self._to_give:
                    continue  # `fulfil` will give it
                if entry.origin is not None and entry.origin.state is not ENDED:
                    continue  # the report of the call's end will give it
                if entry.is_held_in_dask:  # a node has the value too
                    table.disown(entry)
                    link, entry.value = entry.value, None
                    if isinstance(link, SegmentLink):
                        home.place.remove(link.path)
                else:
                    self.publish(entry)
