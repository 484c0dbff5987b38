"""Seconds and peak memory of data sets, beside real Ray in one run.

    python benchmarks/data.py
    python benchmarks/data.py --vs ray --ray-python .venv-ray/bin/python

Each case has a separate cluster, and is run twice in it: the first time no process has started yet.
Memory is that of the driver, of all processes that it has started, and of /dev/shm, shared pages
counted once.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import beside_ray
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
#: What the lines of the table say.
LINES = {
    "map_batches": "map_batches of 1 GiB",
    "random_shuffle": "random_shuffle of 512 MiB",
    "iter_tf_batches": "iter_tf_batches",
}


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


def measure(case: str, impl: str) -> dict[str, float]:
    """Return the seconds, or the rate, and the megabytes of a case."""
    ray = importlib.import_module(impl)
    data = importlib.import_module(f"{impl}.data")
    data.DataContext.get_current().enable_progress_bars = False
    if case == "iter_tf_batches":
        importlib.import_module("tensorflow")
    seconds = []
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        run = CASES[case](data, folder)
        for _ in range(2):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        ray.shutdown()
    first, later = seconds
    if case == "iter_tf_batches":
        times = {
            f"{case}, first time (rows/s)": TRAINED_ROWS / first,
            f"{case} (rows/s)": TRAINED_ROWS / later,
        }
    else:
        times = {f"{LINES[case]}, first time (s)": first, f"{LINES[case]} (s)": later}
    return {**times, f"memory of {LINES[case]} (MB)": memory.peak_mb}


if __name__ == "__main__":
    beside_ray.main(__file__, __doc__, {case: functools.partial(measure, case) for case in CASES})
