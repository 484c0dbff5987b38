"""The caller's end of a remote generator: items in order, as they arrive."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from raycompat._caller.object_table import Entry
from raycompat._protocol.ids import return_key
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
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        """Enter the next item."""
        self.num_items += 1
        ref = ObjectRef._from_key(entry.key, self._session)
        with self._lock:
            while self._takers:
                taker = self._takers.popleft()
                if taker.set_running_or_notify_cancel():
                    taker.set_result(ref)
                    return
            self._ready.append(ref)

    def end(self, error: bytes | None, victim: str | None) -> None:
        """Enter the end; an error becomes the last item."""
        if error is not None:
            entry = self._session.table.add(return_key(self.key, self.num_items))
            self._session.table.fail(entry, error, victim)
            self.add(entry)
        with self._lock:
            self._ended = True
            takers, self._takers = self._takers, deque()
        for taker in takers:
            if taker.set_running_or_notify_cancel():
                taker.set_result(None)

    def next_future(self) -> Future[ObjectRef[Any] | None]:
        """Return a future of the next reference; None once there are no more."""
        future: Future[ObjectRef[Any] | None] = Future()
        with self._lock:
            if self._ready:
                future.set_result(self._ready.popleft())
            elif self._ended:
                future.set_result(None)
            else:
                self._takers.append(future)
        return future

    def next(self) -> ObjectRef[Any] | None:
        """Return the next reference, waiting for it; None once there are no more."""
        future = self.next_future()
        if future.done():
            return future.result()
        try:
            self._session.on_block()
            return future.result()
        finally:
            self._session.on_unblock()

    def has_next(self) -> bool:
        """Whether `next` would return at once."""
        return bool(self._ready) or self._ended

    def is_exhausted(self) -> bool:
        """Whether there is nothing more to take."""
        return self._ended and not self._ready
