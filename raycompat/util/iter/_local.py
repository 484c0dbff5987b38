"""`LocalIterator`: an iterator in one process, and its operators."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import raycompat as ray
from raycompat.util.iter_metrics import MetricsContext, SharedMetrics

T = TypeVar("T")
U = TypeVar("U")

#: An operator: it makes an iterator of items from another.
_Step: TypeAlias = Callable[[Iterator[Any]], Iterable[Any]]

#: Seconds that a union waits for one of its iterators before it looks at the next.
_TURN_S = 0.001

#: The most items that a union takes in one turn from an iterator with the weight "*".
_MOST_PER_TURN = 100


class _NextValueNotReady(Exception):
    """An item that means "no item yet". Operators pass it on; `union` continues with the next one."""


class LocalIterator(Generic[T]):
    """An iterator over items, with operators that run in this process.

    It can be sent to tasks and actors until its first item is read. One process may read it.

    Parameters
    ----------
    base_iterator : callable
        Makes the items: called once, with the timeout, when the first item is read.
    shared_metrics : SharedMetrics
        The metrics of its functions.
    local_transforms : list of callable, optional
        Its operators: each makes an iterator from an iterator.
    timeout : float, optional
        Seconds after which `base_iterator` should give a ``_NextValueNotReady``; by default it waits.
    name : str, optional
        The name in its representation.

    Examples
    --------
    >>> import raycompat.util.iter
    >>> numbers = ray.util.iter.from_range(4, num_shards=2).gather_sync()
    >>> numbers.take(2)
    [0, 2]
    >>> first, second = numbers.duplicate(2)
    >>> sorted(first.union(second.for_each(lambda x: -x)))
    [-3, -1, 1, 3]
    >>> class Counted:
    ...     fetches = 0
    ...
    ...     def _on_fetch_start(self):
    ...         self.fetches += 1
    ...
    ...     def __call__(self, x):
    ...         return self.fetches
    >>> hasattr(Counted, ray.util.iter.LocalIterator.ON_FETCH_START_HOOK_NAME)
    True
    >>> numbers = ray.util.iter.from_range(2, num_shards=1).gather_sync()
    >>> numbers.for_each(Counted()).take(2)
    [1, 2]

    A function finds its metrics in the thread that runs it:

    >>> current = ray.util.iter.LocalIterator.thread_local
    >>> numbers = ray.util.iter.from_range(1, num_shards=1).gather_sync()
    >>> numbers.for_each(lambda x: hasattr(current, "metrics")).take(1)
    [True]

    Notes
    -----
    Ray source: ``ray.util.iter.LocalIterator``, 2.60.0, where it is deprecated. Differs from Ray:
    `get_metrics` works only while a function runs; a `union` of shards that are not ready waits, where
    Ray raises an IndexError; a function with a hook ends with its items, where Ray raises a
    RuntimeError.
    """

    #: A function with a method of this name has it called before each of its items is fetched.
    ON_FETCH_START_HOOK_NAME = "_on_fetch_start"

    #: The metrics of the function that runs in this thread.
    thread_local: ClassVar[threading.local] = threading.local()

    def __init__(
        self,
        base_iterator: Callable[..., Iterable[Any]],
        shared_metrics: SharedMetrics,
        local_transforms: Sequence[_Step] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        assert isinstance(shared_metrics, SharedMetrics), "shared_metrics must be a SharedMetrics"
        self.base_iterator = base_iterator
        self.shared_metrics = shared_metrics
        self.local_transforms = list(local_transforms or ())
        self.timeout = timeout
        self.name = name or "unknown"
        self.built_iterator: Iterator[Any] | None = None

    @staticmethod
    def get_metrics() -> MetricsContext:
        """Return the metrics of the iterator whose function is running.

        Raises
        ------
        ValueError
            Outside of a function of an iterator.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(3, num_shards=1).gather_sync()
        >>> def count(number):
        ...     ray.util.iter.LocalIterator.get_metrics().counters["numbers"] += 1
        ...     return number
        >>> list(numbers.for_each(count))
        [0, 1, 2]
        >>> numbers.shared_metrics.get().counters["numbers"]
        3
        """
        metrics: MetricsContext | None = getattr(LocalIterator.thread_local, "metrics", None)
        if metrics is None:
            raise ValueError(
                "Cannot access context outside an iterator: call get_metrics in a function that "
                "for_each, filter or combine runs."
            )
        return metrics

    def __iter__(self) -> Iterator[T]:
        if self.built_iterator is None:
            items = iter(self.base_iterator(self.timeout))
            for step in self.local_transforms:
                items = iter(step(items))
            self.built_iterator = items
        return self.built_iterator

    def __next__(self) -> T:
        return next(iter(self))

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    def _then(self, step: _Step, name: str) -> LocalIterator[Any]:
        steps = [*self.local_transforms, step]
        return LocalIterator(
            self.base_iterator, self.shared_metrics, steps, name=f"{self.name}{name}"
        )

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> LocalIterator[U]:
        """Return the iterator that `fn` makes from this one.

        The function should pass ``_NextValueNotReady`` items on.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(4, num_shards=1).gather_sync()
        >>> def pairs(items):
        ...     for item in items:
        ...         yield item, next(items)
        >>> list(numbers.transform(pairs))
        [(0, 1), (2, 3)]
        """
        return self._then(fn, ".transform()")

    def for_each(
        self,
        fn: Callable[[T], U],
        max_concurrency: int = 1,
        resources: Mapping[str, Any] | None = None,
    ) -> LocalIterator[U]:
        """Apply a function to each item.

        Parameters
        ----------
        fn : callable
            From an item to an item. While it returns a ``_NextValueNotReady``, it is called again.
        max_concurrency : int, default 1
            With 1, it runs in this process. Otherwise it runs in tasks, at most this number at a time
            (0 is without limit), and items come in the order in which the tasks end.
        resources : dict, optional
            Options of those tasks, for example ``{"num_cpus": 0.5}``.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(4, num_shards=1).gather_sync()
        >>> numbers.for_each(lambda number: number * 2).take(4)
        [0, 2, 4, 6]
        """
        step: _Step
        if max_concurrency == 1:
            step = partial(_mapped, fn, self.shared_metrics)
        else:
            step = partial(_mapped_by_tasks, fn, max_concurrency, dict(resources or {}))
        if hasattr(fn, self.ON_FETCH_START_HOOK_NAME):
            step = partial(_announced, fn, self.shared_metrics, step)
        return self._then(step, ".for_each()")

    def filter(self, fn: Callable[[T], bool]) -> LocalIterator[T]:
        """Keep the items for which `fn` returns true.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(5, num_shards=1).gather_sync()
        >>> numbers.filter(lambda number: number % 2).take(2)
        [1, 3]
        """
        return self._then(partial(_filtered, fn, self.shared_metrics), ".filter()")

    def batch(self, n: int) -> LocalIterator[list[T]]:
        """Make lists of `n` items; the last may be shorter.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(5, num_shards=1).gather_sync()
        >>> list(numbers.batch(2))
        [[0, 1], [2, 3], [4]]
        """
        return self._then(partial(_batched, n), f".batch({n})")

    def flatten(self) -> LocalIterator[Any]:
        """Iterate over the items of the items, as `batch` makes them.

        Examples
        --------
        >>> lists = ray.util.iter.from_items([[1, 2], [3]], num_shards=1).gather_sync()
        >>> list(lists.flatten())
        [1, 2, 3]
        """
        return self._then(_flattened, ".flatten()")

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator[T]:
        """Change the order of the items at random.

        Parameters
        ----------
        shuffle_buffer_size : int
            How many items are kept, of which a random one is the next. Only a number that is not less
            than that of all items makes every order equally probable.
        seed : int, optional
            Of the random numbers.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(8, num_shards=1).gather_sync()
        >>> sorted(numbers.shuffle(shuffle_buffer_size=4, seed=0))
        [0, 1, 2, 3, 4, 5, 6, 7]
        """
        name = f".shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})"
        return self._then(partial(_shuffled, shuffle_buffer_size, random.Random(seed)), name)

    def combine(self, fn: Callable[[T], Iterable[U]]) -> LocalIterator[U]:
        """Apply `fn`, which makes several items of one.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(3, num_shards=1).gather_sync()
        >>> list(numbers.combine(lambda number: [number] * number))
        [1, 2, 2]
        """
        made = self.for_each(fn).flatten()
        made.name = f"{self.name}.combine()"
        return made

    def zip_with_source_actor(self) -> LocalIterator[tuple[Any, T]]:
        """Make pairs of an item and the actor that made it, the actor first.

        Raises
        ------
        ValueError
            When an item is read, if the iterator does not come from `ParallelIterator.gather_async`.

        Examples
        --------
        >>> numbers = ray.util.iter.from_range(2, num_shards=1).gather_async()
        >>> [number for actor, number in numbers.zip_with_source_actor()]
        [0, 1]
        """
        made = self.for_each(_with_source_actor)
        made.name = f"{self.name}.zip_with_source_actor()"
        return made

    def take(self, n: int) -> list[T]:
        """Return the next `n` items, or all if there are fewer."""
        found = []
        for item in self:
            found.append(item)
            if len(found) >= n:
                break
        return found

    def show(self, n: int = 20) -> None:
        """Print the next `n` items.

        Examples
        --------
        >>> ray.util.iter.from_range(4, num_shards=1).gather_sync().show(2)
        0
        1
        """
        for item in self.take(n):
            print(item)

    def duplicate(self, n: int) -> list[LocalIterator[T]]:
        """Return `n` iterators, each with all items of this one.

        An iterator that is ahead of another gives ``_NextValueNotReady`` items until the other has
        followed, so that few items are kept: read them by `union`.

        Raises
        ------
        ValueError
            When `n` is less than 2.
        """
        if n < 2:
            raise ValueError(f"Number of copies must be >= 2; it is {n!r}.")
        queues: list[deque[T]] = [deque() for _ in range(n)]
        return [
            LocalIterator(
                partial(_copied, self, queues, index),
                self.shared_metrics,
                name=f"{self.name}.duplicate[{index}]",
            )
            for index in range(n)
        ]

    def union(
        self,
        *others: LocalIterator[T],
        deterministic: bool = False,
        round_robin_weights: Sequence[float | str] | None = None,
    ) -> LocalIterator[T]:
        """Return one iterator over the items of this and others.

        Parameters
        ----------
        *others : LocalIterator
            The others.
        deterministic : bool, default False
            Take one item of each in turn. By default, items come when they are ready.
        round_robin_weights : list of float or "*", optional
            How many items to take of each in one turn, this iterator first: 2.5 is 2 or 3, at random.
            ``"*"`` is as many as are ready, and at most 100. It replaces `deterministic`.

        Raises
        ------
        ValueError
            When another is not a LocalIterator, or the number of weights is not theirs.
        """
        for other in others:
            if not isinstance(other, LocalIterator):
                raise ValueError(f"other must be of type LocalIterator, got {type(other)}")
        parents = [self, *others]
        weights = list(round_robin_weights or [1] * len(parents))
        if len(weights) != len(parents):
            raise ValueError(
                f"There are {len(weights)} round robin weights for {len(parents)} iterators. Give one "
                "for each, and first that of the iterator whose method this is."
            )
        waits = (
            [w != "*" for w in weights] if round_robin_weights else [deterministic] * len(parents)
        )
        shared = SharedMetrics(parents=[parent.shared_metrics for parent in parents])
        joined: list[LocalIterator[Any]] = [
            LocalIterator(
                parent.base_iterator,
                shared,
                parent.local_transforms,
                timeout=None if does_wait else _TURN_S,
            )
            for parent, does_wait in zip(parents, waits, strict=True)
        ]
        name = f"LocalUnion[{self}, {', '.join(map(str, others))}]"
        return LocalIterator(partial(_in_turns, joined, weights), shared, name=name)


# --- operators: what they need, the items, and the items that they make ---------------------------


@contextmanager
def _in_context(shared: SharedMetrics) -> Iterator[None]:
    """Let `LocalIterator.get_metrics` return these metrics."""
    here = LocalIterator.thread_local
    before, here.metrics = getattr(here, "metrics", None), shared.get()
    try:
        yield
    finally:
        here.metrics = before


def _mapped(fn: Callable[[Any], Any], shared: SharedMetrics, items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        made = item
        while not isinstance(item, _NextValueNotReady):
            with _in_context(shared):
                made = fn(item)
            if not isinstance(made, _NextValueNotReady):
                break
            yield made
        yield made


def _mapped_by_tasks(
    fn: Callable[[Any], Any], most: int, options: dict[str, Any], items: Iterator[Any]
) -> Iterator[Any]:
    task = ray.remote(fn).options(**options)
    running: list[Any] = []
    for item in items:
        if isinstance(item, _NextValueNotReady):
            yield item
            continue
        if most and len(running) >= most:
            ready, running = ray.wait(running)
            yield from ray.get(ready)
        running.append(task.remote(item))
    while running:
        ready, running = ray.wait(running)
        yield from ray.get(ready)


def _announced(
    fn: Callable[[Any], Any], shared: SharedMetrics, step: _Step, items: Iterator[Any]
) -> Iterator[Any]:
    """Call the hook of `fn` before each item is fetched, once for each."""
    hook = getattr(fn, LocalIterator.ON_FETCH_START_HOOK_NAME)
    made = iter(step(items))
    while True:
        with _in_context(shared):
            hook()
        item: Any = _NextValueNotReady()
        while isinstance(item, _NextValueNotReady):
            try:
                item = next(made)
            except StopIteration:
                return
            yield item


def _filtered(
    fn: Callable[[Any], bool], shared: SharedMetrics, items: Iterator[Any]
) -> Iterator[Any]:
    for item in items:
        if isinstance(item, _NextValueNotReady):
            yield item
            continue
        with _in_context(shared):
            is_kept = fn(item)
        if is_kept:
            yield item


def _batched(n: int, items: Iterator[Any]) -> Iterator[Any]:
    batch: list[Any] = []
    for item in items:
        if isinstance(item, _NextValueNotReady):
            yield item
            continue
        batch.append(item)
        if len(batch) >= n:
            yield batch
            batch = []
    if batch:
        yield batch


def _flattened(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, _NextValueNotReady):
            yield item
        else:
            yield from item


def _shuffled(size: int, randoms: random.Random, items: Iterator[Any]) -> Iterator[Any]:
    kept: list[Any] = []
    for item in items:
        if isinstance(item, _NextValueNotReady):
            yield item
            continue
        kept.append(item)
        if len(kept) >= size:
            yield kept.pop(randoms.randrange(len(kept)))
    while kept:
        yield kept.pop(randoms.randrange(len(kept)))


def _with_source_actor(item: Any) -> tuple[Any, Any]:
    actor = LocalIterator.get_metrics().current_actor
    if actor is None:
        raise ValueError(
            f"Could not identify source actor of item {item!r}: only iterators of gather_async know it."
        )
    return actor, item


def _copied(
    source: LocalIterator[Any], queues: list[deque[Any]], index: int, timeout: float | None
) -> Iterator[Any]:
    mine = queues[index]
    while True:
        if len(mine) < max(map(len, queues)):  # another is behind
            yield _NextValueNotReady()
            continue
        if not mine:
            source.timeout = timeout
            try:
                item = next(source)
            except StopIteration:
                return
            for queue in queues:  # also that none is ready: so that all copies keep their turns
                queue.append(item)
        yield mine.popleft()


def _in_turns(
    joined: list[LocalIterator[Any]], weights: list[float | str], timeout: float | None
) -> Iterator[Any]:
    active = list(zip(joined, weights, strict=True))
    while active:
        for pair in active[:]:
            source, weight = pair
            for _ in range(_num_in_turn(weight)):
                try:
                    item = next(source)
                except StopIteration:
                    active.remove(pair)
                    break
                if not isinstance(item, _NextValueNotReady):
                    yield item
                    continue
                if timeout is not None:
                    yield item
                break


def _num_in_turn(weight: float | str) -> int:
    """Return a number whose mean is the weight."""
    if isinstance(weight, str):
        return _MOST_PER_TURN
    whole = int(weight)
    return whole + (random.random() < weight - whole)
