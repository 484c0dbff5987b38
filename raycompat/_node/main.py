"""A node process that raycompat starts (`_launch.process`)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from typing import Any

import dask
from distributed import Worker

from raycompat._dask import security
from raycompat._dask import servers as adapter
from raycompat._host import lifeline
from raycompat._node import forkserver_client
from raycompat._protocol.shared_secret import Credentials, Token


class _NodeWorker(Worker):
    """A Dask worker whose web pages require the cluster's token, if the cluster has one."""

    credentials: Token | Credentials | None = None

    def start_http_server(self, *args: object, **kwargs: object) -> None:
        """Start listening. No request is handled before the guard is set: the loop runs later."""
        super().start_http_server(*args, **kwargs)
        if self.credentials is not None:
            security.guard(self.http_server, self.credentials)


async def _serve(options: dict[str, Any]) -> None:
    with lifeline.removing(options["directory"]):
        is_told_to_end = await _serve_until_told(options)
    # No thread may keep a closed node alive.
    os._exit(0 if is_told_to_end else 1)


async def _serve_until_told(options: dict[str, Any]) -> bool:
    """Run the node; return whether it got an order to end."""
    words = await asyncio.to_thread(lifeline.read_words)
    credentials: Token | Credentials | None = words.get("credentials")
    node = _NodeWorker(
        words["scheduler"],
        nthreads=max(1, int(options["resources"]["CPU"])),
        resources=options["resources"],
        memory_limit=options["memory_bytes"],
        local_directory=options["directory"],
        host=options.get("host", "127.0.0.1"),
        port=options.get("port", 0),
        dashboard_address="127.0.0.1:0",
        security=security.dask_security(credentials),
    )
    node.credentials = credentials
    told_to_end = asyncio.ensure_future(lifeline.told_to_end())
    joined = asyncio.ensure_future(node.start())  # a scheduler may never answer
    await asyncio.wait([told_to_end, joined], return_when=asyncio.FIRST_COMPLETED)
    if joined.done():
        joined.result()
        gc.freeze()  # later collections need not scan the objects so far
        lifeline.say({"address": node.address})
        closed = asyncio.ensure_future(node.finished())
        await asyncio.wait([told_to_end, closed], return_when=asyncio.FIRST_COMPLETED)
        await node.close()
    return told_to_end.done()


def main() -> None:
    """Run the node until its standard input closes or a signal arrives."""
    adapter.keep_command_line()
    adapter.guard_listeners()
    options = json.loads(sys.argv[1])
    forkserver_client.fork_early()
    store = options["resources"].get("object_store_memory")
    settings = {
        "distributed.worker.memory.terminate": False,
        # Dask's monitor fails where CUDA_VISIBLE_DEVICES names GPUs that do not exist.
        "distributed.diagnostics.nvml": False,
    }
    if store is not None:
        # Dask then moves the least recently used values to disk. A quarter is left for values that are
        # being written, or that their writers keep.
        settings["distributed.worker.memory.target"] = 0.75 * store / options["memory_bytes"]
    with dask.config.set(settings):
        asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
