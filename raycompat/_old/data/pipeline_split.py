"""The parts of a `DatasetPipeline`: one process makes the windows, and each reader gets its rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Any

import raycompat as ray
from raycompat._old.data.pipeline import DatasetPipeline
from raycompat.data.dataset import Dataset


class _End(Enum):
    """What a reader gets in place of rows."""

    OF_EPOCH = 1
    OF_PIPELINE = 2


class _Splitter:
    """Makes the windows, and keeps the parts that readers have not asked for yet.

    Parameters
    ----------
    pipeline : DatasetPipeline
    num : int
        Number of readers.
    equal : bool
        Whether all get as many rows.
    """

    def __init__(self, pipeline: DatasetPipeline, num: int, equal: bool) -> None:
        self._items = self._read(pipeline)
        self._num, self._equal = num, equal
        self._waiting: list[deque[Any]] = [deque() for _ in range(num)]

    def _read(self, pipeline: DatasetPipeline) -> Iterator[list[Any]]:
        for windows in pipeline._epochs():
            for window in windows:
                yield list(window.split(self._num, equal=self._equal))
            yield [_End.OF_EPOCH] * self._num

    def next_part(self, reader: int) -> Any:
        """Return a reader's part of its next window, or which end is there."""
        waiting = self._waiting[reader]
        if not waiting:
            parts = next(self._items, None)
            if parts is None:
                return _End.OF_PIPELINE
            for each, part in zip(self._waiting, parts, strict=True):
                each.append(part)
        return waiting.popleft()


class _Part:
    """What one reader reads: each epoch once, from whatever process."""

    def __init__(self, splitter: Any, reader: int) -> None:
        self._splitter, self._reader = splitter, reader

    def __call__(self) -> Iterator[Iterator[Dataset]]:
        while (first := self._next()) is not _End.OF_PIPELINE:
            yield self._windows(first)

    def _next(self) -> Any:
        return ray.get(self._splitter.next_part.remote(self._reader))

    def _windows(self, first: Any) -> Iterator[Dataset]:
        found = first
        while not isinstance(found, _End):
            yield found
            found = self._next()


def split(pipeline: DatasetPipeline, num: int, equal: bool) -> list[DatasetPipeline]:
    """Return pipelines that have different rows of each window."""
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise ValueError(f"split({num!r}): expected a number of 1 or more.")
    # Outside of the placement group of a trial, which has no CPU for the tasks of a window.
    options = ray.remote(_Splitter).options(num_cpus=0, scheduling_strategy="DEFAULT")
    splitter = options.remote(pipeline, num, equal)
    return [DatasetPipeline(_Part(splitter, reader)) for reader in range(num)]
