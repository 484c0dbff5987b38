"""Values of 100 MiB and 1 GiB, stored, passed and returned: raycompat and real Ray, in one run.

    python benchmarks/large_values.py --rounds 3 --ray-python .venv-ray/bin/python
    python benchmarks/large_values.py --busy 2

Each round starts a fresh process of each implementation, in turn. The time of a line is the median of
several repetitions. Its CPU time is that of the driver and of the processes that it has started, for
each repetition: other programs change it less. ``--busy N`` runs N processes that use a CPU each beside
it. ``--json FILE`` keeps every figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from microbenchmark import in_turn

SIZES = {"100 MiB": 100 << 20, "1 GiB": 1 << 30}

#: Repetitions of a line, after two that fill the store with memory to use again.
NUM_RUNS = 5

STORE_BYTES = 6 << 30


def cpu_s() -> float:
    """Return the CPU time of this process and of its children so far."""
    me, total = psutil.Process(), 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def lines(ray: Any, num_bytes: int) -> dict[str, Callable[[], object]]:
    """Return what is measured."""
    array = np.ones(num_bytes, np.uint8)

    @ray.remote
    def same(value: Any) -> Any:
        return value

    @ray.remote
    def make() -> Any:
        return np.ones(num_bytes, np.uint8)

    return {
        "put": lambda: ray.put(array),
        "there and back": lambda: ray.get(same.remote(ray.put(array))),
        "as an argument": lambda: ray.get(same.remote(array)),
        "returned": lambda: ray.get(make.remote()),
    }


def measure(impl: str) -> dict[str, float]:
    """Return the seconds of each line."""
    ray: Any = importlib.import_module(impl)
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=STORE_BYTES)
    found = {}
    for size, num_bytes in SIZES.items():
        for name, work in lines(ray, num_bytes).items():
            work()
            work()
            took, used = [], cpu_s()
            for _ in range(NUM_RUNS):
                start = time.perf_counter()
                work()
                took.append(time.perf_counter() - start)
            found[f"{size}, {name} (s)"] = statistics.median(took)
            found[f"{size}, {name}, CPU time (s)"] = (cpu_s() - used) / NUM_RUNS
    return found


def main() -> None:
    """Measure in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="measure this implementation")
    parser.add_argument("--ray-python", default=".venv-ray/bin/python", help="Python that has Ray")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, help="processes that use a CPU each")
    parser.add_argument("--json", type=Path, help="keep every figure in this file")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    pythons = {"raycompat": sys.executable, "ray": given.ray_python}
    if given.only:
        pythons = {given.only: pythons[given.only]}
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    try:
        rounds = in_turn(__file__, pythons, given.rounds)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    if given.json is not None:
        given.json.write_text(json.dumps(rounds, indent=1) + "\n")
    print(f"{'':40}" + "".join(f"{name:>16}" for name in pythons))
    for line in rounds[next(iter(rounds))][0]:
        medians = [statistics.median(each[line] for each in rounds[name]) for name in pythons]
        print(f"{line:40}" + "".join(f"{median:16.3f}" for median in medians))


if __name__ == "__main__":
    main()
