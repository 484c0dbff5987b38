"""The Dask client of raycompat's processes."""

from __future__ import annotations

from typing import cast

from distributed import Client, metrics
from tornado.platform.asyncio import AsyncIOLoop

from raycompat._host import clock


class DaskClient(Client):
    """A Dask client whose id begins with this class's name (see `_dask.scheduler.is_our_client`)."""

    @property
    def loop(self) -> AsyncIOLoop:
        """Its event loop. Dask asks for it before the client connects, which needs timers."""
        loop = cast(AsyncIOLoop, super().loop)
        clock.keep_running(loop.asyncio_loop)
        # Dask's deadlines are of this clock. Once a program has replaced `time.time`, Tornado's own
        # differs from it by years, and no message would be sent for as long.
        loop.time = lambda: float(metrics.time())  # type: ignore[method-assign]
        return loop
