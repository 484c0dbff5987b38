"""`ParallelIterator`: items in shards, which actors make; and the functions that make one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, Generic, TypeAlias, TypeVar

import raycompat as ray
from raycompat.object_ref import ObjectRef
from raycompat.util._internal_actors import internal_actor
from raycompat.util.iter._local import LocalIterator, _NextValueNotReady
from raycompat.util.iter._worker import ParallelIteratorWorker
from raycompat.util.iter_metrics import SharedMetrics

T = TypeVar("T")
U = TypeVar("U")

#: A handle of a `ParallelIteratorWorker`, or of an actor whose class derives from it.
_Actor: TypeAlias = Any
_Transform: TypeAlias = Callable[[LocalIterator[Any]], LocalIterator[Any]]


def from_items(items: list[T], num_shards: int = 2, repeat: bool = False) -> ParallelIterator[T]:
    """Return an iterator over a list, whose items go to the shards in turn.

    Parameters
    ----------
    items : list
        The items.
    num_shards : int, default 2
        How many actors iterate.
    repeat : bool, default False
        Whether to begin again after the last item, without end.

    Notes
    -----
    Ray source: ``ray.util.iter.from_items``, 2.60.0.

    Examples
    --------
    >>> import raycompat as ray
    >>> from raycompat.util.iter import from_items
    >>> squares = from_items([1, 2, 3, 4]).for_each(lambda x: x * x)
    >>> sorted(squares.gather_async())
    [1, 4, 9, 16]
    """
    kind = type(items[0]).__name__ if items else "None"
    name = f"from_items[{kind}, {len(items)}, shards={num_shards}{_repeated(repeat)}]"
    return from_iterators([items[i::num_shards] for i in range(num_shards)], repeat, name)


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator[int]:
    """Return an iterator over 0 to ``n - 1``: each shard has a part of it, the last the longest.

    Parameters
    ----------
    n : int
        How many numbers.
    num_shards : int, default 2
        How many actors iterate.
    repeat : bool, default False
        Whether to begin again after the last number, without end.

    Examples
    --------
    >>> from raycompat.util.iter import from_range
    >>> from_range(4, num_shards=2).take(4)
    [0, 2, 1, 3]
    """
    size = n // num_shards
    ends = [*(size * i for i in range(1, num_shards)), n]
    parts = [range(size * i, end) for i, end in enumerate(ends)]
    name = f"from_range[{n}, shards={num_shards}{_repeated(repeat)}]"
    return from_iterators(parts, repeat, name)


def from_iterators(
    generators: Sequence[Iterable[T] | Callable[[], Iterable[T]]],
    repeat: bool = False,
    name: str | None = None,
) -> ParallelIterator[T]:
    """Return an iterator with one shard for each iterable.

    Parameters
    ----------
    generators : list of iterable or callable
        The values of each shard, or functions that return it. A generator cannot be sent to an
        actor; a function that returns one can.
    repeat : bool, default False
        Whether to begin again after the last item, without end.
    name : str, optional
        The name in the representation.

    Examples
    --------
    >>> it = ray.util.iter.from_iterators([range(2), lambda: iter([10, 11])])
    >>> sorted(it.gather_sync())
    [0, 1, 10, 11]
    """
    # Without CPUs: a consumer that waits for the items may hold all.
    worker: Any = internal_actor(ParallelIteratorWorker, num_cpus=0)
    name = name or f"from_iterators[shards={len(generators)}{_repeated(repeat)}]"
    return from_actors([worker.remote(each, repeat) for each in generators], name)


def from_actors(actors: Sequence[_Actor], name: str | None = None) -> ParallelIterator[Any]:
    """Return an iterator with one shard for each actor.

    Parameters
    ----------
    actors : list of ActorHandle
        Actors whose classes derive from `ParallelIteratorWorker`.
    name : str, optional
        The name in the representation.

    Examples
    --------
    >>> class Letters(ray.util.iter.ParallelIteratorWorker):
    ...     def __init__(self, text):
    ...         super().__init__(text, repeat=False)
    >>> actors = [ray.remote(Letters).remote(text) for text in ("ab", "cd")]
    >>> list(ray.util.iter.from_actors(actors).gather_sync())
    ['a', 'c', 'b', 'd']
    """
    name = name or f"from_actors[shards={len(actors)}]"
    return ParallelIterator([_ActorSet(list(actors))], name, [])


def _repeated(repeat: bool) -> str:
    return ", repeat=True" if repeat else ""


@dataclass(frozen=True)
class _ActorSet:
    """Actors, and the operators that each of them applies."""

    actors: list[_Actor]
    transforms: tuple[_Transform, ...] = ()


class ParallelIterator(Generic[T]):
    """An iterator over items in shards. An actor makes the items of each shard.

    Its operators return new iterators, and run in the actors. It can be sent to tasks and actors; one
    process may read each shard.

    Parameters
    ----------
    actor_sets : list
        Its shards. Use `from_items`, `from_range`, `from_iterators` or `from_actors` instead.
    name : str
        The name in the representation.
    parent_iterators : list of ParallelIterator
        Iterators whose actors this one reads.

    Examples
    --------
    >>> from raycompat.util.iter import from_items
    >>> numbers = from_items([1, 2, 3, 4], num_shards=2)
    >>> sorted(numbers.gather_sync())
    [1, 2, 3, 4]

    Notes
    -----
    Ray source: ``ray.util.iter.ParallelIterator``, 2.60.0, where it is deprecated. No known difference.
    """

    def __init__(
        self,
        actor_sets: Sequence[_ActorSet],
        name: str,
        parent_iterators: Sequence[ParallelIterator[Any]],
    ) -> None:
        self.actor_sets = list(actor_sets)
        self.name = name
        self.parent_iterators = list(parent_iterators)

    def __iter__(self) -> Iterator[T]:
        raise TypeError(
            "A ParallelIterator is not iterable itself. Use `for item in it.gather_sync(): ...`; "
            "it.gather_async() gives the items as they become ready."
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    def _then(self, transform: _Transform, name: str) -> ParallelIterator[Any]:
        changed = [
            _ActorSet(each.actors, (*each.transforms, transform)) for each in self.actor_sets
        ]
        return self._made(changed, f"{self.name}{name}", self.parent_iterators)

    def _made(
        self, actor_sets: Sequence[_ActorSet], name: str, parents: Sequence[ParallelIterator[Any]]
    ) -> ParallelIterator[Any]:
        """Make an iterator that an operator returns."""
        return ParallelIterator(actor_sets, name, parents)

    # --- operators that run in the actors -------------------------------------------------------

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> ParallelIterator[U]:
        """Return the iterator that `fn` makes from that of each shard.

        The function is called once for each shard.

        Examples
        --------
        >>> def sums(items):
        ...     yield sum(items)
        >>> six = ray.util.iter.from_range(6, num_shards=2)
        >>> list(six.transform(sums).gather_sync())
        [3, 12]
        """
        return self._then(methodcaller("transform", fn), ".transform()")

    def for_each(
        self,
        fn: Callable[[T], U],
        max_concurrency: int = 1,
        resources: Mapping[str, Any] | None = None,
    ) -> ParallelIterator[U]:
        """Apply a function to each item.

        Parameters
        ----------
        fn : callable
            From an item to an item.
        max_concurrency : int, default 1
            With 1, it runs in the shard's actor. Otherwise it runs in tasks of each shard, at most this
            number at a time (0 is without limit), and items come in the order in which the tasks end.
        resources : dict, optional
            Options of those tasks, for example ``{"num_cpus": 0.5}``.

        Examples
        --------
        >>> sorted(numbers.for_each(lambda number: 10 * number).gather_sync())
        [10, 20, 30, 40]
        """
        assert max_concurrency >= 0, "max_concurrency must be non-negative."
        return self._then(methodcaller("for_each", fn, max_concurrency, resources), ".for_each()")

    def filter(self, fn: Callable[[T], bool]) -> ParallelIterator[T]:
        """Keep the items for which `fn` returns true.

        Examples
        --------
        >>> sorted(numbers.filter(lambda number: number > 2).gather_sync())
        [3, 4]
        """
        return self._then(methodcaller("filter", fn), ".filter()")

    def batch(self, n: int) -> ParallelIterator[list[T]]:
        """Make lists of `n` items of a shard; the last may be shorter.

        Examples
        --------
        >>> sorted(numbers.batch(2).gather_sync())
        [[1, 3], [2, 4]]
        """
        return self._then(methodcaller("batch", n), f".batch({n})")

    def flatten(self) -> ParallelIterator[Any]:
        """Iterate over the items of the items, as `batch` makes them.

        Examples
        --------
        >>> sorted(numbers.batch(2).flatten().gather_sync())
        [1, 2, 3, 4]
        """
        return self._then(methodcaller("flatten"), ".flatten()")

    def combine(self, fn: Callable[[T], Iterable[U]]) -> ParallelIterator[U]:
        """Apply `fn`, which makes several items of one.

        Examples
        --------
        >>> sorted(numbers.combine(lambda number: [number, -number]).gather_sync())
        [-4, -3, -2, -1, 1, 2, 3, 4]
        """
        made = self.for_each(fn).flatten()
        made.name = f"{self.name}.combine()"
        return made

    def local_shuffle(
        self, shuffle_buffer_size: int, seed: int | None = None
    ) -> ParallelIterator[T]:
        """Change the order of the items of each shard at random; see `LocalIterator.shuffle`.

        Examples
        --------
        >>> eight = ray.util.iter.from_range(8, num_shards=2)
        >>> sorted(eight.local_shuffle(shuffle_buffer_size=4, seed=0).gather_sync())
        [0, 1, 2, 3, 4, 5, 6, 7]
        """
        name = f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})"
        return self._then(methodcaller("shuffle", shuffle_buffer_size, seed), name)

    # --- shards ---------------------------------------------------------------------------------

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator[T]:
        """Return an iterator with the same items in another number of shards.

        The items of each of today's shards go to the new ones in turn.

        Parameters
        ----------
        num_partitions : int
            How many shards.
        batch_ms : int, default 0
            Milliseconds for which an actor collects items before it sends them.

        Examples
        --------
        >>> four = ray.util.iter.from_range(4, num_shards=1).repartition(2)
        >>> four.num_shards(), sorted(four.gather_sync())
        (2, [0, 1, 2, 3])
        """
        actors = self._begin()
        sources = [
            partial(_slices, actors, num_partitions, index, batch_ms)
            for index in range(num_partitions)
        ]
        name = f"{self.name}.repartition[num_partitions={num_partitions}]"
        made: ParallelIterator[T] = from_iterators(sources, name=name)
        # The actors of this iterator live as long as the new one.
        return self._made(made.actor_sets, name, [self])

    def union(self, other: ParallelIterator[T]) -> ParallelIterator[T]:
        """Return an iterator over the shards of this iterator and of `other`.

        Examples
        --------
        >>> numbers.union(from_items([5], num_shards=1)).num_shards()
        3

        Raises
        ------
        TypeError
            When the other is not a ParallelIterator.
        """
        if not isinstance(other, ParallelIterator):
            raise TypeError(f"other must be of type ParallelIterator, got {type(other)}")
        return self._made(
            [*self.actor_sets, *other.actor_sets],
            f"ParallelUnion[{self}, {other}]",
            [*self.parent_iterators, *other.parent_iterators],
        )

    def select_shards(self, shards_to_keep: list[int]) -> ParallelIterator[T]:
        """Return an iterator over the shards with the indices `shards_to_keep`.

        Raises
        ------
        ValueError
            When no shard is given, or this iterator is a `union`.
        AssertionError
            When there is no such shard.

        Examples
        --------
        >>> six = ray.util.iter.from_range(6, num_shards=2)
        >>> list(six.select_shards([1]).gather_sync())
        [3, 4, 5]
        """
        if len(self.actor_sets) > 1:
            raise ValueError("select_shards() is not allowed after union(): select before it.")
        if not shards_to_keep:
            raise ValueError("at least one shard must be selected; shards_to_keep is empty.")
        (old,) = self.actor_sets
        kept = [actor for index, actor in enumerate(old.actors) if index in shards_to_keep]
        if len(kept) != len(shards_to_keep):
            raise AssertionError(  # the class that Ray raises here
                f"Invalid actor index in {shards_to_keep!r}: there are {len(old.actors)} shards, and "
                "each may be given once."
            )
        name = f"{self}.select_shards({len(shards_to_keep)} total)"
        return self._made([_ActorSet(kept, old.transforms)], name, self.parent_iterators)

    def num_shards(self) -> int:
        """Return the number of shards.

        Examples
        --------
        >>> numbers.num_shards()
        2
        """
        return sum(len(each.actors) for each in self.actor_sets)

    def shards(self) -> list[LocalIterator[T]]:
        """Return an iterator for each shard.

        Examples
        --------
        >>> four = ray.util.iter.from_range(4, num_shards=2)
        >>> [list(shard) for shard in four.shards()]
        [[0, 1], [2, 3]]
        """
        return [self.get_shard(index) for index in range(self.num_shards())]

    def get_shard(
        self, shard_index: int, batch_ms: int = 0, num_async: int = 1
    ) -> LocalIterator[T]:
        """Return an iterator over the items of one shard.

        Parameters
        ----------
        shard_index : int
            Which shard, from 0 on.
        batch_ms : int, default 0
            Milliseconds for which the actor collects items before it sends them.
        num_async : int, default 1
            How many requests for items the actor has at a time.

        Examples
        --------
        >>> list(numbers.get_shard(0))
        [1, 3]

        Raises
        ------
        ValueError
            When there is no such shard, or another value is not valid.
        """
        _check_requests(batch_ms, num_async)
        index = shard_index
        for each in self.actor_sets:
            if index < len(each.actors):
                source = partial(_one_shard, each.actors[index], each, batch_ms, num_async)
                name = f"{self.name}.shard[{shard_index}]"
                return LocalIterator(source, SharedMetrics(), name=name)
            index -= len(each.actors)
        raise ValueError(
            f"Shard index out of range: {shard_index!r}. There are {self.num_shards()} shards, and the "
            "first has the index 0."
        )

    # --- to this process ------------------------------------------------------------------------

    def _begin(self) -> list[_Actor]:
        """Let all actors begin to iterate; return them."""
        begun = [a.par_iter_init.remote(s.transforms) for s in self.actor_sets for a in s.actors]
        ray.get(begun)
        return [actor for each in self.actor_sets for actor in each.actors]

    def gather_sync(self) -> LocalIterator[T]:
        """Return an iterator over one item of each shard in turn.

        The shards make their next items at the same time, when they are read.

        Examples
        --------
        >>> list(ray.util.iter.from_range(6, num_shards=2).gather_sync())
        [0, 3, 1, 4, 2, 5]
        """
        made = self.batch_across_shards().flatten()
        made.name = f"{self}.gather_sync()"
        return made

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Return an iterator over lists with one item of each shard, while the shard has items.

        Examples
        --------
        >>> list(ray.util.iter.from_range(4, num_shards=2).batch_across_shards())
        [[0, 2], [1, 3]]
        """
        name = f"{self}.batch_across_shards()"
        return LocalIterator(partial(_rounds, self), SharedMetrics(), name=name)

    def gather_async(self, batch_ms: int = 0, num_async: int = 1) -> LocalIterator[T]:
        """Return an iterator over the items of all shards, in the order in which they are ready.

        Parameters
        ----------
        batch_ms : int, default 0
            Milliseconds for which an actor collects items before it sends them.
        num_async : int, default 1
            How many requests for items each actor has at a time.

        Examples
        --------
        >>> sorted(numbers.gather_async())
        [1, 2, 3, 4]

        Raises
        ------
        ValueError
            When a value is not valid.
        """
        _check_requests(batch_ms, num_async)
        shared = SharedMetrics()
        source = partial(_as_ready, self, shared, batch_ms, num_async)
        return LocalIterator(source, shared, name=f"{self}.gather_async()")

    def take(self, n: int) -> list[T]:
        """Return the first `n` items of `gather_sync`, or all if there are fewer.

        Examples
        --------
        >>> len(numbers.take(3))
        3
        """
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print the first `n` items of `gather_sync`.

        Examples
        --------
        >>> ray.util.iter.from_range(4, num_shards=2).show(2)
        0
        2
        """
        self.gather_sync().show(n)


def _check_requests(batch_ms: int, num_async: int) -> None:
    if num_async < 1:
        raise ValueError(f"num_async must be positive; it is {num_async!r}.")
    if batch_ms < 0:
        raise ValueError(f"batch_ms must not be negative; it is {batch_ms!r}.")


# --- the items of shards: generators, called with the timeout of the `LocalIterator` --------------


def _rounds(source: ParallelIterator[Any], timeout: float | None) -> Iterator[Any]:
    active = source._begin()
    while active:
        refs: list[ObjectRef[Any]] = [actor.par_iter_next.remote() for actor in active]
        while len(ray.wait(refs, num_returns=len(refs), timeout=timeout)[0]) < len(refs):
            yield _NextValueNotReady()
        items: list[Any] = []
        still_active: list[_Actor] = []
        for actor, ref in zip(active, refs, strict=True):
            try:
                items.append(ray.get(ref))
                still_active.append(actor)
            except StopIteration:
                continue
        active = still_active
        if items:
            yield items
        if timeout is not None:
            yield _NextValueNotReady()


def _as_ready(
    source: ParallelIterator[Any],
    shared: SharedMetrics,
    batch_ms: int,
    num_async: int,
    timeout: float | None,
) -> Iterator[Any]:
    actors = source._begin() * num_async
    for actor, batch in _batches(
        actors, lambda actor: actor.par_iter_next_batch.remote(batch_ms), timeout
    ):
        for item in batch:
            if actor is not None:
                shared.get().current_actor = actor
            yield item


def _slices(actors: list[_Actor], step: int, start: int, batch_ms: int) -> Iterator[Any]:
    def request(actor: _Actor) -> ObjectRef[Any]:
        ref: ObjectRef[Any] = actor.par_iter_slice_batch.remote(step, start, batch_ms)
        return ref

    for _, batch in _batches(actors, request, None):
        yield from batch


def _batches(
    actors: list[_Actor], request: Callable[[_Actor], ObjectRef[Any]], timeout: float | None
) -> Iterator[tuple[_Actor | None, list[Any]]]:
    """Iterate over the answers of actors, each of which gets its next request with its answer."""
    running = {request(actor): actor for actor in actors}
    while running:
        pending = list(running)
        ready, _ = ray.wait(
            pending, num_returns=len(pending), timeout=0 if timeout is None else timeout
        )
        if not ready and timeout is None:
            ready, _ = ray.wait(pending)
        for ref in ready:
            actor = running.pop(ref)
            try:
                batch = ray.get(ref)
            except StopIteration:
                continue
            running[request(actor)] = actor
            yield actor, batch
        if timeout is not None:
            yield None, [_NextValueNotReady()]


def _one_shard(
    actor: _Actor, shard: _ActorSet, batch_ms: int, num_async: int, timeout: float | None
) -> Iterator[Any]:
    ray.get(actor.par_iter_init.remote(shard.transforms))
    requests = deque(actor.par_iter_next_batch.remote(batch_ms) for _ in range(num_async))
    while True:
        while not ray.wait([requests[0]], timeout=timeout)[0]:
            yield _NextValueNotReady()
        try:
            batch = ray.get(requests.popleft())
        except StopIteration:
            return
        requests.append(actor.par_iter_next_batch.remote(batch_ms))
        yield from batch
        if timeout is not None:
            yield _NextValueNotReady()
