"""The last pulse of each node: each has a process that sends one (`_node.pulse`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._scheduler.node_table import NodeTable

#: Seconds since its last pulse in which a node counts as alive, for those who wait for its answer. A
#: pulse comes every two seconds.
_HEARD_S = 7.0


class Pulses:
    """When each node was heard last, by the monotonic clock."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.heard: dict[str, float] = {}

    async def on_pulse(self, worker: str) -> None:
        """Record a node's pulse."""
        if worker in self._nodes.info:
            self.heard[worker] = time.monotonic()

    def hears(self, worker: str) -> bool:
        """Return whether a node has just sent a pulse, or has just come."""
        now = time.monotonic()
        return now - self.heard.get(worker, now) < _HEARD_S
