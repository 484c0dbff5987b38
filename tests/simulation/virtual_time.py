"""Virtual time: an event loop that never waits. Import this module before Dask and raycompat.

The order of callbacks is that of asyncio, because the product relies on it. What varies from history to
history are the delays of the network and of the simulated processes.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any

#: Seconds since 1970 at which each history begins, and the start of the monotonic clock.
_BEGAN_S, _MONOTONIC_S = 1_800_000_000.0, 1_000.0


class _Clock:
    """The clock of this process. Each history starts it again."""

    now = 0.0


CLOCK = _Clock()


def use_virtual_time() -> None:
    """Let this process read the clock of the simulation, also as seconds since 1970."""
    time.time = lambda: _BEGAN_S + CLOCK.now
    time.monotonic = monotonic


def monotonic() -> float:
    """Return the seconds of the monotonic clock."""
    return _MONOTONIC_S + CLOCK.now


class NothingScheduled(Exception):
    """The event loop would wait for ever."""


class _Selector(selectors.SelectSelector):
    """A selector that moves the clock instead of waiting. No file is ever ready."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingScheduled
        CLOCK.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        #: Messages that have arrived and timers that were due, and those that still wait.
        self.num_events = 0
        super().__init__(_Selector())
        CLOCK.now = 0.0

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.num_events += 1
        return super().call_at(when, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        self.num_events -= 1
        super()._timer_handle_cancelled(handle)  # type: ignore[misc]

    def time(self) -> float:
        return CLOCK.now

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps."""


def cpu_seconds() -> float:
    """Return the real CPU time of this process."""
    return time.process_time()


use_virtual_time()
