"""Measure `allreduce` between the processes of one host, beside torch's gloo.

    python benchmarks/collective.py
    python benchmarks/collective.py --vs gloo --torch-python ENVIRONMENT/bin/python --json all.json

The other Python needs torch and numpy only: gloo is called directly, without Ray. Each round starts
fresh processes of both, one after the other; the table has the medians of all operations of all
rounds. An operation takes as long as its slowest process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from microbenchmark import in_turn

#: Processes of a group.
NUM_PROCESSES = 4

#: Bytes of the float32 tensors, and how often each is reduced in a round.
SIZES = {4_000: 200, 1_000_000: 50, 10_000_000: 20, 100_000_000: 8}

#: Milliseconds by bytes; JSON's keys are strings.
Figures = dict[str, list[float]]


def time_all(allreduce: Callable[[Any], None], barrier: Callable[[], None]) -> Figures:
    """Return how long each operation took in this process."""
    import numpy as np

    figures: Figures = {}
    for size, times in SIZES.items():
        tensor = np.ones(size // 4, dtype=np.float32)
        figures[str(size)] = []
        for number in range(times + 1):
            tensor.fill(1)
            barrier()
            start = time.perf_counter()
            allreduce(tensor)
            if number:  # the first one fills the memory that the others use
                figures[str(size)].append((time.perf_counter() - start) * 1000)
        assert tensor[0] == tensor[-1] == NUM_PROCESSES
    return figures


def slowest(by_process: list[Figures]) -> Figures:
    """Return the time of the slowest process, operation by operation."""
    return {
        size: [max(times) for times in zip(*(each[size] for each in by_process), strict=True)]
        for size in by_process[0]
    }


def measure_raycompat() -> Figures:
    """Measure groups of actors."""
    import raycompat as ray
    from raycompat.util import collective

    @ray.remote(num_cpus=0)
    class Member:
        def measure(self, rank: int) -> Figures:
            collective.init_collective_group(NUM_PROCESSES, rank, "gloo", gloo_timeout=120_000)
            figures = time_all(collective.allreduce, collective.barrier)
            collective.destroy_collective_group()
            return figures

    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    members = [Member.remote() for _ in range(NUM_PROCESSES)]
    figures = ray.get([each.measure.remote(rank) for rank, each in enumerate(members)])
    ray.shutdown()
    return slowest(figures)


def _measure_gloo_in_process(rank: int, address: str, answers: Any) -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{address}", rank=rank, world_size=NUM_PROCESSES)
    figures = time_all(lambda array: dist.all_reduce(torch.from_numpy(array)), dist.barrier)
    answers.put(figures)
    dist.destroy_process_group()


def measure_gloo() -> Figures:
    """Measure torch's gloo between processes of this Python."""
    import multiprocessing
    import tempfile

    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = os.path.join(folder, "meeting"), answers
        processes = [
            spawn.Process(target=_measure_gloo_in_process, args=(rank, *arguments))
            for rank in range(NUM_PROCESSES)
        ]
        for process in processes:
            process.start()
        figures = [answers.get(timeout=300) for _ in processes]
        for process in processes:
            process.join()
    return slowest(figures)


def print_table(rounds: dict[str, list[Figures]]) -> None:
    """Print the medians in milliseconds, and how often a second raycompat is done beside gloo."""
    names = list(rounds)
    print(f"{'allreduce, 4 processes':>24}" + "".join(f"{name:>14}" for name in names))
    for size in SIZES:
        medians = [
            statistics.median(each for figures in rounds[name] for each in figures[str(size)])
            for name in names
        ]
        ratio = f"{medians[1] / medians[0]:8.2f}x" if len(medians) == 2 else ""
        print(f"{size / 1e6:>21,.3g} MB" + "".join(f"{each:11,.2f} ms" for each in medians) + ratio)


def main() -> None:
    """Measure in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--vs", choices=["gloo"])
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="keep every figure in this file")
    given = parser.parse_args()
    if given.measure:
        measured = measure_raycompat() if given.measure == "raycompat" else measure_gloo()
        print(json.dumps(measured))
        return
    pythons = {"raycompat": sys.executable}
    if given.vs:
        pythons["gloo"] = given.torch_python
    rounds = in_turn(__file__, pythons, given.rounds)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rounds, file, indent=1)
    print_table(rounds)


if __name__ == "__main__":
    main()
