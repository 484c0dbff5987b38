"""Executions of compiled graphs a second, on raycompat and on real Ray in turn.

    python benchmarks/compiled_graphs.py --vs ray --json figures.json

The graphs are one actor that returns its argument, a chain of three such actors, and three of them
beside each other. Each is executed one by one (the driver fetches the result before it starts the next
execution), and ten at a time. Each graph has a separate process.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import beside_ray
from beside_ray import Figures

#: Seconds of one measurement, after executions that are not counted.
DURATION_S = 3.0
NUM_WARM_UP = 30

#: Executions at a time: the default of both implementations allows as many.
NUM_IN_FLIGHT = 10

SIZES = {"1 KB": 1_000, "1 MB": 1_000_000}


def rate(execute: Callable[[], object]) -> float:
    """Return how often a function can be called in a second."""
    for _ in range(NUM_WARM_UP):
        execute()
    count, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < DURATION_S:
        execute()
        count += 1
    return count / took


def measure(impl: str, *, name: str, chain: int, beside: int) -> Figures:
    """Measure one graph with values of each size."""
    if impl == "ray":
        os.environ.update(RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_USAGE_STATS_ENABLED="0")
    ray: Any = importlib.import_module(impl)
    dag: Any = importlib.import_module(f"{impl}.dag")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)

    @ray.remote(num_cpus=0)
    class Echo:
        def echo(self, value: bytes) -> bytes:
            return value

    with dag.InputNode() as given:
        outputs = []
        for _ in range(beside):
            node = given
            for _ in range(chain):
                node = Echo.remote().echo.bind(node)
            outputs.append(node)
    graph = (dag.MultiOutputNode(outputs) if beside > 1 else outputs[0]).experimental_compile()
    figures: Figures = {}
    for size, num_bytes in SIZES.items():
        value = bytes(num_bytes)

        def one(value: bytes = value) -> None:
            ray.get(graph.execute(value))

        def several(value: bytes = value) -> None:
            for ref in [graph.execute(value) for _ in range(NUM_IN_FLIGHT)]:
                ray.get(ref)

        figures[f"{name}, {size}, one by one (/s)"] = rate(one)
        figures[f"{name}, {size}, ten at a time (/s)"] = rate(several) * NUM_IN_FLIGHT
    graph.teardown()
    ray.shutdown()
    return figures


CASES = {
    "one": partial(measure, name="compiled graph of one actor", chain=1, beside=1),
    "chain": partial(measure, name="chain of three actors", chain=3, beside=1),
    "beside": partial(measure, name="three actors beside each other", chain=1, beside=3),
}

if __name__ == "__main__":
    beside_ray.main(__file__, __doc__ or "", CASES)
