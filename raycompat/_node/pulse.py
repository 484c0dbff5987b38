"""The pulse of a node: a process that says that the node is there, and ends it when it is stopped.

The node's own threads would fall silent when a task of Dask's holds the interpreter lock, although
nothing is wrong. So the forkserver forks a process for this. It runs no user code. Every few seconds
it does two things:

* It sends the scheduler a message. The scheduler takes a node that has been silent for too long for
  dead: its machine is paused, or out of reach.
* It looks at the node's processes. One that was stopped (SIGSTOP) for too long is killed: a stopped
  node would keep its connections, and its calls would wait for ever. The kernel ends a node's
  executors with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from raycompat import _dask_adapter as dask

logger = logging.getLogger(__name__)

#: Seconds between two messages, and between two looks.
PERIOD_S = 2.0

#: What ``ps`` and ``top`` call the process; Linux keeps 15 characters.
NAME = "raycompat-pulse"


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal. One that a debugger holds was not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def children(pid: int) -> list[int]:
    """Return the processes that a process with one thread has started."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Watch:
    """Kills processes that have been stopped for `limit_s`; looks of its own are `gap_s` apart at most.

    After a longer gap this process was stopped too: then the others get their time again.
    """

    def __init__(self, limit_s: float, gap_s: float) -> None:
        self._limit_s = limit_s
        self._gap_s = gap_s
        self._since: dict[int, float] = {}
        self._looked = time.monotonic()

    def look(self, pids: Iterable[int]) -> None:
        """Look at the processes once."""
        now = time.monotonic()
        if now - self._looked > self._gap_s:
            self._since.clear()
        self._looked = now
        self._since = {pid: self._since.get(pid, now) for pid in pids if is_stopped(pid)}
        for pid, since in self._since.items():
            if now - since >= self._limit_s:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def _watch(node: int, limit_s: float) -> None:
    forkserver = os.getppid()
    period_s = min(PERIOD_S, limit_s / 4)
    watch = Watch(limit_s, 2 * period_s + 1)
    while True:
        watch.look([node, forkserver, *(each for each in children(forkserver))])
        await asyncio.sleep(period_s)


async def _beat(about: dict[str, Any]) -> None:
    while True:
        try:
            await dask.send_pulses(
                about["scheduler"], about["security"], about["address"], PERIOD_S
            )
        except Exception as error:  # the scheduler may be gone: then the node ends by itself
            logger.debug("no pulse could be sent: %r", error)
        await asyncio.sleep(PERIOD_S)


async def _run(about: dict[str, Any]) -> None:
    await asyncio.gather(_watch(about["node"], about["limit_s"]), _beat(about))


def run(about: dict[str, Any]) -> NoReturn:
    """Be the pulse of a node for as long as its forkserver lives."""
    Path("/proc/self/comm").write_text(NAME)
    asyncio.run(_run(about))
    os._exit(1)
