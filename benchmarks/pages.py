"""Measure what single sentences of the documentation say, and keep it for `figures.py`.

    python benchmarks/pages.py --json docs/_static/pages.json

All figures are seconds of CPU time, and counts, so other programs on the machine change them little;
each is the median of some rounds. It takes some minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import raycompat as ray

ROOT = Path(__file__).parents[1]
TUTORIALS = str(ROOT / "tutorials")

#: Rounds of each figure, and the number of histories that the simulation runs.
ROUNDS, NUM_HISTORIES = 3, 200

#: Steps of the convolutional network in a round, after one in which TensorFlow traces it.
NUM_STEPS = 8


def cpu_s(function: Callable[[], Any]) -> float:
    """Return the CPU time of a function: that of this process and of its threads."""
    start = time.process_time()
    function()
    return time.process_time() - start


def child_cpu_s(command: list[str], environment: dict[str, str]) -> float:
    """Return the CPU time of a program, with that of the processes for which it has waited."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | environment
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imports(module: str) -> dict[str, float]:
    """Return the CPU time of an import, with modules that are compiled and with none that is."""
    command = [sys.executable, "-c", f"import {module}"]
    with tempfile.TemporaryDirectory() as folder:
        cache = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        child_cpu_s(command, cache)  # compiles
        compiled = [child_cpu_s(command, cache) for _ in range(ROUNDS)]
    with tempfile.TemporaryDirectory() as folder:
        cache = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        others = [child_cpu_s(command, cache) for _ in range(ROUNDS)]
    return {
        f"import {module}, compiled": statistics.median(compiled),
        f"import {module}, not compiled": statistics.median(others),
    }


def simulation() -> dict[str, float]:
    """Return the CPU time of the histories of the simulated cluster."""
    command = [sys.executable, "tests/simulation/simulate.py", "0", str(NUM_HISTORIES)]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    said = subprocess.check_output(command, cwd=ROOT, env=environment, text=True).splitlines()[-1]
    num_events = int(said.partition(" histories hold: ")[2].partition(" events")[0])
    rate = float(said.rpartition("; ")[2].partition(" events")[0].replace(",", ""))
    return {"simulation": num_events / rate, "simulation, events": num_events}


def password() -> dict[str, float]:
    """Return the CPU time of one guess of a cluster's password."""
    from raycompat._protocol import shared_secret

    def guess() -> None:
        shared_secret._derive("guess", hashlib.sha256(b"salt").digest())

    return {"password": statistics.median(cpu_s(guess) for _ in range(ROUNDS))}


def graphs() -> dict[str, float]:
    """Return the CPU time of building graphs, and of reading and writing their weights."""
    from convolutional_network import Network
    from weights_with_actors import Line

    return graph("line", lambda: Line(0)) | graph("network", Network)


def graph(name: str, make: Callable[[], Any]) -> dict[str, float]:
    """Return the CPU time of building one graph, and of reading and writing its weights."""
    make()  # TensorFlow prepares itself in the first one
    made: list[Any] = []
    build = [cpu_s(lambda: made.append(make())) for _ in range(ROUNDS)]
    variables = made[-1].variables
    weights = variables.get_weights()
    variables.set_weights(weights)
    get = [cpu_s(variables.get_weights) for _ in range(20)]
    put = [cpu_s(lambda: variables.set_weights(weights)) for _ in range(20)]
    return {
        f"{name}, nodes": len(made[-1].session.graph.get_operations()),
        f"{name}, bytes": sum(array.nbytes for array in weights.values()),
        f"{name}, build": statistics.median(build),
        f"{name}, get_weights": statistics.median(get),
        f"{name}, set_weights": statistics.median(put),
    }


class Steps:
    """The network of the guide, and the CPU time of its steps."""

    def __init__(self, digits: Any) -> None:
        from convolutional_network_with_keras import BATCH_SIZE, build_network

        self.network = build_network()
        self.batches = digits.batches(BATCH_SIZE, seed=0)
        self.take()

    def take(self) -> None:
        """Take a step."""
        self.network.train_on_batch(*next(self.batches))

    def measure(self) -> float:
        """Return the CPU time of a step: the mean of some."""
        return cpu_s(lambda: [self.take() for _ in range(NUM_STEPS)]) / NUM_STEPS


def steps() -> dict[str, float]:
    """Return the CPU time of a step of the convolutional network in the driver and in an actor."""
    from digits28 import load_digits28

    _, digits, _ = load_digits28()
    environment = {"env_vars": {"PYTHONPATH": TUTORIALS}}
    with ray.init(num_cpus=1, include_dashboard=False, runtime_env=environment):
        in_actor, in_driver = ray.remote(Steps).remote(digits), Steps(digits)
        pairs = [(in_driver.measure(), ray.get(in_actor.measure.remote())) for _ in range(6)]
    driver, actor = zip(*pairs, strict=True)
    return {
        "step in the driver": statistics.median(driver),
        "step in the actor": statistics.median(actor),
    }


#: The parts, each of which runs in a process of its own.
PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "dask": lambda: imports("distributed"),
    "simulation": simulation,
    "password": password,
    "graphs": graphs,
    "steps": steps,
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="measure this alone, and print it")
    parser.add_argument("--json", type=Path, help="the file to write")
    given = parser.parse_args()
    if given.part:
        sys.path.append(TUTORIALS)
        print(json.dumps(PARTS[given.part]()))
        return
    found: dict[str, float] = {}
    for part in PARTS:
        command = [sys.executable, __file__, "--part", part]
        lines = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
        found |= json.loads(lines[-1])
        print(f"{part}: {lines[-1]}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
