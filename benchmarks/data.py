"""Seconds and peak memory of data sets, beside real Ray in one run.

    python benchmarks/data.py
    python benchmarks/data.py --vs ray --ray-python .venv-ray/bin/python

Each case has a cluster of its own, and is run several times in it: the first time, when no process has
started yet, and the median of the others. Memory is that of the driver, of all processes that it has
started, and of /dev/shm, shared pages counted once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

#: Rows of 1 KiB for 1 GiB and 512 MiB.
MAPPED_ROWS, SHUFFLED_ROWS, WIDTH = 2**20, 2**19, 128
#: Rows that are trained with, and those of a batch.
TRAINED_ROWS, BATCH_ROWS = 400_000, 256


def map_batches(data: Any, folder: str) -> Callable[[], None]:
    """Double 1 GiB of numbers, and look at all of them."""
    dataset = data.range_tensor(MAPPED_ROWS, shape=(WIDTH,))
    doubled = dataset.map_batches(lambda batch: {"data": batch["data"] * 2})

    def run() -> None:
        rows = sum(len(batch["data"]) for batch in doubled.iter_batches(batch_size=None))
        assert rows == MAPPED_ROWS

    return run


def random_shuffle(data: Any, folder: str) -> Callable[[], None]:
    """Put 512 MiB of rows into a random order."""
    dataset = data.range_tensor(SHUFFLED_ROWS, shape=(WIDTH,)).random_shuffle()

    def run() -> None:
        made = dataset.materialize()
        assert made.count() == SHUFFLED_ROWS
        first = [int(row["data"][0]) for row in made.take(3)]
        assert first != [0, 1, 2]

    return run


def iter_tf_batches(data: Any, folder: str) -> Callable[[], None]:
    """Turn rows of a Parquet file into batches of tensors."""
    import numpy as np
    import pandas as pd

    path = os.path.join(folder, "rows.parquet")
    random = np.random.default_rng(0)
    columns = {f"x{number}": random.random(TRAINED_ROWS, np.float32) for number in range(8)}
    pd.DataFrame(columns).to_parquet(path)
    dataset = data.read_parquet(path)

    def run() -> None:
        batches = dataset.iter_tf_batches(batch_size=BATCH_ROWS)
        assert sum(int(batch["x0"].shape[0]) for batch in batches) == TRAINED_ROWS

    return run


CASES = {each.__name__: each for each in (map_batches, random_shuffle, iter_tf_batches)}


class Memory:
    """The largest amount of memory that this process and those below it had at once."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            total = shutil.disk_usage("/dev/shm").used
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                total += own_bytes(process.pid)
            self.peak_mb = max(self.peak_mb, total / 1e6)


def own_bytes(pid: int) -> int:
    """Return a process's memory but for /dev/shm; shared pages count in part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (OSError, ProcessLookupError):  # it has just ended
        return 0
    amounts = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    return 1024 * (int(amounts.get("Pss_Anon", 0)) + int(amounts.get("Pss_File", 0)))


def measure(impl: str, case: str, times: int) -> dict[str, float]:
    """Return the seconds and megabytes of a case."""
    ray = importlib.import_module(impl)
    data = importlib.import_module(f"{impl}.data")
    data.DataContext.get_current().enable_progress_bars = False
    if case == "iter_tf_batches":
        importlib.import_module("tensorflow")
    seconds = []
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        run = CASES[case](data, folder)
        for _ in range(times):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        ray.shutdown()
    return {
        "first_s": seconds[0],
        "later_s": statistics.median(seconds[1:] or seconds),
        "peak_mb": memory.peak_mb,
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--impl", choices=("raycompat", "ray"), default="raycompat")
    parser.add_argument("--vs", choices=("ray",), help="run both in turn, and print the ratio")
    parser.add_argument("--ray-python", default=".venv-ray/bin/python", help="Python that has Ray")
    parser.add_argument("--case", choices=CASES, action="append", help="by default all")
    parser.add_argument("--times", type=int, default=4, help="runs of each case in one cluster")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for case in options.case or CASES:
        if options.vs is None:
            found = measure(options.impl, case, options.times)
            print(json.dumps(found) if options.json else f"{case:16} {found}", flush=True)
            continue
        both = {}
        for impl, python in (("raycompat", sys.executable), ("ray", options.ray_python)):
            command = [python, __file__, "--impl", impl, "--json", "--case", case]
            command += ["--times", str(options.times)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            both[impl] = json.loads(output.strip().splitlines()[-1])
        ours, theirs = both["raycompat"], both["ray"]
        for name, value in ours.items():
            ratio = theirs[name] / value
            print(f"{case:16} {name:8} {value:9.2f}   Ray {theirs[name]:9.2f}   {ratio:5.2f} times")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
