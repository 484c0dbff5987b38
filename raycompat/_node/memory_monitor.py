"""The memory of a node: when little is left, one executor after another is ended.

This happens before the kernel or Dask's nanny would end the whole node. Calls of an ended executor are
retried, if they may be. Unused shared memory is freed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psutil

from raycompat._host import processes
from raycompat._protocol import settings

if TYPE_CHECKING:
    from raycompat._node.executor_pool import Executor

#: Ray's environment variables: the share of memory that may be used, and milliseconds between checks;
#: with their default and largest value.
_THRESHOLD: Final = ("RAY_memory_usage_threshold", 0.95, 1.0)
_REFRESH: Final = ("RAY_memory_monitor_refresh_ms", 250.0, 1e9)

#: Seconds for executors to report whether other processes need them, before one is ended.
_ANSWER_S = 0.05


@dataclass(frozen=True, slots=True)
class Candidate:
    """An executor that could be ended."""

    executor: Executor
    #: The call that it runs; empty if it is idle and no process needs it.
    name: str
    #: Whether its call is retried.
    is_retryable: bool
    #: Whether other processes need it, for its calls, actors or objects. These end with it, and are not
    #: retried.
    is_owner: bool


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the executor to end: the newest of those whose end loses least.

    That is an idle one that no process needs; else one whose call is retried, if possible one that no
    process needs; else any. `candidates` are ordered by their start.
    """
    newest_first = list(candidates)[::-1]
    return min(newest_first, key=_loss, default=None)


def _loss(candidate: Candidate) -> int:
    if not candidate.name:
        return 0
    if candidate.is_retryable:
        return 2 if candidate.is_owner else 1
    return 3


class MemoryMonitor:
    """Checks a node's memory regularly, and ends executors when little is left.

    Parameters
    ----------
    limit_bytes : int
        Memory that the node may use, without objects in shared memory.
    pids : callable
        Returns the pids of the node's processes.
    ask : callable
        Asks the executors whether other processes need them.
    candidates : callable
        Returns the executors that can be ended, ordered by their start.
    end : callable
        Ends a candidate; its second argument is the reason.
    spare : callable
        Frees unused memory; returns whether there was any.
    """

    def __init__(
        self,
        limit_bytes: int,
        pids: Callable[[], Iterable[int]],
        ask: Callable[[], None],
        candidates: Callable[[], Iterable[Candidate]],
        end: Callable[[Candidate, str], None],
        spare: Callable[[], bool],
    ) -> None:
        self._limit = int(limit_bytes * settings.number(*_THRESHOLD))
        self._least_free = 1 - settings.number(*_THRESHOLD)
        self._period_s = settings.number(*_REFRESH) / 1000
        self._pids, self._spare = pids, spare
        self._ask, self._candidates, self._end = ask, candidates, end
        self._timer: asyncio.TimerHandle | None = None
        self._victim: Candidate | None = None

    def start(self) -> None:
        """Start checking, unless this is switched off."""
        if self._period_s:
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._look)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        is_short = False
        try:
            # Until the last one has ended, its memory is not free.
            if self._victim is None or self._victim.executor.ended.done():
                self._victim = None
                is_short = bool(self._shortage())
        finally:
            if is_short:
                self._ask()
                self._timer = asyncio.get_running_loop().call_later(_ANSWER_S, self._decide)
            else:
                self.start()

    def _decide(self) -> None:
        try:
            if shortage := self._shortage():
                self._victim = choose(self._candidates())
                if self._victim is not None:
                    self._end(self._victim, shortage)
        finally:
            self.start()

    def _shortage(self) -> str:
        """Return a description of the lack of memory; empty when there is enough."""
        of_machine = self._shortage_of_machine()
        if of_machine and self._spare():
            of_machine = self._shortage_of_machine()
        if of_machine:
            return of_machine
        pids = list(self._pids())
        if sum(map(processes.private_bytes_at_most, pids)) <= self._limit:
            return ""
        used = sum(map(processes.private_bytes, pids))
        if used <= self._limit:
            return ""
        return f"Its processes had {_gigabytes(used)}, and may use {_gigabytes(self._limit)}."

    def _shortage_of_machine(self) -> str:
        machine = psutil.virtual_memory()
        if machine.available >= self._least_free * machine.total:
            return ""
        return (
            f"Of the machine's {_gigabytes(machine.total)} of memory "
            f"{_gigabytes(machine.available)} were left."
        )


def _gigabytes(count: float) -> str:
    return f"{count / 2**30:.2f} GiB"
