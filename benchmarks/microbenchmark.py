"""Measure raycompat, and with ``--vs ray`` the real Ray in turn with it, in one run.

    python benchmarks/microbenchmark.py
    python benchmarks/microbenchmark.py --vs ray --ray-python .venv-ray/bin/python --rounds 3

Each round starts a fresh driver process of each implementation, so that both see the same machine.
The table has medians; ``--json FILE`` keeps every figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ARRAY_BYTES = 100 * 1024 * 1024


def rate(work: Callable[[], int], at_least_s: float = 1.0) -> float:
    """Return how many units a second `work`, which returns how many it did, gets done."""
    work()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < at_least_s:
        done += work()
    return done / (time.perf_counter() - start)


def measure(name: str) -> dict[str, float]:  # noqa: C901  (one small function a line)
    """Return the figures of one implementation: rates a second, and seconds where it says so."""
    import numpy as np

    ray: Any = importlib.import_module(name)
    figures: dict[str, float] = {}
    start = time.perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    figures["init (s)"] = time.perf_counter() - start

    @ray.remote
    def nothing(*_: Any) -> bytes:
        return b"ok"

    @ray.remote
    class Actor:
        def nothing(self, *_: Any) -> bytes:
            return b"ok"

    start = time.perf_counter()
    ray.get(nothing.remote())
    figures["first task (s)"] = time.perf_counter() - start

    def tasks_in_a_row() -> int:
        ray.get(nothing.remote())
        return 1

    def tasks_at_once() -> int:
        ray.get([nothing.remote() for _ in range(500)])
        return 500

    actor = Actor.remote()
    ray.get(actor.nothing.remote())

    def calls_in_a_row() -> int:
        ray.get(actor.nothing.remote())
        return 1

    def calls_at_once() -> int:
        ray.get([actor.nothing.remote() for _ in range(500)])
        return 500

    def actors() -> int:
        ray.get(Actor.remote().nothing.remote())
        return 1

    small = ray.put(0)
    array = np.ones(ARRAY_BYTES, dtype=np.uint8)

    def gets() -> int:
        for _ in range(100):
            ray.get(small)
        return 100

    def puts() -> int:
        for _ in range(100):
            ray.put(0)
        return 100

    figures["single client tasks sync"] = rate(tasks_in_a_row)
    figures["single client tasks async"] = rate(tasks_at_once)
    figures["1:1 actor calls sync"] = rate(calls_in_a_row)
    figures["1:1 actor calls async"] = rate(calls_at_once)
    figures["actors made and called"] = rate(actors)
    figures["single client get calls"] = rate(gets)
    figures["single client put calls"] = rate(puts)

    def gigabytes() -> int:
        ray.put(array)
        return 1

    figures["single client put gigabytes"] = rate(gigabytes) * ARRAY_BYTES / 1e9
    start = time.perf_counter()
    ray.shutdown()
    figures["shutdown (s)"] = time.perf_counter() - start
    return figures


def run(python: str, implementation: str) -> dict[str, float]:
    """Measure in a fresh process of the interpreter that has `implementation`."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    done = subprocess.run(
        [python, __file__, "--measure", implementation],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def main() -> None:
    """Measure in turn, print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--vs", choices=["ray"])
    parser.add_argument("--ray-python", default=".venv-ray/bin/python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    pythons = {"raycompat": sys.executable}
    if given.vs:
        pythons["ray"] = given.ray_python
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for number in range(given.rounds):
        for name, python in pythons.items():
            print(f"round {number + 1} of {given.rounds}: {name}", file=sys.stderr)
            rounds[name].append(run(python, name))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rounds, file, indent=1)
    for line in rounds["raycompat"][0]:
        medians = [statistics.median(r[line] for r in rounds[name]) for name in pythons]
        ratio = ""
        if len(medians) == 2:
            ours, theirs = medians
            ratio = f"{theirs / ours if '(s)' in line else ours / theirs:8.2f}x"
        print(f"{line:32}" + "".join(f"{median:12,.2f}" for median in medians) + ratio)


if __name__ == "__main__":
    main()
