"""The main figures of the cluster over the last hour: one sample every ten seconds, for a page."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

#: Seconds between two samples, for which they are kept, and after which one is missing.
PERIOD_S, _KEPT_S, GAP_S = 10.0, 3_600.0, 30.0


class Sample(NamedTuple):
    """The figures at one time, in seconds since 1970."""

    at: float
    #: Shares of the resources in use, from 0 to 1; NaN for resources that the cluster does not have.
    cpu: float
    gpu: float
    #: Requests that wait for resources, of which one may be for many calls; and calls that have
    #: failed since the sample before.
    waiting: float
    failed: float


class Figures:
    """Takes the samples while a driver is connected."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.samples: deque[Sample] = deque()
        self._num_failed = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to take samples."""
        self._num_failed = self._parts.history.num_failed
        self._plan()

    def _plan(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._look)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._plan()
        sample = self.now()
        self.samples.append(sample)
        while self.samples[0].at < sample.at - _KEPT_S:
            self.samples.popleft()
        self._num_failed = self._parts.history.num_failed

    def now(self) -> Sample:
        """Return the figures of this moment."""
        ledger = self._parts.ground.ledger
        total, free = ledger.cluster_total(), ledger.cluster_available()

        def share(name: str) -> float:
            units = total.get(name)
            return (units - free.get(name)) / units if units else float("nan")

        return Sample(
            time.time(),
            share("CPU"),
            share("GPU"),
            sum(len(line.keys) for line in self._parts.dispatcher.lines()),
            self._parts.history.num_failed - self._num_failed,
        )
