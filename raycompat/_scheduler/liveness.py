"""The detection of silent nodes: each node has a process that sends a pulse (`_node.pulse`)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from raycompat._protocol import liveness

if TYPE_CHECKING:
    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.logs import Logs
    from raycompat._scheduler.pulses import Pulses

logger = logging.getLogger(__name__)

#: Checks during the time after which a node is dead.
_LOOKS = 6


class Liveness:
    """The last pulse of each node. A node that was silent for too long is removed as dead."""

    def __init__(
        self,
        ground: Ground,
        logs: Logs,
        pulses: Pulses,
    ) -> None:
        self._ground = ground
        self._logs = logs
        self._pulses = pulses
        self._limit_s = liveness.node_timeout_s()
        self._looked = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._removals: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the regular checks."""
        self._pulses.heard.clear()  # what was heard before the checks is old
        self._look_later()

    def _look_later(self) -> None:
        self._looked = time.monotonic()
        period_s = self._limit_s / _LOOKS
        self._timer = asyncio.get_running_loop().call_later(period_s, self._look, period_s)

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, period_s: float) -> None:
        now = time.monotonic()
        try:
            nodes = self._ground.nodes.info
            heard = {each: at for each, at in self._pulses.heard.items() if each in nodes}
            if now - self._looked > 2 * period_s:  # this process was stopped: pulses may be unread
                heard = dict.fromkeys(heard, now)
            self._pulses.heard = heard
            for worker, at in heard.items():
                if now - at > self._limit_s:
                    self._remove(worker, now - at)
        finally:
            self._look_later()

    def _remove(self, worker: str, silent_s: float) -> None:
        line = (
            f"raycompat: the node at {worker} counts as dead: it was silent for {silent_s:.0f} s."
        )
        logger.error(line)
        for job in self._ground.jobs.open:
            self._logs.tell(job, line)
        removal = asyncio.ensure_future(self._ground.dask.remove_worker(worker))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
