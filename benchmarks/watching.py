"""The cost of the dashboard's pages for a scheduler with many calls and objects.

    python benchmarks/watching.py

A cluster of eight nodes with 200 actors, 100,000 calls that have ended and 10,000 objects. It prints
how long the scheduler takes for an update of each page, the part of its time that it works without
and with a page that is open, and the memory of the history. The limit for an update is 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

import psutil

import raycompat as ray
from raycompat.cluster_utils import Cluster
from raycompat.util import dask, state

#: How many there are of each; the objects are those of the driver.
NUM_NODES, NUM_ACTORS, NUM_CALLS, NUM_OBJECTS = 8, 200, 100_000, 10_000

#: Milliseconds that an update of a page may take.
LIMIT_MS = 20.0

#: Updates that are measured, seconds between them, and between two looks at the scheduler's CPU time.
NUM_UPDATES, PERIOD_S, WATCHED_S = 20, 0.5, 4.0


@ray.remote(num_cpus=0, scheduling_strategy="SPREAD")
class Actor:
    """Does nothing."""

    def work(self, number: int) -> int:
        """Return the number."""
        return number


@ray.remote
def work(number: int) -> int:
    """Return the number."""
    return number


def fill(num_actors: int) -> list[Any]:
    """Run all calls; return what must live on."""
    actors = [Actor.remote() for _ in range(num_actors)]
    ray.get([actor.work.remote(0) for actor in actors])
    each = NUM_CALLS // num_actors
    ray.get([actor.work.remote(number) for actor in actors for number in range(each)])
    ray.get([work.remote(number) for number in range(NUM_CALLS // 10)])
    return [actors, [ray.put(number) for number in range(NUM_OBJECTS)]]


async def updates(dask_scheduler: Any) -> dict[str, list[float]]:
    """Return how long the updates of each page took, in milliseconds; runs in the scheduler.

    An update includes the message with the new rows for the browser.
    """
    from bokeh.document import Document
    from bokeh.protocol import Protocol

    from raycompat._scheduler.pages import documents

    def send(event: Any) -> None:
        message = Protocol().create("PATCH-DOC", [event])
        assert message.header_json
        assert message.content_json

    parts = dask_scheduler.plugins["raycompat"].parts
    found: dict[str, list[float]] = {}
    for name, (_, make) in documents.TABS.items():
        part, document = make(parts), Document()
        part.update()
        document.add_root(part.root)
        document.on_change(send)
        for _ in range(NUM_UPDATES):
            await asyncio.sleep(PERIOD_S / 5)
            begin = time.perf_counter()
            part.update()
            found.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))
    return found


async def watch(dask_scheduler: Any, name: str) -> dict[str, float]:
    """Return the part of its time that the scheduler works, with a page or with none."""
    from raycompat._scheduler.pages import documents

    parts = dask_scheduler.plugins["raycompat"].parts
    part = documents.TABS[name][1](parts) if name else None
    process, longest = psutil.Process(), 0.0
    before, begin = process.cpu_times(), time.monotonic()
    while time.monotonic() - begin < WATCHED_S:
        if part is not None:
            part.update()
        late = time.monotonic() + PERIOD_S
        await asyncio.sleep(PERIOD_S)
        longest = max(longest, time.monotonic() - late)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return {"share": used / (time.monotonic() - begin), "longest_ms": 1e3 * longest}


def start_clock(dask_scheduler: Any) -> None:
    """Note how late the scheduler's event loop is, until `stop_clock`."""

    async def tick() -> None:
        while True:
            due = time.monotonic() + 1e-3
            await asyncio.sleep(1e-3)
            dask_scheduler.longest_s = max(dask_scheduler.longest_s, time.monotonic() - due)

    dask_scheduler.longest_s = 0.0
    dask_scheduler.clock = asyncio.get_running_loop().create_task(tick())


async def stop_clock(dask_scheduler: Any) -> float:
    """Return the longest delay in milliseconds."""
    dask_scheduler.clock.cancel()
    return 1e3 * float(dask_scheduler.longest_s)


def memory(dask_scheduler: Any) -> dict[str, Any]:
    """Return how much the scheduler keeps of what has ended."""
    parts = dask_scheduler.plugins["raycompat"].parts
    history = parts.history
    spans = history.calls()
    return {
        "calls": len(history),
        "dropped": history.num_dropped,
        "spans": len(spans),
        "columns_mb": sum(len(each.calls) for each in spans) / 1e6,
        "rss_mb": psutil.Process().memory_info().rss / 1e6,
    }


def measure() -> bool:
    """Print all figures; return whether all updates were quick enough."""
    client, is_quick = dask.client(), True
    print("memory", client.run_on_scheduler(memory))
    for name, times in client.run_on_scheduler(updates).items():
        median, longest = statistics.median(times), max(times)
        is_quick = is_quick and median < LIMIT_MS
        print(f"{name:10} {median:6.1f} ms, at most {longest:6.1f} ms")
    for name in ("", "cluster", "tasks", "actors", "objects"):
        found = client.run_on_scheduler(watch, name=name)
        text = f"{found['share']:6.1%} of a CPU, late by {found['longest_ms']:.0f} ms at most"
        print(f"{name or 'no page':10} {text}")
    for ask in (state.list_tasks, state.list_actors, state.list_objects):
        client.run_on_scheduler(start_clock)
        begin = time.perf_counter()
        ask(limit=100, raise_on_missing_output=False)
        took = 1e3 * (time.perf_counter() - begin)
        late = client.run_on_scheduler(stop_clock)
        print(f"{ask.__name__:12} {took:6.0f} ms, scheduler late by {late:.0f} ms at most")
    return is_quick


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--actors", type=int, default=NUM_ACTORS)
    num_actors = parser.parse_args().actors
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    try:
        for _ in range(NUM_NODES - 1):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, configure_logging=False, log_to_driver=False)
        kept = fill(num_actors)
        is_quick = measure()
        del kept
        ray.shutdown()
    finally:
        cluster.shutdown()
    raise SystemExit(0 if is_quick else f"An update of a page takes more than {LIMIT_MS:g} ms.")


if __name__ == "__main__":
    main()
