"""The scheduler plugin: it passes Dask's events on to the parts of raycompat.

A call takes these steps here. `Calls.submit` makes it a parked Dask task. Dask moves it to
``no-worker`` when its dependencies are ready (`Calls.follow`). The `Dispatcher` acquires its resources
in the ledger, sends the node a grant, and starts the task there. When the task leaves ``processing``,
its resources are freed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import distributed

from raycompat._dask import pages as dask_pages
from raycompat._dask import recording, scheduler_changes
from raycompat._dask import scheduler as dask_scheduler
from raycompat._dask import streams as dask_streams
from raycompat._dask.scheduler import DaskScheduler
from raycompat._dask.streams import TakeBack
from raycompat._host import open_files
from raycompat._messages import unrecorded
from raycompat._messages.watching import CountCalls, Overview
from raycompat._protocol import task_bodies
from raycompat._scheduler import dashboard, job_requests
from raycompat._scheduler.watched_parts import WatchedParts

if TYPE_CHECKING:
    from distributed import Scheduler


class SchedulerPlugin(distributed.SchedulerPlugin):
    """Dask's plugin in the scheduler. Every driver registers it; a second time has no effect."""

    name = task_bodies.PLUGIN_NAME
    idempotent = True

    #: Created in the scheduler's process.
    parts: WatchedParts

    def start(self, scheduler: Scheduler) -> None:
        """Register the handlers of messages and requests."""
        self.parts = WatchedParts(DaskScheduler(scheduler), partial(dashboard.link, scheduler))
        self._scheduler = scheduler
        undo_at_the_end = self.parts.guest.undo_at_the_end
        # Each client has two connections, and each worker one.
        undo_at_the_end(open_files.allow_many())
        handlers = dask_streams.guarded(self.parts.stream_handlers(), self.parts.tell_of_error)
        requests = self.parts.handlers() | self._requests_of_pages()
        if (recorder := recording.begin(scheduler, unrecorded.KINDS)) is not None:
            handlers = recorder.recorded("message", handlers)
            requests = recorder.recorded("request", requests)
            undo_at_the_end(recorder.stop)
        self.parts.guest.remove_handlers = dask_streams.add_handlers(
            scheduler.stream_handlers, handlers
        )
        undo_at_the_end(scheduler_changes.let_calls_wait(scheduler))
        undo_at_the_end(scheduler_changes.scale_for(scheduler, self.parts.nodes_wanted))
        undo_at_the_end(dask_streams.add_handlers(scheduler.handlers, requests))
        for take_back in self.parts.restarts.start(scheduler):
            undo_at_the_end(take_back)
        undo_at_the_end(self.parts.close)
        self.parts.guest.start(self, partial(scheduler_changes.keep_values_at_home, scheduler))
        routes = self.parts.job_requests.routes()
        undo_at_the_end(dask_pages.add_routes(scheduler, job_requests.PATTERN, routes))
        undo_at_the_end(dashboard.when_imported(scheduler, self._add_pages))

    def _requests_of_pages(self) -> dict[str, Callable[..., object]]:
        """Return the handlers of requests for what pages show, which import them at the first one."""

        async def overview(_: Overview) -> dict[str, object]:
            from raycompat._scheduler.pages import questions

            return await questions.overview(self.parts)

        async def count_calls(request: CountCalls) -> dict[str, int]:
            from raycompat._scheduler.pages import questions

            return await questions.count_calls(self.parts, request.name)

        return dict([Overview.answered(overview), CountCalls.answered(count_calls)])

    def _add_pages(self) -> TakeBack:
        return dask_pages.add_pages(self._scheduler, self._pages, menu="ray")

    def _pages(self) -> dict[str, Callable[..., None]]:
        from raycompat._scheduler.pages import documents  # Bokeh is slow to import

        return documents.applications(self.parts)

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Note that a worker has joined."""
        self.parts.ground.nodes.joined[worker] = time.monotonic()

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: object) -> None:
        """Remove a node."""
        self.parts.nodes.left(worker, is_worker=False)

    def log_event(self, topic: str, msg: object) -> None:
        """Start calls that waited for a paused worker. Dask logs the change just before it makes it."""
        if dask_scheduler.is_change_of_status(msg):
            self.parts.ground.next_round.soon()

    def add_client(self, scheduler: Scheduler, client: str) -> None:
        """Make the stream of a new client of ours fast, once it exists."""
        if dask_scheduler.is_our_client(client):
            at_once = self.parts.ground.dask.send_client_batches_at_once
            asyncio.get_running_loop().call_soon(at_once, client)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Clean up after a client that has left."""
        self.parts.client_left(client)

    def update_graph(
        self, scheduler: Scheduler, *, tasks: list[str], keys: set[str], **_: object
    ) -> None:
        """Handle a new Dask graph."""
        self.parts.objects.graph_came(tasks, keys)

    def transition(
        self, key: str, start: str, finish: str, *args: object, **kwargs: object
    ) -> None:
        """Follow the transitions of tasks; called during Dask's own transitions."""
        self.parts.task_moved(key, start, finish, **kwargs)

    async def close(self) -> None:
        """Stop the checks and remove uploaded packages, because the scheduler ends."""
        self.parts.guest.stop()
        self.parts.liveness.stop()
        self.parts.figures.stop()
        self.parts.close()
