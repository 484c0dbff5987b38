"""The timer in the metrics of an iterator."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType


class _Timer:
    """Measures how long a block takes, and keeps the last times.

    Parameters
    ----------
    window_size : int, default 10
        How many of the last times, and of the last numbers of units, the means are of.

    Notes
    -----
    Ray source: ``ray.util.timer._Timer``, 2.60.0. One thread may use a timer at a time.
    """

    def __init__(self, window_size: int = 10) -> None:
        self._times_s: deque[float] = deque(maxlen=window_size)
        self._units: deque[float] = deque(maxlen=window_size)
        self._started: float | None = None
        #: How many times were measured in all.
        self.count = 0

    def __enter__(self) -> None:
        assert self._started is None, "the timer runs already: use one timer for each block"
        self._started = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._started is not None
        self.push(time.perf_counter() - self._started)
        self._started = None

    def push(self, time_delta: float) -> None:
        """Add a time, in seconds."""
        self._times_s.append(time_delta)
        self.count += 1

    def push_units_processed(self, n: float) -> None:
        """Add how many units a block has processed."""
        self._units.append(n)

    def has_units_processed(self) -> bool:
        """Return whether units were added."""
        return bool(self._units)

    @property
    def mean(self) -> float:
        """The mean of the last times, in seconds; 0.0 without any."""
        return _mean(self._times_s)

    @property
    def mean_units_processed(self) -> float:
        """The mean of the last numbers of units; 0.0 without any."""
        return _mean(self._units)

    @property
    def mean_throughput(self) -> float:
        """Units per second, of the last times; 0.0 without any."""
        total_s = sum(self._times_s)
        return sum(self._units) / total_s if total_s else 0.0


def _mean(values: deque[float]) -> float:
    return sum(values) / len(values) if values else 0.0
