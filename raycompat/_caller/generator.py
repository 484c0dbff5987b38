"""The caller's end of a remote generator: items in order, as they arrive."""

from __future__ import annotations

import operator
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from raycompat._caller.object_table import Entry
from raycompat._protocol import item_credit
from raycompat._protocol.ids import return_key
from raycompat._protocol.values import Wire
from raycompat.object_ref import ObjectRef

if TYPE_CHECKING:
    from raycompat._caller.session import Session


class Stream:
    """Filled by the session in its event loop, emptied by whoever iterates."""

    def __init__(self, session: Session, key: str, completed: ObjectRef[None]) -> None:
        self.key = key
        self.num_items = 0
        self.completed = completed
        completed._entry.is_asked_for = True  # an error is the last item, too
        self._session = session
        self._ready: deque[ObjectRef[Any]] = deque()
        self._takers: deque[Future[ObjectRef[Any] | None]] = deque()
        self._ended = False
        #: Whether somebody may still take items.
        self._is_wanted = True
        #: Bytes of items that were received since the generator was told so.
        self._received_bytes = 0
        #: Notified when there is something to take.
        self._news = threading.Condition()

    def receive(self, index: int, wire: Wire) -> bool:
        """Count an item that has come, and tell the generator in time; whether to enter the item.

        A generator that is tried again sends again what is here already.
        """
        self._received_bytes += item_credit.cost_of(wire)
        if self._received_bytes >= item_credit.REPORT_BYTES:
            self._received_bytes = 0
            self._session.give_credit(self.key, index + 1, self._is_wanted)
        return self._is_wanted and index >= self.num_items

    def note_dropped(self) -> None:
        """Note that nobody takes items any more. Called from ``__del__``: takes no lock."""
        if not self._ended:
            self._session.table.dropped.append(self)
            self._session.wake()

    def drop_handle(self) -> None:
        """Drop the items that nobody has taken, and those that come: the generator sends no more."""
        with self._news:
            self._is_wanted = False
            ready, self._ready = self._ready, deque()
        ready.clear()
        self._session.give_credit(self.key, 0, self._is_wanted)

    def add(self, entry: Entry) -> None:
        """Enter the next item."""
        self.num_items += 1
        ref = ObjectRef._from_key(entry.key, self._session)
        with self._news:
            if not self._is_wanted:
                return
            while self._takers:
                taker = self._takers.popleft()
                if taker.set_running_or_notify_cancel():
                    taker.set_result(ref)
                    return
            self._ready.append(ref)
            self._news.notify()

    def end(self, error: bytes | None, victim: str | None) -> None:
        """Enter the end; an error becomes the last item."""
        if error is not None and self._is_wanted:
            entry = self._session.table.add(return_key(self.key, self.num_items))
            self._session.table.fail(entry, error, victim)
            self.add(entry)
        with self._news:
            self._ended = True
            self._news.notify_all()
            takers, self._takers = self._takers, deque()
        for taker in takers:
            if taker.set_running_or_notify_cancel():
                taker.set_result(None)

    def next_future(self) -> Future[ObjectRef[Any] | None]:
        """Return a future of the next reference; None once there are no more."""
        future: Future[ObjectRef[Any] | None] = Future()
        with self._news:
            if self._ready:
                future.set_result(self._ready.popleft())
            elif self._ended:
                future.set_result(None)
            else:
                self._takers.append(future)
        return future

    def next(self) -> ObjectRef[Any]:
        """Return the next reference, waiting for it.

        An interrupt loses no item: it is taken and noted in one C call, and put back.

        Raises
        ------
        StopIteration
            When there are no more.
        """
        if not self.has_next():
            try:
                self._session.on_block()
                with self._news:
                    self._news.wait_for(self.has_next)
            finally:
                self._session.on_unblock()
        taken: list[ObjectRef[Any]] = []
        try:
            taken.extend(map(operator.call, (self._ready.popleft,)))
            return taken[0]
        except IndexError:
            if self.is_exhausted():
                raise StopIteration from None
            return self.next()  # another thread was quicker
        except BaseException:
            self._ready.extendleft(taken)
            raise

    def has_next(self) -> bool:
        """Whether `next` would return at once."""
        return bool(self._ready) or self._ended

    def is_exhausted(self) -> bool:
        """Whether there is nothing more to take."""
        return self._ended and not self._ready
