"""The memory of a node: when little is left, one executor is ended after the other.

Sooner than the kernel or Dask's nanny would end the node with all that is on it. What was run by the
executor is tried again, if it may be. Shared memory that waits to be used again goes first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from raycompat._node.executor_pool import Executor

#: Environment variables of Ray's: the share of memory that may be used, and milliseconds between looks.
_THRESHOLD: Final = ("RAY_memory_usage_threshold", 0.95)
_REFRESH: Final = ("RAY_memory_monitor_refresh_ms", 250.0)

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An executor that could be ended."""

    executor: Executor
    #: What it runs; empty if it is idle and owns nothing.
    name: str
    #: Whether what it runs is tried again.
    is_retryable: bool


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """Choose whom to end: one that is idle, else the newest that is tried again, else the newest.

    `candidates` come in the order in which they began.
    """
    newest_first = list(candidates)[::-1]
    for suits in (lambda each: not each.name, lambda each: each.is_retryable, lambda each: True):
        for each in newest_first:
            if suits(each):
                return each
    return None


class MemoryMonitor:
    """See the module. One per node.

    Parameters
    ----------
    limit_bytes : int
        What the node may use, without what it stores in shared memory.
    pids : callable
        Returns the processes of the node.
    candidates : callable
        Returns those that could be ended, in the order in which they began.
    end : callable
        Ends a candidate, for a reason.
    spare : callable
        Gives back to the machine what nobody uses just now; returns whether there was anything.
    """

    def __init__(
        self,
        limit_bytes: int,
        pids: Callable[[], Iterable[int]],
        candidates: Callable[[], Iterable[Candidate]],
        end: Callable[[Candidate, str], None],
        spare: Callable[[], bool],
    ) -> None:
        self._limit = int(limit_bytes * _setting(*_THRESHOLD))
        self._least_free = 1 - _setting(*_THRESHOLD)
        self._period_s = _setting(*_REFRESH) / 1000
        self._pids, self._candidates, self._end, self._spare = pids, candidates, end, spare
        self._timer: asyncio.TimerHandle | None = None
        self._victim: Candidate | None = None

    def start(self) -> None:
        """Look from now on, unless it is switched off."""
        if self._period_s:
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        try:
            if self._victim is None or self._victim.executor.ended.done():  # its memory is free
                shortage = self._shortage()
                self._victim = choose(self._candidates()) if shortage else None
                if self._victim is not None:
                    self._end(self._victim, shortage)
        finally:
            self.start()

    def _shortage(self) -> str:
        """Return what is short, in words; empty when nothing is, or is any more."""
        of_machine = self._shortage_of_machine()
        if of_machine and self._spare():
            of_machine = self._shortage_of_machine()
        if of_machine:
            return of_machine
        pids = list(self._pids())
        if sum(map(_private_bytes_at_most, pids)) <= self._limit:
            return ""
        used = sum(map(_private_bytes, pids))
        if used <= self._limit:
            return ""
        return f"Its processes had {_gigabytes(used)}, and may have {_gigabytes(self._limit)}."

    def _shortage_of_machine(self) -> str:
        machine = psutil.virtual_memory()
        if machine.available >= self._least_free * machine.total:
            return ""
        return (
            f"Of the machine's {_gigabytes(machine.total)} of memory "
            f"{_gigabytes(machine.available)} were left."
        )


def _private_bytes_at_most(pid: int) -> int:
    """Return the memory of a process that is no file's: quickly, and with all that forks share."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def _private_bytes(pid: int) -> int:
    """Return the memory of a process that is no file's, its share only of what several have."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
    sizes = dict(line.split(":") for line in lines[1:])
    return int(sizes["Pss_Anon"].split()[0]) * 1024


def _setting(name: str, default: float) -> float:
    value = os.environ.get(name)
    try:
        number = default if value is None else float(value)
    except ValueError:
        number = -1.0
    if number < 0:
        raise ValueError(f"{name}={value!r}: expected a number, 0 or more.")
    return number


def _gigabytes(count: float) -> str:
    return f"{count / 2**30:.2f} GiB"
