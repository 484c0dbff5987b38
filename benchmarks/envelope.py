"""Measure the envelope of one node, as Ray publishes it; with ``--vs ray`` Ray in turn, in one run.

    python benchmarks/envelope.py --scale 0.1
    python benchmarks/envelope.py --vs ray --ray-python .venv-ray/bin/python --json envelope.json

The lines are those of Ray's single-node scalability test, and two more: placement groups, and calls of
many shapes. A line gives seconds: less is better. ``--scale`` multiplies all sizes but the number of
shapes. A line that does not fit is left out, and the reason is printed: an object needs three times its
size in free memory, an actor `_ACTOR_MB`, a queued call `_QUEUED_KB`. The table names the sizes that
were measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import microbenchmark
import psutil

#: What one actor, and one queued call, need of memory: the larger of both implementations' needs.
_ACTOR_MB, _QUEUED_KB = 60, 6

#: Placement groups, of one bundle each.
_NUM_GROUPS = 200

#: Values of ``num_cpus`` among the calls of many shapes.
_NUM_SHAPES = 500


def nothing() -> None:
    return None


def count(*values: object) -> int:
    return len(values)


class Actor:
    def ping(self) -> None:
        return None


def arguments(ray: Any, size: int) -> None:
    assert ray.get(ray.remote(count).remote(*[ray.put(i) for i in range(size)])) == size


def returns(ray: Any, size: int) -> None:
    many = ray.remote(num_returns=size)(lambda: list(range(size)))
    assert ray.get(many.remote()) == list(range(size))


def stored(ray: Any, size: int) -> None:
    assert ray.get([ray.put(i) for i in range(size)]) == list(range(size))


def queued(ray: Any, size: int) -> None:
    task = ray.remote(nothing)
    refs = [task.remote() for _ in range(size)]
    for first in range(0, size, 10_000):
        ray.get(refs[first : first + 10_000])


def one_object(ray: Any, size: int) -> None:
    numpy = importlib.import_module("numpy")
    ref = ray.put(numpy.zeros(size, dtype=numpy.uint8))
    assert ray.get(ref).nbytes == size


def actors(ray: Any, size: int) -> None:
    remote = ray.remote(num_cpus=0)(Actor)
    made = [remote.remote() for _ in range(size)]
    ray.get([actor.ping.remote() for actor in made])
    for actor in made:
        ray.kill(actor)


def groups(ray: Any, size: int) -> None:
    util = importlib.import_module(f"{ray.__name__}.util")
    made = [util.placement_group([{"place": 1}]) for _ in range(size)]
    ray.get([group.ready() for group in made])
    for group in made:
        util.remove_placement_group(group)


def shapes(ray: Any, size: int) -> None:
    task = ray.remote(nothing)
    of_shape = [task.options(num_cpus=(i + 1) / 1000) for i in range(_NUM_SHAPES)]
    ray.get([of_shape[i % _NUM_SHAPES].remote() for i in range(size)])


#: What is measured, in the order of the table: Ray's sizes, and what is done with a size.
LINES: dict[str, tuple[int, Callable[[Any, int], None]]] = {
    "object arguments to one task": (10_000, arguments),
    "returns of one task": (3_000, returns),
    "get of stored objects": (10_000, stored),
    "queued tasks": (1_000_000, queued),
    "bytes of one object": (10 << 30, one_object),
    "actors": (1_000, actors),
    "placement groups": (_NUM_GROUPS, groups),
    "calls of 500 shapes": (10_000, shapes),
}


def needed_bytes(line: str, size: int) -> int:
    """Return the memory that a line needs."""
    if line == "bytes of one object":
        return 3 * size
    return {"actors": _ACTOR_MB << 20, "queued tasks": _QUEUED_KB << 10}.get(line, 1024) * size


def measure(name: str, scale: float, only: str) -> dict[str, float]:
    """Return the seconds of each line, by its size and name; those that do not fit are left out."""
    ray: Any = importlib.import_module(name)
    store = max(1 << 30, round(1.5 * LINES["bytes of one object"][0] * scale))
    ray.init(
        num_cpus=2,
        resources={"place": _NUM_GROUPS},
        object_store_memory=store,
        include_dashboard=False,
        configure_logging=False,
        log_to_driver=False,
    )
    ray.get([ray.remote(lambda: None).remote() for _ in range(100)])  # executors are there
    figures = {}
    for line, (most, work) in LINES.items():
        size = max(1, round(most * scale))
        title = f"{size:,} {line} (s)"
        if only not in title:
            continue
        available = psutil.virtual_memory().available
        if needed_bytes(line, size) > available:
            needed = needed_bytes(line, size) / 1e9
            why = f"needs {needed:.1f} GB, and {available / 1e9:.1f} GB are free"
            print(f"{name}: {title}: left out: it {why}", file=sys.stderr)
            continue
        start = time.perf_counter()
        work(ray, size)
        figures[title] = time.perf_counter() - start
        print(f"{name}: {title}: {figures[title]:.2f}", file=sys.stderr)
    ray.shutdown()
    return figures


def main() -> None:
    """Measure in turn, print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--vs", choices=["ray"])
    parser.add_argument("--ray-python", default=".venv-ray/bin/python")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="share of Ray's sizes")
    parser.add_argument("--only", default="", help="measure the lines whose names contain this")
    parser.add_argument("--json", help="keep every figure in this file")
    given = parser.parse_args()
    if not 0 < given.scale <= 1:
        parser.error(f"--scale: expected more than 0 and at most 1, not {given.scale}")
    if given.measure:
        print(json.dumps(measure(given.measure, given.scale, given.only)))
        return
    pythons = {"raycompat": sys.executable}
    if given.vs:
        pythons["ray"] = given.ray_python
    options = ["--scale", str(given.scale), "--only", given.only]
    rounds = microbenchmark.in_turn(__file__, pythons, given.rounds, *options)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rounds, file, indent=1)
    print_table(rounds)


def print_table(rounds: dict[str, list[Any]]) -> None:
    """Print the medians of each line, and how many times faster raycompat is."""
    print(f"{'':46}" + "".join(f"{name:>12}" for name in rounds))
    titles = dict.fromkeys(title for each in rounds.values() for one in each for title in one)
    for title in titles:
        of_line = [[one[title] for one in each if title in one] for each in rounds.values()]
        medians = [statistics.median(figures) if figures else None for figures in of_line]
        shown = [f"{'-':>12}" if each is None else f"{each:12,.2f}" for each in medians]
        ratio = ""
        if len(medians) == 2 and None not in medians:
            ratio = f"{medians[1] / medians[0]:8.2f}x"
        print(f"{title:46}" + "".join(shown) + ratio)


if __name__ == "__main__":
    main()
