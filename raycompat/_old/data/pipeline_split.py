"""The parts of a `DatasetPipeline`: one process makes the windows, and each reader gets its rows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import raycompat as ray
from raycompat.data.dataset import Dataset
from raycompat.util._internal_actors import internal_actor

#: Returns an iterator of the epochs of a pipeline, each an iterator of windows.
Epochs = Callable[[], Iterator[Iterator[Dataset]]]

#: Windows that a reader may be ahead of the slowest one. Each holds its blocks in the object store, so
#: the fast reader of an endless pipeline waits. Ray waits after one; more let one process read the
#: parts of a short pipeline one after the other.
_MAX_AHEAD = 64


class _End(Enum):
    """What a reader gets in place of rows."""

    OF_EPOCH = 1
    OF_PIPELINE = 2


class _Splitter:
    """Makes the windows, and keeps the parts that readers have not asked for yet.

    Parameters
    ----------
    epochs : function without parameters
        Returns an iterator of the epochs.
    num : int
        Number of readers.
    equal : bool
        Whether all get as many rows.
    """

    def __init__(self, epochs: Epochs, num: int, equal: bool) -> None:
        self._items = self._read(epochs)
        self._num, self._equal = num, equal
        self._waiting: list[deque[Any]] = [deque() for _ in range(num)]
        self._is_reading = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def _read(self, epochs: Epochs) -> Iterator[list[Any]]:
        for windows in epochs():
            for window in windows:
                yield list(window.split(self._num, equal=self._equal))
            yield [_End.OF_EPOCH] * self._num

    def next_part(self, reader: int) -> Any:
        """Return a reader's part of its next window, or which end is there.

        It waits for the slowest reader when that one has too many windows to take. An error of a
        window ends the pipeline: each reader gets it after its windows from before the error.
        """
        waiting = self._waiting[reader]
        with self._changed:
            self._changed.wait_for(lambda: waiting or self._error or self._may_read())
            if waiting:
                self._changed.notify_all()
                return waiting.popleft()
            if self._error is not None:
                raise self._error
            self._is_reading = True
        parts = None
        try:  # without the lock, so that others take what waits for them
            parts = next(self._items, None)
        except BaseException as error:
            self._error = error  # the iterator has ended with it, as if at the last window
            raise
        finally:
            with self._changed:
                for each, part in zip(self._waiting, parts or [], strict=False):
                    each.append(part)
                self._is_reading = False
                self._changed.notify_all()
        return _End.OF_PIPELINE if parts is None else waiting.popleft()

    def _may_read(self) -> bool:
        return not self._is_reading and max(map(len, self._waiting)) < _MAX_AHEAD


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


def parts(epochs: Epochs, num: int, equal: bool) -> list[Epochs]:
    """Return the epochs of pipelines that have different rows of each window."""
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise ValueError(f"split({num!r}): expected a number of 1 or more.")
    # Outside of the placement group of a trial, which has no CPU for the tasks of a window.
    options = internal_actor(_Splitter).options(
        num_cpus=0, scheduling_strategy="DEFAULT", max_concurrency=num + 1
    )
    splitter = options.remote(epochs, num, equal)
    return [_Part(splitter, reader) for reader in range(num)]
