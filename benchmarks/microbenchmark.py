"""Measure raycompat, and with ``--vs ray`` the real Ray in turn with it, in one run.

    python benchmarks/microbenchmark.py
    python benchmarks/microbenchmark.py --vs ray --ray-python .venv-ray/bin/python --rounds 3
    python benchmarks/microbenchmark.py --vs dask --only task
    python benchmarks/microbenchmark.py --vs ray --nodes 4 --json nodes-4.json

With ``--nodes`` the cluster is made of nodes of two CPUs, all on this machine. Dask alone is measured
in the lines about tasks that it has.

Each round starts a fresh driver process of each implementation, so that both see the same machine.
The table has medians; ``--json FILE`` keeps every figure.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


def load_lines() -> ModuleType:
    """Return the module of the lines, by its path: where Ray is measured, raycompat is not there."""
    path = Path(__file__).parents[1] / "raycompat" / "_cli" / "microbenchmark.py"
    spec = importlib.util.spec_from_file_location("lines_of_the_microbenchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shared = load_lines()


def lines_of_dask(dask: Any) -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yield the lines that Dask has; its names are made Ray's by `dask_as_ray`."""

    def small_value() -> bytes:
        return b"ok"

    def one_more(value: int) -> int:
        return value + 1

    def add(left: int, right: int) -> int:
        return left + right

    functions = {each.__name__: dask.remote(each) for each in (small_value, one_more, add)}
    remote = SimpleNamespace(**functions)
    value = remote.small_value
    yield "single client tasks sync", lambda: dask.get(value.remote()), 1
    yield (
        "single client tasks async",
        lambda: dask.get(shared.refs(value, shared.MANY)),
        shared.MANY,
    )
    yield "tasks chained", lambda: dask.get(shared.chain(remote.one_more)), shared.MANY
    yield "tree of tasks", lambda: dask.get(shared.tree(remote)), 2 * shared.NUM_LEAVES - 1


@contextmanager
def nodes_on_this_machine(name: str, num_nodes: int) -> Iterator[str]:
    """Run nodes of two CPUs; yield the address of their cluster."""
    cluster_utils = importlib.import_module(f"{name}.cluster_utils")
    node: dict[str, Any] = {"num_cpus": 2}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
    for _ in range(num_nodes - 1):
        cluster.add_node(**node)
    cluster.wait_for_nodes()
    yield cluster.address
    cluster.shutdown()


def measure(name: str, only: str, num_nodes: int) -> dict[str, float]:
    """Return the figures of one implementation: rates a second, and seconds where it says so.

    `num_nodes`: 0 lets `init` start the cluster.
    """
    if not num_nodes:
        return measure_at(name, only, num_cpus=2, include_dashboard=False)
    with nodes_on_this_machine(name, num_nodes) as address:
        return measure_at(name, only, address=address)


def measure_at(name: str, only: str, **where: object) -> dict[str, float]:
    """Measure on the cluster that `ray.init` starts or finds."""
    ray: Any = importlib.import_module(name)
    start = time.perf_counter()
    ray.init(configure_logging=False, **where)
    figures = {"init (s)": time.perf_counter() - start}
    start = time.perf_counter()
    ray.get(ray.remote(lambda: None).remote())
    figures["first task (s)"] = time.perf_counter() - start
    figures["memory of all processes, idle (MB)"] = unique_megabytes()
    if only in shared.COLD_PUT and name != "dask_as_ray":
        figures[shared.COLD_PUT] = shared.cold_put(ray)
    lines = lines_of_dask if name == "dask_as_ray" else shared.lines
    for line, figure in shared.measured(lines(ray), only):
        figures[line] = figure
        print(f"{name}: {line}: {figure:,.1f}", file=sys.stderr)
    start = time.perf_counter()
    ray.shutdown()
    figures["shutdown (s)"] = time.perf_counter() - start
    return figures


def unique_megabytes() -> float:
    """Return the memory that no others share of all processes that this one has started."""
    import psutil

    time.sleep(1)  # what is still starting settles
    found = 0
    for process in psutil.Process().children(recursive=True):
        try:
            found += process.memory_full_info().uss
        except psutil.NoSuchProcess:
            continue
    return found / 1e6


def in_turn(
    script: str, pythons: dict[str, str], num_rounds: int, *options: str
) -> dict[str, list[Any]]:
    """Run `script` with ``--measure`` once a round for each implementation, in a fresh process."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    rounds: dict[str, list[Any]] = {name: [] for name in pythons}
    for number in range(num_rounds):
        for name, python in pythons.items():
            print(f"round {number + 1} of {num_rounds}: {name}", file=sys.stderr)
            command = [python, script, "--measure", name, *options]
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            rounds[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
    return rounds


def main() -> None:
    """Measure in turn, print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--vs", choices=["ray", "dask"])
    parser.add_argument("--ray-python", default=".venv-ray/bin/python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="measure the lines whose names contain this")
    parser.add_argument("--json", help="keep every figure in this file")
    parser.add_argument("--nodes", type=int, default=0, help="measure on so many nodes of 2 CPUs")
    given = parser.parse_args()
    if given.nodes < 0 or (given.nodes and given.vs == "dask"):
        parser.error("--nodes: expected 1 or more, not with --vs dask")
    if given.measure:
        print(json.dumps(measure(given.measure, given.only, given.nodes)))
        return
    pythons = {"raycompat": sys.executable}
    if given.vs == "ray":
        pythons["ray"] = given.ray_python
    elif given.vs == "dask":
        pythons["dask_as_ray"] = sys.executable
    options = ["--only", given.only, "--nodes", str(given.nodes)]
    rounds = in_turn(__file__, pythons, given.rounds, *options)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rounds, file, indent=1)
    print(f"{'':46}" + "".join(f"{name:>12}" for name in pythons))
    for line in rounds["raycompat"][0]:
        of_line = [[r[line] for r in rounds[name] if line in r] for name in pythons]
        medians = [statistics.median(figures) for figures in of_line if figures]
        ratio = ""
        if len(medians) == 2:
            ours, theirs = medians
            less_is_more = "(s)" in line or "memory" in line
            ratio = f"{theirs / ours if less_is_more else ours / theirs:8.2f}x"
        print(f"{line:46}" + "".join(f"{median:12,.2f}" for median in medians) + ratio)


if __name__ == "__main__":
    main()
