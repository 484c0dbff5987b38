"""The caller's end of a remote generator: items in order, as they arrive, and its handles."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import operator
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from raycompat._caller.object_ref import ObjectRef
from raycompat._caller.object_table import READY, Entry
from raycompat._protocol import item_credit
from raycompat._protocol.ids import return_key
from raycompat._protocol.values import Wire
from raycompat._surface.modules import lacks

if TYPE_CHECKING:
    from raycompat._caller.membership import Membership


class Stream:
    """The items of a generator: the thread that reads adds them, and any thread takes them.

    Parameters
    ----------
    is_limited : bool
        Whether the generator waits until its items are taken.
    """

    def __init__(
        self, session: Membership, key: str, completed: ObjectRef[None], *, is_limited: bool
    ) -> None:
        self.key = key
        self.num_items = 0
        self.completed = completed
        completed._entry.is_asked_for = True  # its error is also the last item
        self.session = session
        #: Where the program made the call, if this process records that.
        self.site: str | None = None
        self._ready: deque[ObjectRef[Any]] = deque()
        #: Whether its end has come.
        self._is_ending = False
        #: Whether the end can be taken.
        self._ended = False
        #: Whether the handle that takes items still exists.
        self._is_wanted = True
        self._is_limited = is_limited
        #: Counts the items that were taken; each number is given once, to one thread.
        self._takes = itertools.count(1)
        self._num_taken = 0
        #: Bytes of received items that were not yet acknowledged to the generator.
        self._received_bytes = 0
        #: Notified when there is an item to take, or the end.
        self._news = threading.Condition()
        #: Ready when there is an item to take, or the end; None while no code waits for it.
        self._awaited: Entry | None = None

    def receive(self, index: int, wire: Wire) -> bool:
        """Count an item that has arrived, and acknowledge it; return whether to add the item.

        A generator that is retried sends items again that arrived before.
        """
        self._received_bytes += item_credit.cost_of(wire)
        if self._is_limited:
            was_taken = index < self._num_taken  # from an earlier try
            if was_taken or not self._is_wanted:
                self.session.give_credit(self.key, index + 1, self._is_wanted)
        elif self._received_bytes >= item_credit.REPORT_BYTES:
            self._received_bytes = 0
            self.session.give_credit(self.key, index + 1, self._is_wanted)
        return self._is_wanted and index >= self.num_items

    def note_dropped(self) -> None:
        """Note that the handle is gone. Called from ``__del__``, so it takes no lock."""
        if not self._ended:
            self.session.table.dropped.append(self)
            self.session.wake()

    def drop_handle(self) -> None:
        """Drop all items, present and future, because the handle is gone.

        The generator runs to its end; its process keeps no more items.
        """
        with self._news:
            self._is_wanted = False
            ready, self._ready = self._ready, deque()
        ready.clear()
        self.session.give_credit(self.key, 0, self._is_wanted)

    def add(self, entry: Entry) -> None:
        """Add the next item."""
        self.num_items += 1
        if self.site is not None:
            entry.site = self.site
        ref = ObjectRef._from_key(entry.key, self.session)
        with self._news:
            if not self._is_wanted:
                return
            self._ready.append(ref)
            self._news.notify()
        self._settle_awaited()

    def end(self, error: bytes | None, victim: str | None) -> None:
        """Add the end; an error becomes the last item. Only the first end counts."""
        with self._news:
            if self._is_ending:
                return
            self._is_ending = True
        if error is not None and self._is_wanted:
            entry = self.session.table.add(return_key(self.key, self.num_items))
            self.session.table.fail(entry, error, victim)
            self.add(entry)
        with self._news:
            self._ended = True
            self._news.notify_all()
        self._settle_awaited()

    def next_entry(self) -> Entry:
        """Return an entry that is ready as soon as `has_next` is true."""
        with self._news:
            if self.has_next():
                return Entry(self.key, READY)
            if self._awaited is None:
                self._awaited = Entry(self.key)
            return self._awaited

    def _settle_awaited(self) -> None:
        with self._news:
            awaited, self._awaited = self._awaited, None
        if awaited is not None:
            self.session.table.settle(awaited)

    async def next_in_loop(self) -> ObjectRef[Any]:
        """Wait in a coroutine for the next reference and return it.

        A wait that is cancelled takes no item.

        Raises
        ------
        StopAsyncIteration
            After the last item.
        """
        while True:
            try:
                ref = self._ready.popleft()
            except IndexError:
                if self.is_exhausted():
                    raise StopAsyncIteration from None
            else:
                self._note_taken()
                return ref
            await self._wait_in_loop()

    async def _wait_in_loop(self) -> None:
        self.session.check_connection()
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        table, entry = self.session.table, self.next_entry()

        def notify(_: Entry) -> None:
            with contextlib.suppress(
                RuntimeError
            ):  # the loop is closed: no coroutine waits any more
                loop.call_soon_threadsafe(news.set)

        if not table.when_settled(entry, notify):
            return
        try:
            await news.wait()
        finally:
            table.forget_callback(entry, notify)

    def next(self) -> ObjectRef[Any]:
        """Wait for the next reference and return it.

        An interrupt loses no item: one C call takes the item and records it, and it is put back.

        Raises
        ------
        StopIteration
            After the last item.
        """
        if not self.has_next():
            self.session.check_connection()
            try:
                self.session.on_block()
                with self._news:
                    self._news.wait_for(self.has_next)
            finally:
                self.session.on_unblock()
        taken: list[ObjectRef[Any]] = []
        try:
            taken.extend(map(operator.call, (self._ready.popleft,)))
            self._note_taken()
            return taken[0]
        except IndexError:
            if self.is_exhausted():
                raise StopIteration from None
            return self.next()  # another thread was quicker
        except BaseException:
            self._ready.extendleft(taken)
            raise

    def _note_taken(self) -> None:
        """Let a generator that waits for this make another item."""
        if self._is_limited:
            number = next(self._takes)
            self._num_taken = max(self._num_taken, number)
            if not self._ended:
                self.session.give_credit(self.key, number, True)

    def has_next(self) -> bool:
        """Return whether `next` would return without waiting."""
        return bool(self._ready) or self._ended

    def is_exhausted(self) -> bool:
        """Return whether all items were taken and the generator has ended."""
        return self._ended and not self._ready


@lacks("ray.ObjectRefGenerator", "aclose", "asend", "athrow", "close", "send", "throw")
class ObjectRefGenerator(Iterator["ObjectRef[Any]"], AsyncIterator["ObjectRef[Any]"]):
    """Iterates over references to the items of a remote generator, each as soon as it is made.

    An error in the generator is the error of the last reference; after it the iteration ends.

    Examples
    --------
    >>> @ray.remote
    ... def count(end):
    ...     yield from range(end)
    >>> [ray.get(reference) for reference in count.remote(3)]
    [0, 1, 2]

    Notes
    -----
    Ray source: ``ray.ObjectRefGenerator``, 2.60.0. Differs from Ray: cannot be passed to other
    processes, as in Ray; `completed` is a reference to None that is ready when the generator ends.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        #: For `wait`, as references have them; `completed` has the key of the call.
        self._key, self._session = f"{stream.key}:next", stream.session

    @property
    def _entry(self) -> Entry:
        """An entry that is ready when the next reference is there, or the end."""
        return self._stream.next_entry()

    def __del__(self) -> None:
        stream = self.__dict__.get("_stream")
        if stream is not None:
            stream.note_dropped()

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> ObjectRef[Any]:
        return self._stream.next()

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    async def __anext__(self) -> ObjectRef[Any]:
        return await self._stream.next_in_loop()

    def completed(self) -> ObjectRef[None]:
        """Return a reference that becomes ready (None, or the error) when the generator has ended.

        Examples
        --------
        >>> generator = count.remote(3)
        >>> ray.get(generator.completed())
        >>> [ray.get(reference) for reference in generator]
        [0, 1, 2]
        """
        return self._stream.completed

    def next_ready(self) -> bool:
        """Return whether `next` would return without waiting.

        Examples
        --------
        >>> generator = count.remote(1)
        >>> _ = ray.wait([generator], timeout=10)
        >>> generator.next_ready()
        True
        """
        return self._stream.has_next()

    def _when_next(self, callback: Callable[[], None]) -> None:
        """Call a function once `next` would return without waiting: now, or in another thread."""
        table, entry = self._stream.session.table, self._stream.next_entry()
        if not table.when_settled(entry, lambda _: callback()):
            callback()

    def is_finished(self) -> bool:
        """Return whether all items were taken and the generator has ended.

        Examples
        --------
        >>> generator = count.remote(1)
        >>> items = list(generator)
        >>> generator.is_finished()
        True
        """
        return self._stream.is_exhausted()

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._stream.key})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "You cannot return or pass a generator of references to other tasks. Pass the references "
            "that it yields."
        )


class DynamicObjectRefGenerator:
    """The references to all items of a generator with ``num_returns="dynamic"``, once it has ended.

    If the generator raised, the last reference has the error.

    Examples
    --------
    >>> @ray.remote(num_returns="dynamic")
    ... def halves(text):
    ...     yield text[: len(text) // 2]
    ...     yield text[len(text) // 2 :]
    >>> generator = ray.get(halves.remote("abcd"))
    >>> [ray.get(reference) for reference in generator]
    ['ab', 'cd']

    Notes
    -----
    Ray source: ``ray.DynamicObjectRefGenerator``, 2.60.0. As in Ray it is the value of the one
    reference that such a call returns, and it can be passed on.
    """

    def __init__(self, refs: list[ObjectRef[Any]]) -> None:
        self._refs = deque(refs)

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        while self._refs:
            yield self._refs.popleft()

    def __len__(self) -> int:
        return len(self._refs)
