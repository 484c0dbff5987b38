"""`Dataset.streaming_split`: one execution that feeds iterators in several processes.

An actor executes the plan. Each iterator requests the next piece of a block from it, and reads the
piece from the store of its host. Blocks are made only as fast as they are requested.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import raycompat as ray
from raycompat.data.block import Bundle
from raycompat.data.context import DataContext
from raycompat.data.iterator import DataIterator, Executed
from raycompat.data.schema import Schema
from raycompat.util._internal_actors import internal_actor

Piece = tuple[Bundle, int, int]


class Distribution:
    """Decides which rows each iterator gets. It uses numbers of rows only, and no cluster.

    Parameters
    ----------
    num : int
        Iterators.
    equal : bool
        Whether all get exactly as many rows. Blocks are given as a whole as long as those that are kept
        back suffice to make up for the differences; at the end they are cut.
    """

    def __init__(self, num: int, equal: bool) -> None:
        self._equal = equal
        self._counts = [0] * num
        self._kept: deque[Bundle] = deque()
        self.pieces: list[deque[Piece]] = [deque() for _ in range(num)]

    def add(self, bundle: Bundle, asking: int) -> None:
        """Give a block to the iterator that asks; if all get equal rows, to the one with least."""
        if not self._equal:
            self.pieces[asking].append((bundle, 0, bundle.num_rows))
            return
        self._kept.append(bundle)
        while self._kept:
            first = self._kept[0]
            to = min(range(len(self._counts)), key=self._counts.__getitem__)
            counts = list(self._counts)
            counts[to] += first.num_rows
            needed = sum(max(counts) - count for count in counts)
            if needed > sum(each.num_rows for each in self._kept) - first.num_rows:
                return
            self._kept.popleft()
            self._counts = counts
            self.pieces[to].append((first, 0, first.num_rows))

    def end(self) -> None:
        """Divide the held-back rows, so that all iterators get equally many; the rest is dropped."""
        total = sum(self._counts) + sum(bundle.num_rows for bundle in self._kept)
        goal = total // len(self._counts)
        offset = 0
        for to, count in enumerate(self._counts):
            missing = goal - count if self._equal else 0
            while missing > 0:
                bundle = self._kept[0]
                taken = min(missing, bundle.num_rows - offset)
                self.pieces[to].append((bundle, offset, offset + taken))
                missing -= taken
                offset += taken
                if offset == bundle.num_rows:
                    self._kept.popleft()
                    offset = 0
        self._kept.clear()


class SplitCoordinator:
    """Executes a plan once in each epoch, and hands out its blocks."""

    def __init__(self, dataset: Executed, num: int, equal: bool) -> None:
        self._dataset = dataset
        self._num = num
        self._equal = equal
        self._condition = threading.Condition()
        self._epoch = -1
        #: The epoch that each iterator waits for.
        self._waits_for = [-1] * num
        self._bundles: Iterator[Bundle] = iter(())
        self._distribution = Distribution(num, equal)
        self._is_over = True
        self._error: BaseException | None = None
        self._dividing = threading.Lock()
        self._parts: Sequence[Executed] | None = None

    def start_epoch(self, index: int) -> int:
        """Wait until all iterators want another epoch; return its number."""
        with self._condition:
            epoch = self._epoch + 1
            self._waits_for[index] = epoch
            if all(waits == epoch for waits in self._waits_for):
                self._begin(epoch)
            self._condition.wait_for(lambda: self._epoch >= epoch)
            return epoch

    def _begin(self, epoch: int) -> None:
        close = getattr(self._bundles, "close", None)
        if close is not None:
            close()
        self._bundles = self._dataset._bundles()
        self._distribution = Distribution(self._num, self._equal)
        self._is_over, self._error = False, None
        self._epoch = epoch
        self._condition.notify_all()

    def next_piece(self, index: int, epoch: int) -> Piece | None:
        """Return the next rows for an iterator; None at the end."""
        with self._condition:
            if epoch != self._epoch:
                return None  # another iterator has started another epoch
            own = self._distribution.pieces[index]
            while not own and not self._is_over:
                self._advance(index)
            if self._error is not None:
                raise self._error
            return own.popleft() if own else None

    def _advance(self, index: int) -> None:
        try:
            bundle = next(self._bundles, None)
        except BaseException as error:
            self._is_over, self._error = True, error
            return
        if bundle is None:
            self._distribution.end()
            self._is_over = True
        elif bundle.num_rows:
            self._distribution.add(bundle, index)

    def part(self, index: int) -> Executed:
        """Return the rows for an iterator as a data set, which is the same at each call.

        The other iterators do not need to call it: a program of Ray 1.7 to 2.2 may ask in one worker.
        """
        with self._dividing:
            if self._parts is None:
                self._parts = self._dataset.split(self._num, equal=self._equal)
        return self._parts[index]

    def schema(self) -> Schema | None:
        """Return the columns."""
        with self._condition:
            return self._dataset.schema()

    def stats(self) -> str:
        """Return the statistics of the last epoch."""
        return self._dataset.stats()


class SplitIterator(DataIterator):
    """One of several iterators that together read each row once."""

    def __init__(self, coordinator: Any, index: int, num: int, context: DataContext) -> None:
        self._coordinator = coordinator
        self._index = index
        self._num = num
        self._context = context

    def __repr__(self) -> str:
        return f"StreamSplitDataIterator(index={self._index}, n={self._num})"

    def world_size(self) -> int:
        """Return how many iterators there are."""
        return self._num

    def _pieces(self) -> Iterator[Piece]:
        coordinator, index = self._coordinator, self._index
        epoch = ray.get(coordinator.start_epoch.remote(index))
        coming = coordinator.next_piece.remote(index, epoch)
        while (piece := ray.get(coming)) is not None:
            coming = coordinator.next_piece.remote(index, epoch)
            yield piece

    def _data_set(self) -> Executed:
        part: Executed = ray.get(self._coordinator.part.remote(self._index))
        return part

    def schema(self) -> Schema | None:
        """Return the columns and their types."""
        found: Schema | None = ray.get(self._coordinator.schema.remote())
        return found

    def stats(self) -> str:
        """Return a text about the last epoch."""
        text: str = ray.get(self._coordinator.stats.remote())
        return text

    def get_context(self) -> DataContext:
        """Return the settings of the data set."""
        return self._context


def streaming_split(dataset: Executed, num: int, equal: bool) -> list[DataIterator]:
    """Return iterators over one execution of a data set."""
    # Each iterator may have two waiting calls; the other methods must be answered at the same time.
    actor = internal_actor(SplitCoordinator).options(num_cpus=0, max_concurrency=2 * num + 2)
    coordinator = actor.remote(dataset, num, equal)
    return [SplitIterator(coordinator, index, num, dataset._context) for index in range(num)]
