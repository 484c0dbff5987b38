"""Other users end workers: ``restart``, ``restart_workers`` and ``retire_workers`` of Dask's clients.

Dask's ``restart`` forgets all tasks and ends all workers. Here it forgets those of Dask's clients only.
For raycompat, all nodes die at once: results are computed again, and actors restart. The error
of a value that is lost nevertheless names the user who has ended the worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from raycompat._dask import scheduler_changes
from raycompat._dask import streams as dask_streams

if TYPE_CHECKING:
    from distributed import Scheduler

    from raycompat._scheduler.ground import Ground
    from raycompat._scheduler.logs import Logs

#: Why another user ends the workers that are removed now. It is empty at other removals.
_cause: ContextVar[str] = ContextVar("_cause", default="")


def cause() -> str:
    """Return who ends the worker that is removed now, as a sentence to append to an error's text.

    Empty if nobody does: the worker has died.
    """
    return _cause.get()


@contextmanager
def _because(text: str) -> Iterator[None]:
    token = _cause.set(text)
    try:
        yield
    finally:
        _cause.reset(token)


#: A method of Dask's scheduler that ends workers.
_Ending: TypeAlias = Callable[..., Awaitable[object]]


class Restarts:
    """The requests of users of Dask that end workers."""

    def __init__(
        self,
        ground: Ground,
        logs: Logs,
    ) -> None:
        self._ground = ground
        self._logs = logs
        self._dask = ground.dask
        #: Workers that were told to end, and why, until they are removed.
        self._ending: dict[str, str] = {}

    def cause(self, worker: str) -> str:
        """Return who ends a worker, also before it is removed: it returns its tasks first."""
        return self._ending.get(worker) or cause()

    def note_end(self, worker: str, text: str) -> None:
        """Note why a worker is about to end."""
        self._ending[worker] = text

    def forget_end(self, worker: str) -> None:
        """Forget what `note_end` has noted, because the worker goes on."""
        self._ending.pop(worker, None)

    def start(self, scheduler: Scheduler) -> Iterator[dask_streams.TakeBack]:
        """Take the requests; iterate over what takes each of them back."""
        replacements: dict[str, Callable[..., Awaitable[object]]] = {
            "restart": self._restart,
            "restart_workers": self._restart_workers,
            "retire_workers": self._retire_workers,
            "remove_worker": self._remove_worker,
        }
        for name, replacement in replacements.items():
            yield scheduler_changes.replace_method(scheduler, name, replacement)

    async def _restart(self, original: _Ending, by: str, **fields: Any) -> object:
        text = f" The Dask cluster was restarted by {by}."
        jobs = list(self._ground.jobs.open)
        with _because(text):
            if not jobs:
                return await original(**fields)
            for job in jobs:
                self._logs.tell(job, f"raycompat:{text}")
            self._dask.forget_tasks_of_others(fields["stimulus_id"])
            return await self._dask.restart_workers(**fields)

    async def _restart_workers(
        self,
        original: _Ending,
        by: str,
        workers: list[str] | None = None,
        *,
        timeout: float | None = 30,  # Dask's default; None is without limit
        **fields: object,
    ) -> object:
        self._ground.nodes.expect_return(timeout)
        text = cause() or f" The Dask worker was restarted by {by}."
        ending = list(self._dask.workers()) if workers is None else workers
        self._ending.update(dict.fromkeys(ending, text))
        return await original(workers, timeout=timeout, **fields)

    async def _retire_workers(self, original: _Ending, by: str, **fields: object) -> object:
        with _because(f" The Dask worker was retired by {by}."):
            return await original(**fields)

    async def _remove_worker(
        self, original: _Ending, by: str, address: str, **fields: object
    ) -> object:
        with _because(self._ending.pop(address, "") or cause()):
            return await original(address, **fields)
