"""The names of calls of which Dask keeps statistics, and which of these are to be forgotten.

Dask keeps a `TaskPrefix` for each name that a task ever had, for ever. Programs may give each call a
name of its own. So of the names without a task only those used last are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat import _dask_adapter as dask

if TYPE_CHECKING:
    from distributed import Scheduler

#: Names without a task that are kept, for the dashboard: some 3 KB each.
NUM_KEPT = 200


class TaskNames:
    """See the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: Names whose last call may have ended, the one that ended last at the end.
        self._idle: dict[str, None] = {}

    def note_end(self, name: str) -> None:
        """Hear that a call of this name has been forgotten."""
        self._idle.pop(name, None)
        self._idle[name] = None
        while len(self._idle) > NUM_KEPT:
            oldest = next(iter(self._idle))
            del self._idle[oldest]  # if it has a task, it is noted again when that ends
            dask.forget_prefix(self._scheduler, oldest)
