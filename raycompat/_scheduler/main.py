"""A scheduler process that raycompat starts (`_launch.process`)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import dask
from distributed import Scheduler

from raycompat._dask import security
from raycompat._dask import servers as adapter
from raycompat._host import lifeline, open_files
from raycompat._protocol import current_cluster
from raycompat._protocol.shared_secret import Credentials, Token
from raycompat._scheduler.dashboard import serve_on_demand


async def _serve(options: dict[str, Any], credentials: Token | Credentials | None) -> None:
    dashboard = options["dashboard_address"]
    scheduler = Scheduler(
        host=options.get("host", "127.0.0.1"),
        port=options.get("port", 0),
        dashboard=False,
        dashboard_address=dashboard or "127.0.0.1:0",
        protocol=options.get("scheme"),
        security=security.dask_security(credentials),
    )
    if dashboard:
        serve_on_demand(scheduler)
    if credentials is not None:  # it listens, but answers no request before the next await
        security.guard(scheduler.http_server, credentials)
    adapter.close_idle_pages(scheduler)
    async with scheduler:
        url = None
        if dashboard:
            host = dashboard.rpartition(":")[0]
            url = security.link(scheduler.http_server, f"{host}:{scheduler.http_server.port}")
        lifeline.say({"address": scheduler.address, "dashboard": url})
        await lifeline.told_to_end()


def main() -> None:
    """Run the scheduler until its standard input closes or a signal arrives."""
    adapter.keep_command_line()
    adapter.guard_listeners()
    open_files.allow_many()
    options = json.loads(sys.argv[1])
    with lifeline.removing(options["directory"]):
        try:
            _run(options)
        finally:
            current_cluster.forget(os.getpid())  # its program may have been killed


def _run(options: dict[str, Any]) -> None:
    credentials: Any = lifeline.read_words() if options.get("secured") else None
    settings = {
        # A node may be busy for long: its death shows in its connection, not in its silence.
        "distributed.scheduler.worker-ttl": None,
        # It uses no GPU, and Dask's monitor fails where CUDA_VISIBLE_DEVICES names one that does not
        # exist.
        "distributed.diagnostics.nvml": False,
        "temporary-directory": options["directory"],
    }
    with dask.config.set(settings):
        asyncio.run(_serve(options, credentials))


if __name__ == "__main__":
    main()
