"""Which nodes are silent: each has a process that sends a pulse (`_node.pulse`)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from raycompat import _dask_adapter as dask
from raycompat._protocol import liveness

if TYPE_CHECKING:
    from raycompat._scheduler.core import Core

logger = logging.getLogger(__name__)

#: Looks in the time after which a node is dead.
_LOOKS = 6


class Liveness:
    """See the module. A node counts from its first pulse on; it leaves as if it had died."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._limit_s = liveness.node_timeout_s()
        self._heard: dict[str, float] = {}
        self._looked = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._removals: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Look at the nodes again and again from now on."""
        self._looked = time.monotonic()
        period_s = self._limit_s / _LOOKS
        self._timer = asyncio.get_running_loop().call_later(period_s, self._look, period_s)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    async def hear(self, worker: str) -> None:
        """Hear the pulse of a node."""
        if worker in self._core.nodes.info:
            self._heard[worker] = time.monotonic()

    def _look(self, period_s: float) -> None:
        now = time.monotonic()
        try:
            nodes = self._core.nodes.info
            self._heard = {each: at for each, at in self._heard.items() if each in nodes}
            if now - self._looked > 2 * period_s:  # we were stopped: pulses have still to be read
                self._heard = dict.fromkeys(self._heard, now)
            for worker, heard in self._heard.items():
                if now - heard > self._limit_s:
                    self._remove(worker, now - heard)
        finally:
            self.start()

    def _remove(self, worker: str, silent_s: float) -> None:
        line = (
            f"raycompat: the node at {worker} counts as dead: it was silent for {silent_s:.0f} s."
        )
        logger.error(line)
        for job in self._core.jobs.open:
            self._core.logs.tell(job, line)
        removal = asyncio.ensure_future(dask.remove_worker(self._core.scheduler, worker))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
