"""`multiprocessing.Pool` with small calls: raycompat's, real Ray's and Python's own, in one run.

    python benchmarks/pool.py --rounds 3 --ray-python .venv-ray/bin/python
    python benchmarks/pool.py --only raycompat

Each round starts a fresh process of each implementation, in turn. The pool has two processes, and
exists before the time is taken. ``--json FILE`` keeps every figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from microbenchmark import in_turn

NUM_CALLS, NUM_PROCESSES = 10_000, 2

#: Runs of one line in a process; the fastest counts, because other programs only slow a run down.
NUM_RUNS = 3

#: Seconds of one line after which it is not run again.
ENOUGH_S = 10

PYTHONS_OWN = "multiprocessing"


def increment(number: int) -> int:
    return number + 1


def new_pool(impl: str) -> Any:
    """Return a pool of the implementation."""
    if impl == PYTHONS_OWN:
        return importlib.import_module("multiprocessing").Pool(NUM_PROCESSES)
    ray: Any = importlib.import_module(impl)
    quiet = {"configure_logging": False, "include_dashboard": False}
    ray.init("local", num_cpus=NUM_PROCESSES, **quiet)
    return importlib.import_module(f"{impl}.util.multiprocessing").Pool(NUM_PROCESSES)


def rate(work: Callable[[], list[int]]) -> float:
    """Return the calls per second of the fastest run, after one to warm up if there is time."""
    expected = list(range(1, NUM_CALLS + 1))
    took: list[float] = []
    while len(took) <= NUM_RUNS and sum(took) < ENOUGH_S:
        start = time.perf_counter()
        results = work()
        took.append(time.perf_counter() - start)
        assert results == expected
    return NUM_CALLS / min(took[1:] or took)


def measure(impl: str) -> dict[str, float]:
    """Return the calls per second of each line."""
    numbers = range(NUM_CALLS)
    with new_pool(impl) as pool:
        return {
            "map of 10,000 calls": rate(lambda: pool.map(increment, numbers)),
            "map of 10,000 calls, chunksize=1": rate(
                lambda: pool.map(increment, numbers, chunksize=1)
            ),
        }


def main() -> None:
    """Measure in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="measure this implementation")
    parser.add_argument("--ray-python", default=".venv-ray/bin/python", help="Python that has Ray")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="keep every figure in this file")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    pythons = {"raycompat": sys.executable, "ray": given.ray_python, PYTHONS_OWN: sys.executable}
    if given.only:
        pythons = {given.only: pythons[given.only]}
    rounds = in_turn(__file__, pythons, given.rounds)
    if given.json is not None:
        given.json.write_text(json.dumps(rounds, indent=1) + "\n")
    print(f"{'':40}" + "".join(f"{name:>16}" for name in pythons))
    for line in rounds[next(iter(rounds))][0]:
        medians = [statistics.median(each[line] for each in rounds[name]) for name in pythons]
        print(f"{line:40}" + "".join(f"{median:16,.0f}" for median in medians))


if __name__ == "__main__":
    main()
