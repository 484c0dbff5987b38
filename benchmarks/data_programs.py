"""The same programs of data sets on raycompat, Ray Data and dask.dataframe.

    python benchmarks/data_programs.py
    python benchmarks/data_programs.py --vs ray --ray-python .venv-ray/bin/python
    python benchmarks/data_programs.py --vs dask --dask-python .venv/bin/python

Each program has a separate cluster of two CPUs, and runs twice in it. The figures are seconds of CPU
and of the clock in the second run.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import beside_ray
import numpy as np
import pandas as pd
from data_streaming import cpu_s

#: Rows of the Parquet files, files, and different keys.
NUM_ROWS, NUM_FILES, NUM_KEYS = 1_000_000, 4, 10_000


def write(folder: str) -> None:
    """Write the files that all programs read."""
    random = np.random.default_rng(0)
    for number in range(NUM_FILES):
        size = NUM_ROWS // NUM_FILES
        columns = {"key": random.integers(0, NUM_KEYS, size), "value": random.random(size)}
        pd.DataFrame(columns).to_parquet(os.path.join(folder, f"{number}.parquet"))


class OfDataSets:
    """The programs with `ray.data`."""

    def __init__(self, data: Any, folder: str) -> None:
        self._rows = functools.partial(data.read_parquet, folder)

    def aggregate(self) -> float:
        """Return the mean of a column."""
        return float(self._rows().mean("value"))

    def sort(self) -> int:
        """Sort all rows by a column."""
        return int(self._rows().sort("value").materialize().count())

    def shuffle(self) -> int:
        """Put all rows into a random order."""
        return int(self._rows().random_shuffle(seed=1).materialize().count())

    def groupby(self) -> int:
        """Return the number of sums by key."""
        return int(self._rows().groupby("key").sum("value").materialize().count())

    def map(self) -> int:
        """Change a column in batches."""
        changed = self._rows().map_batches(lambda batch: {"value": batch["value"] * 2})
        return int(changed.materialize().count())


class OfDask:
    """The programs with `dask.dataframe`."""

    def __init__(self, folder: str) -> None:
        import dask.dataframe

        self._rows = functools.partial(dask.dataframe.read_parquet, folder)

    def aggregate(self) -> float:
        """Return the mean of a column."""
        return float(self._rows()["value"].mean().compute())

    def sort(self) -> int:
        """Sort all rows by a column."""
        return len(self._rows().sort_values("value").persist())

    def shuffle(self) -> int:
        """Put all rows into an order by random numbers."""
        rows = self._rows()
        random = rows.map_partitions(lambda df: df.assign(order=np.random.random(len(df))))
        return len(random.shuffle("order").persist())

    def groupby(self) -> int:
        """Return the number of sums by key."""
        return len(self._rows().groupby("key")["value"].sum().persist())

    def map(self) -> int:
        """Change a column in partitions."""
        return len(
            self._rows().map_partitions(lambda df: df.assign(value=df["value"] * 2)).persist()
        )


@contextmanager
def programs(impl: str, folder: str) -> Iterator[OfDataSets | OfDask]:
    """Start a cluster for the programs of an implementation."""
    if impl == "dask":
        from dask.distributed import Client, LocalCluster

        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster):
            yield OfDask(folder)
        return
    ray, data = importlib.import_module(impl), importlib.import_module(f"{impl}.data")
    data.DataContext.get_current().enable_progress_bars = False
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield OfDataSets(data, folder)
    ray.shutdown()


def measure(name: str, impl: str) -> beside_ray.Figures:
    """Return the seconds of the second run of a program."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        with programs(impl, folder) as made:
            run: Callable[[], float] = getattr(made, name)
            expected = {"aggregate": 0.5, "groupby": NUM_KEYS}.get(name, NUM_ROWS)
            assert abs(run() - expected) < 0.01 * expected
            cpu, clock = cpu_s(), time.perf_counter()
            run()
            clock = time.perf_counter() - clock
            return {f"{name}, CPU (s)": cpu_s() - cpu, f"{name} (s)": clock}


if __name__ == "__main__":
    names = ("aggregate", "sort", "shuffle", "groupby", "map")
    other = "dask" if "dask" in sys.argv else "ray"
    beside_ray.main(
        __file__, __doc__, {name: functools.partial(measure, name) for name in names}, other
    )
