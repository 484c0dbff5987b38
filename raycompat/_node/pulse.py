"""The pulse of a node: a process that reports that the node is alive, and ends a stopped node.

The node's own threads cannot report while a Dask task holds the interpreter lock, although nothing is
wrong. So the forkserver forks a separate process. It runs no user code. Every few seconds it does two
things:

* It sends a message to the scheduler. The scheduler treats a node that is silent for too long as dead:
  its machine is paused, or cannot be reached.
* It checks the node's processes. It kills one that was stopped (SIGSTOP) for too long. A stopped node
  would keep its connections, and its calls would wait for ever. The kernel ends a node's executors with
  it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn

from raycompat._dask import worker as adapter
from raycompat._host import processes
from raycompat._messages.nodes import Pulse

logger = logging.getLogger(__name__)

#: Seconds between two messages, and between two checks.
PERIOD_S = 2.0

#: The name of the process in ``ps`` and ``top``; Linux keeps 15 characters.
NAME = "raycompat-pulse"


def processes_of(node: int) -> list[int]:
    """Return the pids of a node, of its forkservers, and of the processes forked from these."""
    forkservers = processes.children(node)
    return [node, *forkservers, *chain.from_iterable(map(processes.children, forkservers))]


class Watch:
    """Kills processes that were stopped for `limit_s`. Its checks must be at most `gap_s` apart.

    After a longer gap this process was stopped too, so all limits start again.
    """

    def __init__(self, limit_s: float, gap_s: float) -> None:
        self._limit_s = limit_s
        self._gap_s = gap_s
        self._since: dict[int, float] = {}
        self._looked = time.monotonic()

    def look(self, pids: Iterable[int]) -> None:
        """Check the processes once."""
        now = time.monotonic()
        if now - self._looked > self._gap_s:
            self._since.clear()
        self._looked = now
        self._since = {pid: self._since.get(pid, now) for pid in pids if processes.is_stopped(pid)}
        for pid, since in self._since.items():
            if now - since >= self._limit_s:
                logger.warning(
                    "Process %d was stopped for %.0f s, so it is ended.", pid, now - since
                )
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def _watch(node: int, limit_s: float) -> None:
    period_s = min(PERIOD_S, limit_s / 4)
    watch = Watch(limit_s, 2 * period_s + 1)
    while True:
        watch.look(processes_of(node))
        await asyncio.sleep(period_s)


async def _beat(about: dict[str, Any]) -> None:
    while True:
        try:
            await adapter.send_pulses(
                about["scheduler"], about["security"], Pulse(about["address"]), PERIOD_S
            )
        except Exception as error:  # if the scheduler has ended, the node ends by itself
            logger.debug("no pulse could be sent: %r", error)
        await asyncio.sleep(PERIOD_S)


async def _run(about: dict[str, Any]) -> None:
    await asyncio.gather(_watch(about["node"], about["limit_s"]), _beat(about))


def run(about: dict[str, Any]) -> NoReturn:
    """Run as the pulse of a node, as long as its forkserver lives."""
    processes.name_this(NAME)
    asyncio.run(_run(about))
    os._exit(1)
