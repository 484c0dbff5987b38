"""The nodes that are drained: no new call starts there."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler
    from raycompat._scheduler.node_table import NodeTable


@dataclass(slots=True)
class Drain:
    """A request to drain a node."""

    reason: str
    message: str
    #: When the node closes at the latest, in seconds since 1970; 0 without a limit.
    deadline: float
    timer: asyncio.TimerHandle | None = None
    #: Ends the pause after a try to close it that has failed.
    pause: asyncio.TimerHandle | None = None
    is_closing: bool = False

    def __str__(self) -> str:
        """Return the text for the state API."""
        until = f", closes at {_clock(self.deadline)} at the latest" if self.deadline else ""
        return f"Draining{until}: {self.message} ({self.reason})"


class Drains:
    """The requests to drain nodes, by their addresses."""

    def __init__(self, dask: DaskScheduler, nodes: NodeTable) -> None:
        self._dask = dask
        self._nodes = nodes
        self.by_node: dict[str, Drain] = {}

    def __contains__(self, address: object) -> bool:
        return address in self.by_node

    def get(self, address: str) -> Drain | None:
        """Return the request to drain a node; None if there is none."""
        return self.by_node.get(address)

    def accepting(self) -> set[str]:
        """Return the nodes on which calls may start: they are neither drained, paused nor closing."""
        return self._dask.running_workers() - self.by_node.keys()

    def staying(self) -> list[str]:
        """Return the nodes that are not drained."""
        return [each for each in self._nodes.info if each not in self.by_node]

    def forget(self, address: str) -> None:
        """Forget a node that has left, or whose request is replaced."""
        drain = self.by_node.pop(address, None)
        if drain is not None:
            for timer in (drain.timer, drain.pause):
                if timer is not None:
                    timer.cancel()


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
