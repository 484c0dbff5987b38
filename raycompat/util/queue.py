"""`Queue`: a first-in, first-out queue that tasks, actors and drivers share."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from raycompat import _api, actor
from raycompat.object_ref import ObjectRef
from raycompat.util._internal_actors import internal_actor

T = TypeVar("T")

__all__ = ["Empty", "Full", "Queue"]


class Empty(queue.Empty):
    """A queue has no item, or fewer than requested.

    Examples
    --------
    >>> from raycompat.util.queue import Empty, Queue
    >>> queue = Queue()
    >>> try:
    ...     queue.get(block=False)
    ... except Empty:
    ...     print("nothing to do")
    nothing to do
    >>> queue.shutdown()
    """


class Full(queue.Full):
    """A queue has no room for the item.

    Examples
    --------
    >>> from raycompat.util.queue import Full, Queue
    >>> queue = Queue(maxsize=1)
    >>> queue.put("first")
    >>> try:
    ...     queue.put("second", timeout=0.1)
    ... except Full:
    ...     print("the queue is still full")
    the queue is still full
    >>> queue.shutdown()
    """


class Queue(Generic[T]):
    """A queue of items, first in, first out, in a separate actor.

    A queue can be passed to tasks and actors in any way; it stays the same queue. It lives until
    `shutdown`, or until no process refers to it any more.

    Parameters
    ----------
    maxsize : int, default 0
        Maximum number of items; 0 or less means no limit.
    actor_options : dict, optional
        Options for the queue's actor, as in ``.options`` of an actor class: for example,
        ``{"num_cpus": 1}``, or a ``max_concurrency`` above the default of 1,000 waiting callers.

    Raises
    ------
    ValueError
        When an option is unknown or its value not valid.

    Examples
    --------
    >>> from raycompat.util.queue import Queue
    >>> queue = Queue(maxsize=10)
    >>> queue.put("first")
    >>> queue.put_nowait_batch(["second", "third"])
    >>> queue.get(), queue.get(timeout=5), len(queue)
    ('first', 'second', 1)
    >>> ray.get(queue.actor.qsize.remote())
    1
    >>> queue.shutdown()

    Notes
    -----
    Ray source: ``ray.util.queue.Queue``, 2.60.0. No known difference. As in Ray, a reference that is
    put itself, not within a list, arrives as its value. A caller that stops waiting in `get_async`, or
    dies in `get`, still takes the next item, which is lost: use `timeout`.

    All methods but `shutdown` raise `ActorDiedError` when the queue's actor has died, and
    AttributeError after `shutdown`.
    """

    def __init__(self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        #: The handle of the queue's actor; None after `shutdown`.
        self.actor: Any
        self.actor = _queue_actors.options(**(actor_options or {})).remote(maxsize)

    def _actor(self) -> Any:
        if self.actor is None:
            raise AttributeError(
                "This queue has no actor: it was shut down here. Make a new one with Queue()."
            )
        return self.actor

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Return the number of items in the queue.

        Examples
        --------
        >>> from raycompat.util.queue import Queue
        >>> queue = Queue(maxsize=3)
        >>> queue.size()
        0
        """
        size: int = _api.get(self._actor().qsize.remote())
        return size

    def qsize(self) -> int:
        """Return the number of items in the queue, as `size` does.

        Examples
        --------
        >>> queue.qsize()
        0
        """
        return self.size()

    def empty(self) -> bool:
        """Return whether the queue has no items.

        Examples
        --------
        >>> queue.empty()
        True
        """
        empty: bool = _api.get(self._actor().empty.remote())
        return empty

    def full(self) -> bool:
        """Return whether the queue has no room; always False without a `maxsize`.

        Examples
        --------
        >>> queue.full()
        False
        """
        full: bool = _api.get(self._actor().full.remote())
        return full

    def put(self, item: T | ObjectRef[T], block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end; if the queue is full, wait for room.

        Parameters
        ----------
        item : object
            Any value that can be pickled, or the reference to it.
        block : bool, default True
            False: raise at once if the queue is full; `timeout` is ignored.
        timeout : float, optional
            Maximum seconds to wait, more than 0: 0 always raises `Full`, as in Ray. By default, wait
            without limit.

        Examples
        --------
        >>> queue.put("first", timeout=10)
        >>> queue.size()
        1

        Raises
        ------
        Full
            When the queue is full, or stays full for `timeout`.
        ValueError
            When the timeout is negative.
        """
        call = self._start_put(item, block, timeout)
        try:
            _api.get(call)
        except asyncio.QueueFull as error:
            raise self._full() from error

    async def put_async(
        self, item: T | ObjectRef[T], block: bool = True, timeout: float | None = None
    ) -> None:
        """Add an item at the end without blocking the event loop. Parameters as in `put`.

        Examples
        --------
        >>> import asyncio
        >>> asyncio.run(queue.put_async("second"))
        >>> queue.size()
        2
        """
        call = self._start_put(item, block, timeout)
        try:
            await call
        except asyncio.QueueFull as error:
            raise self._full() from error

    def _start_put(self, item: Any, block: bool, timeout: float | None) -> ObjectRef[None]:
        call: ObjectRef[None]
        if block:
            _check_timeout(timeout)
            call = self._actor().put.remote(item, timeout)
        else:
            call = self._actor().put_nowait.remote(item)
        return call

    def _full(self) -> Full:
        return Full(f"The queue has its maxsize of {self.maxsize} items: get some, or wait.")

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove the first item and return it; if the queue is empty, wait for an item.

        Parameters
        ----------
        block : bool, default True
            False: raise at once if the queue is empty; `timeout` is ignored.
        timeout : float, optional
            Maximum seconds to wait, more than 0: 0 always raises `Empty`, as in Ray. By default, wait
            without limit.

        Examples
        --------
        >>> queue.get(timeout=10)
        'first'

        Raises
        ------
        Empty
            When the queue is empty, or stays empty for `timeout`.
        ValueError
            When the timeout is negative.
        """
        call = self._start_get(block, timeout)
        try:
            item: T = _api.get(call)
        except asyncio.QueueEmpty as error:
            raise _empty() from error
        return item

    async def get_async(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove the first item and return it without blocking the event loop. Parameters as in `get`.

        Examples
        --------
        >>> asyncio.run(queue.get_async())
        'second'
        """
        call = self._start_get(block, timeout)
        try:
            return await call
        except asyncio.QueueEmpty as error:
            raise _empty() from error

    def _start_get(self, block: bool, timeout: float | None) -> ObjectRef[T]:
        call: ObjectRef[T]
        if block:
            _check_timeout(timeout)
            call = self._actor().get.remote(timeout)
        else:
            call = self._actor().get_nowait.remote()
        return call

    def put_nowait(self, item: T | ObjectRef[T]) -> None:
        """Add `item` at the end if there is room, as ``put(item, block=False)`` does.

        Examples
        --------
        >>> queue.put_nowait(1)
        >>> queue.size()
        1
        """
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> None:
        """Add all the items at the end, in order, or none of them.

        Parameters
        ----------
        items : iterable
            A reference among them stays a reference.

        Examples
        --------
        >>> queue.put_nowait_batch([2, 3])
        >>> queue.full()
        True

        Raises
        ------
        Full
            When the queue lacks room for all of them.
        TypeError
            When `items` is not iterable.

        Notes
        -----
        Ray source: ``Queue.put_nowait_batch``, 2.60.0. Differs from Ray: iterators and generators are
        accepted too.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"Argument 'items' must be an Iterable, such as a list, not {items!r}.")
        _api.get(self._actor().put_nowait_batch.remote(list(items)))

    def get_nowait(self) -> T:
        """Remove the first item and return it if there is one, as ``get(block=False)`` does.

        Examples
        --------
        >>> queue.get_nowait()
        1
        """
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[T]:
        """Remove the first items and return them in order, or remove none.

        Parameters
        ----------
        num_items : int
            0 or more.

        Examples
        --------
        >>> queue.get_nowait_batch(2)
        [2, 3]

        Raises
        ------
        Empty
            When the queue has fewer items.
        TypeError, ValueError
            When `num_items` is not as above.
        """
        if not isinstance(num_items, int):
            raise TypeError(f"Argument 'num_items' must be an int, not {num_items!r}.")
        if num_items < 0:
            raise ValueError(f"'num_items' must be nonnegative, not {num_items!r}.")
        items: list[T] = _api.get(self._actor().get_nowait_batch.remote(num_items))
        return items

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue's actor; the items in the queue are lost. A second call has no effect.

        Parameters
        ----------
        force : bool, default False
            Kill the actor at once.
        grace_period_s : float, default 5
            Without `force`, the actor is asked to end, and killed if it still runs after these seconds;
            0 or more.

        Examples
        --------
        >>> queue.shutdown()

        Notes
        -----
        Ray source: ``Queue.shutdown``, 2.60.0. Other copies of this queue raise `ActorDiedError`
        afterwards. Differs from Ray: waiting `put` and `get` raise it too; in Ray they can wait without
        limit if `force` is False.
        """
        if self.actor is None:
            return
        if force or not self._has_ended_within(grace_period_s):
            actor.kill(self.actor, no_restart=True)
        self.actor = None

    def _has_ended_within(self, grace_period_s: float) -> bool:
        ended = self._actor().__ray_terminate__.remote()
        return bool(_api.wait([ended], timeout=grace_period_s)[0])


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError(
            f"'timeout' must be a non-negative number of seconds, or None, not {timeout!r}."
        )


def _empty() -> Empty:
    return Empty("The queue has no items: put one, or wait.")


class _QueueActor:
    """The actor of a queue, in one event loop: only `put` and `get` ever wait."""

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        return self._items.qsize()

    async def empty(self) -> bool:
        return self._items.empty()

    async def full(self) -> bool:
        return self._items.full()

    async def put(self, item: Any, timeout: float | None = None) -> None:
        # Not asyncio.timeout, which lets a put with a timeout of 0 succeed.
        try:
            await asyncio.wait_for(self._items.put(item), timeout)
        except TimeoutError as error:
            raise Full(
                f"The queue had its maxsize of {self._maxsize} items for {timeout} s."
            ) from error

    async def get(self, timeout: float | None = None) -> Any:
        try:
            return await asyncio.wait_for(self._items.get(), timeout)
        except TimeoutError as error:
            raise Empty(f"The queue had no items for {timeout} s.") from error

    async def put_nowait(self, item: Any) -> None:
        self._items.put_nowait(item)

    async def get_nowait(self) -> Any:
        return self._items.get_nowait()

    async def put_nowait_batch(self, items: list[Any]) -> None:
        size = self._items.qsize()
        if self._maxsize > 0 and size + len(items) > self._maxsize:
            raise Full(
                f"Cannot add {len(items)} items to a queue of size {size} and maxsize "
                f"{self._maxsize}. Put fewer at once, or get some first."
            )
        for item in items:
            self._items.put_nowait(item)

    async def get_nowait_batch(self, num_items: int) -> list[Any]:
        size = self._items.qsize()
        if num_items > size:
            raise Empty(f"Cannot get {num_items} items from a queue of size {size}.")
        return [self._items.get_nowait() for _ in range(num_items)]


#: One for all queues: the class is exported to a cluster once.
_queue_actors = internal_actor(_QueueActor)
