"""The scheduler plugin: what Dask's scheduler tells raycompat, passed on to whom it concerns.

The road of a call here: `Calls.submit` makes it a parked Dask task; Dask moves it to ``no-worker``
when its dependencies are there (`Calls.follow`); the `Dispatcher` acquires its resources in the ledger,
sends the node a grant and lets the task go to it; when it leaves ``processing`` the resources are free
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import distributed

from raycompat import _dask_adapter as dask
from raycompat._protocol import entry
from raycompat._scheduler.core import Core

if TYPE_CHECKING:
    from distributed import Scheduler


class SchedulerPlugin(distributed.SchedulerPlugin):
    """See the module. One per scheduler, registered idempotently by every driver."""

    name = entry.PLUGIN_NAME
    idempotent = True

    #: Made where the scheduler is.
    core: Core

    def start(self, scheduler: Scheduler) -> None:
        """Register what callers and nodes may ask for."""
        dask.keep_values_at_home(scheduler)
        self.core = Core(scheduler)
        handlers = dask.guarded(self.core.stream_handlers(), self.core.tell_of_error)
        scheduler.stream_handlers.update(handlers)
        scheduler.handlers.update(self.core.handlers())
        self.core.liveness.start()
        dask.add_pages(scheduler, self._pages, menu="ray")

    def _pages(self) -> dict[str, Callable[..., None]]:
        from raycompat._scheduler.pages import documents  # Bokeh is slow to import

        return documents.applications(self.core)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Forget a node."""
        self.core.nodes.left(worker)

    def add_client(self, scheduler: Scheduler, client: str) -> None:
        """Make a new client's stream quick, once it is there."""
        asyncio.get_running_loop().call_soon(dask.send_client_batches_at_once, scheduler, client)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End what a caller that is gone has left."""
        self.core.client_left(client)

    def update_graph(self, scheduler: Scheduler, **_: Any) -> None:
        """Hear that Dask has taken a graph in."""
        self.core.objects.graph_came()

    def transition(self, key: str, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Follow what becomes of a task, in the middle of Dask's own transitions."""
        ran = start == "processing" and "startstops" in kwargs
        if ran:
            self.core.endings.ran(key, failed=finish == "erred", **kwargs)
        self.core.calls.follow(key, start, finish)
        if finish == "erred" and not ran:
            self.core.endings.failed(key)
        self.core.objects.follow(key, start, finish)
        if finish == "forgotten":
            self.core.shown.forget(key)

    async def close(self) -> None:
        """Remove what drivers have uploaded: the scheduler ends."""
        self.core.liveness.stop()
        self.core.metrics.close()
        self.core.packages.close()
