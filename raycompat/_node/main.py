"""The node process of a local cluster: ``python -m raycompat._node.main <options>``."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from typing import Any

import dask
from distributed import Worker

from raycompat._node import executor_pool, labels


async def _serve(options: dict[str, Any]) -> None:
    words = json.loads(await asyncio.to_thread(sys.stdin.readline))
    async with Worker(
        words["scheduler"],
        nthreads=max(1, int(options["resources"]["CPU"])),
        resources=options["resources"],
        memory_limit=options["memory_bytes"],
        local_directory=options["directory"],
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    ) as worker:
        print(json.dumps({"address": worker.address}), flush=True)
        told_to_end = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        closed = asyncio.ensure_future(worker.finished())
        await asyncio.wait([told_to_end, closed], return_when=asyncio.FIRST_COMPLETED)
    shutil.rmtree(options["directory"], ignore_errors=True)
    # A thread that still reads standard input must not keep a node alive that has closed.
    os._exit(0 if told_to_end.done() else 1)


def main() -> None:
    """Run the node until standard input closes."""
    options = json.loads(sys.argv[1])
    executor_pool.fork_early()
    if options["labels"]:
        os.environ[labels.VARIABLE] = json.dumps(options["labels"])
    store = options["resources"].get("object_store_memory")
    settings = {"distributed.worker.memory.terminate": False}
    if store is not None:
        # Dask then moves what was not used for longest to disk. A quarter is left for what is being
        # written, or kept by its writer.
        settings["distributed.worker.memory.target"] = 0.75 * store / options["memory_bytes"]
    with dask.config.set(settings):
        asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
