"""The detection of silent nodes: each node has a process that sends a pulse (`_node.pulse`)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from raycompat._protocol import liveness

if TYPE_CHECKING:
    from raycompat._scheduler.parts import Parts

logger = logging.getLogger(__name__)

#: Seconds since its last pulse in which a node counts as alive, for those who wait for its answer. A
#: pulse comes every two seconds.
_HEARD_S = 7.0

#: Checks during the time after which a node is dead.
_LOOKS = 6


class Liveness:
    """The last pulse of each node. A node that was silent for too long is removed as dead."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._limit_s = liveness.node_timeout_s()
        self._heard: dict[str, float] = {}
        self._looked = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._removals: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the regular checks."""
        self._heard.clear()  # what was heard before the checks is old
        self._look_later()

    def _look_later(self) -> None:
        self._looked = time.monotonic()
        period_s = self._limit_s / _LOOKS
        self._timer = asyncio.get_running_loop().call_later(period_s, self._look, period_s)

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()

    async def on_pulse(self, worker: str) -> None:
        """Record a node's pulse."""
        if worker in self._parts.nodes.info:
            self._heard[worker] = time.monotonic()

    def hears(self, worker: str) -> bool:
        """Return whether a node has just sent a pulse, or has just come."""
        now = time.monotonic()
        return now - self._heard.get(worker, now) < _HEARD_S

    def _look(self, period_s: float) -> None:
        now = time.monotonic()
        try:
            nodes = self._parts.nodes.info
            self._heard = {each: at for each, at in self._heard.items() if each in nodes}
            if now - self._looked > 2 * period_s:  # this process was stopped: pulses may be unread
                self._heard = dict.fromkeys(self._heard, now)
            for worker, heard in self._heard.items():
                if now - heard > self._limit_s:
                    self._remove(worker, now - heard)
        finally:
            self._look_later()

    def _remove(self, worker: str, silent_s: float) -> None:
        line = (
            f"raycompat: the node at {worker} counts as dead: it was silent for {silent_s:.0f} s."
        )
        logger.error(line)
        for job in self._parts.jobs.open:
            self._parts.logs.tell(job, line)
        removal = asyncio.ensure_future(self._parts.dask.remove_worker(worker))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
