"""Calls that are no Dask tasks, in Dask's dashboard: its task stream, and its progress while they last.

Actors and leases report in batches when their calls ran. What one has reported counts in the progress
until it ends, as tasks do until they are forgotten.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from raycompat import _dask_adapter as dask

if TYPE_CHECKING:
    from distributed import Scheduler


class Shown:
    """See the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: How many calls were counted, by actor or lease, then by name and Dask's state.
        self._counted: dict[str, Counter[tuple[str, str]]] = {}

    def show(self, worker: str, key: str, pid: int, spans: list[Any]) -> None:
        """Enter spans of calls (`_executor.timeline.Span`) of an actor or a lease."""
        dask.show_in_task_stream(self._scheduler, worker, pid, spans)
        if not dask.known(self._scheduler, key):
            return
        counted = self._counted.setdefault(key, Counter())
        for name, _, count, _, _, failed in spans:
            state = "erred" if failed else "released"
            counted[name, state] += count
            dask.count_in_progress(self._scheduler, name, state, count)

    def forget(self, key: str) -> None:
        """Count the calls of an actor or a lease no more: it has ended."""
        for (name, state), count in self._counted.pop(key, {}).items():
            dask.count_in_progress(self._scheduler, name, state, -count)
