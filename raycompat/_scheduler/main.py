"""The scheduler process of a local cluster: ``python -m raycompat._scheduler.main <options>``."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from typing import Any

import dask
from distributed import Scheduler


async def _serve(options: dict[str, Any]) -> None:
    dashboard = options["dashboard_address"]
    async with Scheduler(
        host="127.0.0.1",
        port=0,
        dashboard=bool(dashboard),
        dashboard_address=dashboard or "127.0.0.1:0",
    ) as scheduler:
        url = None
        if dashboard:
            host = dashboard.rpartition(":")[0]
            url = f"{host}:{scheduler.http_server.port}"
        print(json.dumps({"address": scheduler.address, "dashboard": url}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    shutil.rmtree(options["directory"], ignore_errors=True)


def main() -> None:
    """Run the scheduler until standard input closes."""
    options = json.loads(sys.argv[1])
    settings = {
        # The node may be busy for long: its death is seen by its connection, not by its silence.
        "distributed.scheduler.worker-ttl": None,
        "temporary-directory": options["directory"],
    }
    with dask.config.set(settings):
        asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
