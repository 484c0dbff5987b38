"""What this process and Dask keep for each other: values that we give, objects that we want.

What we say of references travels by the stream to the scheduler, in order. Whoever gets a reference
from us by another road must not come before that: `Sharing.hand_over` waits until it was heard.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from raycompat._caller import interrupts
from raycompat._caller.calls import Call, CallState
from raycompat._caller.object_table import Entry, State
from raycompat._protocol import failures, segment
from raycompat._protocol.operations import ToScheduler
from raycompat._protocol.values import SegmentLink, Wire, to_wire

if TYPE_CHECKING:
    from raycompat._caller.session import Session
    from raycompat.object_ref import ObjectRef


class Sharing:
    """See the module. Part of the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: How much we have said of references, how much of it the scheduler is known to have heard,
        #: and what is to be called then.
        self._num_said = 0
        self._num_heard = 0
        self._last_hold = 0
        self._when_heard: deque[tuple[int, Callable[[], None]]] = deque()
        #: Notified when the scheduler has heard more, or can hear no more.
        self._news = threading.Condition()
        #: Keys of values for the node that will be our home, while there is none.
        self._to_give: list[str] = []

    def home_moved(self) -> None:
        """Give our new home what is waiting for one. Called in the event loop."""
        keys, self._to_give = self._to_give, []
        for key in keys:
            self.give_again(key)

    # --- what we want -----------------------------------------------------------------------------

    def borrow(self, key: str) -> Entry:
        """Return the entry of a key that somebody else made known to us; Dask keeps it for us."""
        entry = self._session.table.get(key)
        if entry is not None:
            return entry
        with interrupts.deferred(), self._session.table.lock:
            entry = self._session.table.get(key)
            if entry is None:
                entry = self._session.table.add(key, wanted=True)
                entry.escaped = True
                self._session.send(ToScheduler.BORROW, key=key)
                self.note_hold()
            return entry

    def hold(self, keys: Iterable[str]) -> tuple[ObjectRef[Any], ...]:
        """Keep objects alive that a value of ours contains."""
        from raycompat.object_ref import ObjectRef

        held = []
        for key in keys:
            with self._session.table.lock:
                self.borrow(key)
                held.append(ObjectRef._from_key(key, self._session))
        return tuple(held)

    def pin(self, carrier: str, keys: Iterable[str]) -> None:
        """Ask the scheduler to keep `keys` as long as it keeps `carrier`."""
        keys = list(keys)
        if keys:
            self._session.send(ToScheduler.PIN, carrier=carrier, keys=keys)
            self.note_hold()

    # --- what the scheduler has heard -------------------------------------------------------------

    def note_hold(self) -> None:
        """Note that the next receiver depends on what was said of references so far."""
        self.note_said()
        self._last_hold = self._num_said

    def note_said(self) -> None:
        """Count a message after it was queued: a sync that is asked for now comes behind it."""
        with self._session.table.lock:
            self._num_said += 1

    def when_synced(self, callback: Callable[[], None]) -> bool:
        """Call `callback` once the scheduler knows all that we have said of references.

        False, and nothing is called, when it does already.
        """
        said = self._num_said
        if said == self._num_heard:
            return False
        self._when_heard.append((said, callback))
        self._session.send(ToScheduler.SYNC, token=said)
        return True

    def hand_over(self) -> None:
        """Wait until the scheduler knows what we keep and what our values keep (`borrow`, `pin`).

        Whoever gets a reference from us by another road finds it there. When the cluster is gone,
        nothing is found, and nobody waits. Nor does the event loop, which writes the stream itself.
        """
        session, said = self._session, self._num_said
        if self._last_hold <= self._num_heard or session.is_in_event_loop():
            return
        session.send(ToScheduler.SYNC, token=said)
        with self._news:
            self._news.wait_for(lambda: self._num_heard >= said or session.closed)

    def wait_no_more(self) -> None:
        """End all waits for the scheduler to hear more: the session is closed."""
        with self._news:
            self._news.notify_all()

    def on_synced(self, token: int) -> None:
        with self._news:
            self._num_heard = max(self._num_heard, token)
            self._news.notify_all()
        for _ in range(len(self._when_heard)):
            said, callback = self._when_heard.popleft()
            if said <= self._num_heard:
                callback()
            else:
                self._when_heard.append((said, callback))

    # --- what we give -----------------------------------------------------------------------------

    def publish(self, entry: Entry) -> str:
        """Make sure that Dask knows (or is being told of) an object; return its key."""
        with self._session.table.lock:
            entry.escaped = True
            if entry.wanted:
                return entry.key
        with interrupts.deferred():
            return self._publish(entry)

    def _publish(self, entry: Entry) -> str:
        with self._session.table.lock:
            if entry.wanted:
                return entry.key
            if entry.origin is not None and entry.is_made_by_call:
                self._announce_origin(entry, entry.origin)
                if entry.parent is None:
                    return entry.key
            entry.wanted = True
            if entry.parent is not None:
                self._session.send(
                    ToScheduler.PICK,
                    key=entry.key,
                    call=entry.parent.key,
                    index=entry.pick_index,
                )
            elif entry.state is State.PENDING:
                entry.promised = True
                self._session.send(ToScheduler.PROMISE, key=entry.key)
            elif entry.state is State.FAILED:
                self._session.send(ToScheduler.PROMISE, key=entry.key)
                self.fulfil(entry)
            else:
                self._give(entry, ToScheduler.ADOPT)
            self.note_said()
            return entry.key

    def _announce_origin(self, entry: Entry, origin: Call) -> None:
        """Tell Dask of the call that a lease runs for an object, or has run."""
        by_scheduler = self._session.by_scheduler
        by_scheduler.announce(origin)
        if origin.state is CallState.ENDED:  # else it is told when it does
            by_scheduler.tell_made(origin)
            entry.origin = None

    def load_in_dask(self, entry: Entry) -> str:
        """Return the key of a Dask task whose value is the object's; Dask knows it by then."""
        with self._session.table.lock:
            if entry.key_in_dask is None:
                source = self.publish(entry)
                entry.key_in_dask = f"load-{source.rpartition('-')[2]}"
                self._session.send(ToScheduler.LOAD, key=entry.key_in_dask, source=source)
                self.note_hold()
            key = entry.key_in_dask
        self.hand_over()  # a graph may come by another client
        return key

    def fulfil(self, entry: Entry) -> None:
        """Tell Dask how an object has turned out that was published before it was made."""
        with self._session.table.lock:
            if entry.error is not None:
                message = {"wire": None, "worker": "", "error": entry.error}
                self._session.send(ToScheduler.FULFIL, key=entry.key, **message)
            else:
                self._give(entry, ToScheduler.FULFIL)

    def adopt(self, entry: Entry, wire: Wire, worker: str) -> None:
        """Ask Dask to keep a value whose segment a node of another host holds."""
        with self._session.table.lock:
            entry.escaped = entry.wanted = True
            operation = ToScheduler.FULFIL if entry.promised else ToScheduler.ADOPT
            entry.promised = False
            self._session.send(operation, key=entry.key, wire=wire, worker=worker)
            self.note_said()

    def give_again(self, key: str) -> None:
        """Give a node a value whose node left before it kept it. Called in the event loop."""
        with self._session.table.lock:
            entry = self._session.table.get(key)
            if entry is None:
                return  # nobody needs it any more, and the scheduler has been told
            self._session.table.take_back(entry)
            if self._session.home_left.is_set():
                self._to_give.append(key)
            elif entry.value is not None:
                self._give(entry, ToScheduler.FULFIL)
            else:
                message = {"wire": None, "worker": "", "error": failures.object_lost(key)}
                self._session.send(ToScheduler.FULFIL, key=key, **message)

    def _give(self, entry: Entry, operation: str) -> None:
        """Give Dask a value that is here."""
        wire = self.give(entry)
        self._session.send(operation, key=entry.key, wire=wire, worker=self._session.home.address)

    def give(self, entry: Entry) -> Wire:
        """Return a value that is here as our node is to keep it."""
        assert entry.value is not None
        wire = to_wire(entry.value)
        if isinstance(entry.value, SegmentLink) and not self._session.is_near:
            wire = ("inline", bytes(segment.read(entry.value.path)), entry.value.refs)
        elif entry.own_segment:
            self._session.table.disown(entry)
            self._session.on_hand_over(wire)
        return wire

    def share_segments(self) -> None:
        """Give the node our oldest segments when we have many: it can then spill them."""
        table, home = self._session.table, self._session.home
        limit_bytes = home.place.limit_bytes // 16
        with table.lock:
            for entry in list(table.own.values())[:-1]:
                if table.own_bytes <= limit_bytes:
                    return
                if entry.promised or entry.key in self._to_give:
                    continue  # it is about to be given
                if entry.wanted:  # a node has it too
                    table.disown(entry)
                    link, entry.value = entry.value, None
                    if isinstance(link, SegmentLink):
                        home.place.remove(link.path)
                else:
                    self.publish(entry)
