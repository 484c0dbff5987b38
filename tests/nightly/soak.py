"""Very many small tasks and objects on one cluster, and whose memory grows: ``make soak``.

The unique set size (what would be free if the process ended) of the driver, the scheduler and the
node, when a tenth of the work is done and when all is, each time once nothing is left of what was
done. Ends with 1 if one of them has grown by more than `BOUND`, or if a value was wrong.

Then many drivers come and go, each with other functions, each of which asks for another amount
of CPUs. Ends with 1 if the scheduler's unique set size is not what it was after the first tenth of
them, but for `JOBS_BOUND` of it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import raycompat as ray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _left_over import LeftOver  # noqa: E402

NUM_TASKS = 300_000
NUM_OBJECTS = 20_000
#: How many of the objects have 1 MB; the others have 100 bytes.
NUM_LARGE = 500
NUM_BATCHES = 100
#: Bytes that a process may grow by between a tenth and the end of the work, however much that is.
#: What Dask keeps of the past is bounded: log lines, events, and what it has split of the last 100,000
#: keys (`dask.utils.key_split`), which is some 20 MB in the scheduler and in each node.
BOUND = 30_000_000
#: Drivers that come and go, the functions of each, and how often each of these is called.
NUM_JOBS, NUM_SHAPES, NUM_CALLS = 50, 200, 100
#: Share of the scheduler's unique set size that it may change by between a tenth of them and all.
JOBS_BOUND = 0.05
#: Seconds after which what is still there counts as left over, as in tests/conftest.py.
LEFT_S = 20.0


@ray.remote
def node_of() -> int:
    """Return the pid of the node: executors are children of its forkserver."""
    return psutil.Process().parent().ppid()


@ray.remote
def double(number: int) -> int:
    return 2 * number


@ray.remote
def size_of(value: object) -> int:
    return len(value)


@ray.remote
def size_inside(refs: list[Any]) -> int:
    return sum(map(len, ray.get(refs)))


def batch(number: int, num_tasks: int, num_small: int, num_large: int) -> None:
    """Make some objects and run some tasks, a part of which looks at the objects; check all."""
    small = [ray.put(bytes([number % 256]) * 100) for _ in range(num_small)]
    large = [ray.put(np.full(1_000_000, number % 256, dtype=np.uint8)) for _ in range(num_large)]
    read = [size_of.remote(ref) for ref in small[::10]] + [size_of.remote(ref) for ref in large]
    inside = size_inside.remote(small[:10] + large)
    firsts = [double.remote(i) for i in range((num_tasks - len(read) - 1) // 2)]
    seconds = [double.remote(first) for first in firsts]
    assert ray.get(seconds) == [4 * i for i in range(len(seconds))]
    assert ray.get(read) == [100] * len(small[::10]) + [1_000_000] * num_large
    assert ray.get(inside) == 100 * len(small[:10]) + 1_000_000 * num_large
    assert all(value == bytes([number % 256]) * 100 for value in ray.get(small))
    for array in ray.get(large):
        assert array[0] == array[-1] == number % 256


JOB = """
import sys
import raycompat as ray

address, job, num_shapes, num_calls = sys.argv[1], *map(int, sys.argv[2:])
ray.init(address, configure_logging=False)

def named(number):
    def call():
        return number
    call.__name__ = call.__qualname__ = f"call_{number}"
    return ray.remote(num_cpus=(number + 1) / 10_000)(call)

first = job * num_shapes
calls = [named(number) for number in range(first, first + num_shapes)]
refs = [call.remote() for _ in range(num_calls) for call in calls]
assert ray.get(refs) == num_calls * list(range(first, first + num_shapes))
# By the scheduler, which sees each call then.
assert ray.get([call.options(scheduling_strategy="SPREAD").remote() for call in calls[:20]]) == list(range(first, first + 20))
"""


def jobs_that_come_and_go(address: str, scheduler: psutil.Process, num_jobs: int) -> bool:
    """Run that many drivers, one after the other; return whether the scheduler is what it was."""
    early, began = 0, time.monotonic()
    for job in range(num_jobs):
        command = [sys.executable, "-c", JOB, address, *map(str, (job, NUM_SHAPES, NUM_CALLS))]
        subprocess.run(command, check=True)
        if (job + 1) % max(1, num_jobs // 10) == 0:
            uss = scheduler.memory_full_info().uss
            early = early or uss
            seconds, num_calls = time.monotonic() - began, (job + 1) * NUM_SHAPES * NUM_CALLS
            print(
                f"{job + 1} jobs, {(job + 1) * NUM_SHAPES} named shapes, {num_calls} calls, "
                f"{seconds:.0f} s; scheduler {uss / 1e6:.1f} MB ({uss / early - 1:+.1%})",
                flush=True,
            )
    return abs(uss / early - 1) <= JOBS_BOUND


def main(num_tasks: int, num_jobs: int) -> bool:
    """Run that many tasks and jobs; return whether no process has grown by more than it may."""
    left_over = LeftOver()
    with ray.init(num_cpus=2, include_dashboard=False, configure_logging=False) as context:
        node = psutil.Process(ray.get(node_of.remote()))
        (forkserver,) = psutil.Process().children()
        (scheduler,) = (p for p in forkserver.children() if p.pid != node.pid)
        processes = {"driver": psutil.Process(), "scheduler": scheduler, "node": node}
        began = time.monotonic()
        early: dict[str, int] = {}
        num_objects = NUM_OBJECTS // NUM_BATCHES
        num_large = NUM_LARGE // NUM_BATCHES
        for number in range(1, NUM_BATCHES + 1):
            batch(number, num_tasks // NUM_BATCHES, num_objects - num_large, num_large)
            if number % (NUM_BATCHES // 10) == 0:
                left_over.wait_until_none(LEFT_S)
                used = {name: each.memory_full_info().uss for name, each in processes.items()}
                early = early or used
                sizes = ", ".join(f"{name} {uss / 1e6:.1f} MB" for name, uss in used.items())
                seconds = time.monotonic() - began
                done = number * (num_tasks // NUM_BATCHES)
                print(f"{done} tasks, {seconds:.0f} s; USS: {sizes}", flush=True)
        is_bounded = jobs_that_come_and_go(context.address_info["address"], scheduler, num_jobs)
    left_over.wait_until_none(LEFT_S)
    grown = {name: used[name] - early[name] for name in used}
    for name, growth in grown.items():
        verdict = "within" if growth <= BOUND else "MORE THAN"
        print(f"{name}: {growth / 1e6:+.1f} MB, {verdict} the bound of {BOUND / 1e6:.0f} MB")
    return is_bounded and all(growth <= BOUND for growth in grown.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks", type=int, nargs="?", default=NUM_TASKS)
    parser.add_argument("jobs", type=int, nargs="?", default=NUM_JOBS)
    arguments = parser.parse_args()
    sys.exit(0 if main(arguments.tasks, arguments.jobs) else 1)
