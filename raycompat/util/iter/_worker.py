"""`ParallelIteratorWorker`: the actor that makes the items of a shard."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from raycompat._host import clock
from raycompat.util.iter._local import LocalIterator
from raycompat.util.iter_metrics import SharedMetrics

_MS_PER_S = 1_000


class ParallelIteratorWorker:
    """Makes the items of one shard of a `ParallelIterator`.

    `from_actors` takes actors whose classes derive from it.

    Parameters
    ----------
    item_generator : iterable or callable
        The items, or a function that returns them: for generators, which cannot be sent to an actor.
    repeat : bool
        Whether to begin again after the last item, without end.

    Examples
    --------
    >>> class Letters(ray.util.iter.ParallelIteratorWorker):
    ...     def __init__(self, text):
    ...         super().__init__(text, repeat=False)
    >>> (actor,) = [ray.remote(Letters).remote("abc")]
    >>> list(ray.util.iter.from_actors([actor]).gather_sync())
    ['a', 'b', 'c']

    What an iterator asks the actor for; a batch ends after a number of milliseconds:

    >>> letters = Letters("abcdef")
    >>> letters.par_iter_init([lambda items: items.for_each(str.upper)])
    >>> letters.par_iter_next(), letters.par_iter_next_batch(batch_ms=0)
    ('A', ['B'])

    Two consumers can each take every second item:

    >>> (
    ...     letters.par_iter_slice(step=2, start=0),
    ...     letters.par_iter_slice(step=2, start=1),
    ... )
    ('C', 'D')
    >>> letters.par_iter_slice_batch(step=2, start=0, batch_ms=0)
    ['E']

    Notes
    -----
    Ray source: ``ray.util.iter.ParallelIteratorWorker``, 2.60.0. At the end of the items, the methods
    raise StopIteration, as in Ray.
    """

    def __init__(self, item_generator: Any, repeat: bool) -> None:
        self._source = item_generator
        self.item_generator: Iterable[Any] = self._cycle() if repeat else self._open()
        self._items: Iterator[Any] | None = None
        #: The items that `par_iter_slice` has taken for other slices, by the first index of a slice.
        self._slices: defaultdict[int, deque[Any]] = defaultdict(deque)

    def _open(self) -> Iterable[Any]:
        items: Iterable[Any] = self._source() if callable(self._source) else self._source
        return items

    def _cycle(self) -> Iterator[Any]:
        while True:
            items = iter(self._open())
            if items is self._source:
                raise ValueError(
                    f"Cannot iterate over {self._source!r} multiple times: it is an iterator. Give a "
                    "list, or a function that returns a new iterator."
                )
            yield from items

    def par_iter_init(
        self, transforms: Sequence[Callable[[LocalIterator[Any]], LocalIterator[Any]]]
    ) -> None:
        """Begin to iterate, with the operators `transforms`."""
        shard: LocalIterator[Any] = LocalIterator(
            lambda timeout: self.item_generator, SharedMetrics()
        )
        for transform in transforms:
            shard = transform(shard)
        self._items = iter(shard)

    def par_iter_next(self) -> Any:
        """Return the next item."""
        assert self._items is not None, "must call par_iter_init()"
        return next(self._items)

    def par_iter_next_batch(self, batch_ms: int) -> list[Any]:
        """Return the items of the next `batch_ms` milliseconds; the next one with 0."""
        return _batch(self.par_iter_next, batch_ms)

    def par_iter_slice(self, step: int, start: int) -> Any:
        """Return the next item of every `step`-th one, from index `start` on."""
        mine = self._slices[start]
        if not mine:
            for index in range(step):
                try:
                    self._slices[index].append(self.par_iter_next())
                except StopIteration:
                    break
        if not mine:
            raise StopIteration
        return mine.popleft()

    def par_iter_slice_batch(self, step: int, start: int, batch_ms: int) -> list[Any]:
        """Return the items of `par_iter_slice` of the next `batch_ms` milliseconds; one with 0.

        Parameters as in `par_iter_slice`.
        """
        return _batch(lambda: self.par_iter_slice(step, start), batch_ms)


def _batch(take: Callable[[], Any], batch_ms: int) -> list[Any]:
    """Return one item at least."""
    batch, deadline = [take()], clock.monotonic() + batch_ms / _MS_PER_S
    while clock.monotonic() < deadline:
        try:
            batch.append(take())
        except StopIteration:
            break
    return batch
