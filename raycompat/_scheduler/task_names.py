"""The names of calls in Dask's statistics, and the removal of old ones.

Dask keeps a `TaskPrefix` for ever for each name that a task had. Programs may give each call a
different name. So, of the names without a task, only those used last are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raycompat._dask.scheduler import DaskScheduler

#: The number of names without a task that are kept for the dashboard: about 3 KB each.
NUM_KEPT = 200


class TaskNames:
    """The names without tasks, by the time of their last use."""

    def __init__(self, dask: DaskScheduler) -> None:
        self._dask = dask
        #: Names whose last call may have ended; the one that ended last is at the end.
        self._idle: dict[str, None] = {}

    def note_end(self, name: str) -> None:
        """Record that a call of this name was forgotten."""
        self._idle.pop(name, None)
        self._idle[name] = None
        while len(self._idle) > NUM_KEPT:
            oldest = next(iter(self._idle))
            del self._idle[oldest]  # a name with a task is recorded again when the task ends
            self._dask.forget_prefix(oldest)
