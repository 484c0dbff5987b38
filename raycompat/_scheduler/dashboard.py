"""The dashboard of a scheduler that raycompat starts: its pages are imported at the first request.

The pages are drawn by Bokeh. Importing it takes a third of the time that a program needs from ``init``
to its first result, and most programs end before a page is opened.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tornado import web
from tornado.httputil import HTTPMessageDelegate

from raycompat._dask import pages as adapter
from raycompat._dask import security
from raycompat._dask.streams import TakeBack
from raycompat._scheduler import job_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from distributed import Scheduler
    from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine, ResponseStartLine

logger = logging.getLogger(__name__)

#: The name of the `Dashboard` among the scheduler's extensions.
_NAME = "raycompat-dashboard"

#: What only programs ask for; these addresses need no pages.
_WITHOUT_PAGES = re.compile(rf"/health|/metrics|{job_requests.PATTERN}")


def serve_on_demand(scheduler: Scheduler) -> None:
    """Serve the dashboard of a scheduler that was made without one and has had no request so far."""
    dashboard = scheduler.extensions[_NAME] = Dashboard(scheduler)
    scheduler.http_server.request_callback = dashboard


def link(scheduler: Scheduler) -> str | None:
    """Return the address of the scheduler's dashboard; None if it has no pages."""
    if _NAME not in scheduler.extensions and not scheduler.http_application.applications:
        return None
    return security.link(scheduler.http_server, adapter.place_of_dashboard(scheduler))


def when_imported(scheduler: Scheduler, add: Callable[[], TakeBack]) -> TakeBack:
    """Call `add` when Dask's pages have been imported, which may be now."""
    dashboard = scheduler.extensions.get(_NAME)
    if dashboard is None or dashboard.is_imported:
        return add()
    addition = Addition(add)
    dashboard.additions.append(addition)
    return addition.take_back


class Addition:
    """Pages that are added when Dask's are imported, unless they are taken back before."""

    def __init__(self, add: Callable[[], TakeBack]) -> None:
        self._add: Callable[[], TakeBack] | None = add
        self._remove: TakeBack | None = None

    def make(self) -> None:
        """Add the pages."""
        if self._add is not None:
            self._remove = self._add()

    def take_back(self) -> None:
        """Remove the pages, or do not add them."""
        self._add = None
        if self._remove is not None:
            self._remove()


class Dashboard(web.Application):
    """An application in front of that of the scheduler, to which it adds the pages."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._importing: asyncio.Task[None] | None = None
        #: More pages.
        self.additions: list[Addition] = []

    @property
    def is_imported(self) -> bool:
        """Whether the pages are there, or the page that says what they need."""
        return self._importing is not None and self._importing.done()

    def find_handler(self, request: HTTPServerRequest, **kwargs: object) -> Any:
        """Return the handler of a request."""
        if not self.is_imported and _WITHOUT_PAGES.fullmatch(request.path) is None:
            return _Waiting(self, request)
        return self._scheduler.http_application.find_handler(request, **kwargs)

    async def wait_until_imported(self) -> None:
        """Import the pages, or wait for another request that has begun to."""
        if self._importing is None:
            self._importing = asyncio.create_task(self._import())
        await asyncio.shield(self._importing)

    async def _import(self) -> None:
        try:
            await asyncio.to_thread(adapter.import_dashboard)  # the scheduler goes on meanwhile
        except ImportError:
            logger.exception("The dashboard has no pages, because they could not be imported.")
            adapter.add_page_without_bokeh(self._scheduler)
        else:
            adapter.add_dashboard(self._scheduler)
        for addition in self.additions:
            addition.make()


class _Waiting(HTTPMessageDelegate):
    """A request that waits until the pages are imported."""

    def __init__(self, dashboard: Dashboard, request: HTTPServerRequest) -> None:
        self._dashboard = dashboard
        self._request = request
        self._handler: HTTPMessageDelegate | None = None

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Find the handler; no other method is called before this one is done, but for a close."""
        await self._dashboard.wait_until_imported()
        self._handler = self._dashboard.find_handler(self._request)
        answer = self._handler.headers_received(start_line, headers)
        if answer is not None:
            await answer

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass on a part of the request's body."""
        assert self._handler is not None
        return self._handler.data_received(chunk)

    def finish(self) -> None:
        """Answer."""
        assert self._handler is not None
        self._handler.finish()

    def on_connection_close(self) -> None:
        """Tell the handler that the connection has closed."""
        if self._handler is not None:
            self._handler.on_connection_close()
