"""The same programs of data sets on raycompat, Ray Data and dask.dataframe.

    python benchmarks/data_programs.py
    python benchmarks/data_programs.py --vs ray dask --ray-python .venv-ray/bin/python

Each program has a separate cluster of two CPUs, and runs twice in it, but the sort once. The figures
are seconds of CPU and of the clock in the last run. The sorted files have 2 GB of numbers, and the
others 64 MB.
"""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import beside_ray
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from data_streaming import cpu_s

#: Rows of the Parquet files, files, and different keys.
NUM_ROWS, NUM_FILES, NUM_KEYS = 4_000_000, 16, 10_000

#: Rows of the sorted files, and their columns of eight bytes.
SORTED_ROWS, SORTED_COLUMNS = 32_000_000, 8

#: Rows of a batch for Keras, and the units of the models.
BATCH_ROWS, UNITS = 4096, 64


def write(folder: str, num_rows: int, num_columns: int) -> None:
    """Write the files that a program reads: a key, a value, and more columns of numbers."""
    random = np.random.default_rng(0)
    size = num_rows // NUM_FILES
    for number in range(NUM_FILES):
        columns = {"key": random.integers(0, NUM_KEYS, size), "value": random.random(size)}
        columns |= {f"x{more}": random.random(size) for more in range(num_columns - 2)}
        path = os.path.join(folder, f"{number:02}.parquet")
        pyarrow.parquet.write_table(pa.table(columns), path, use_dictionary=False)


class Model:
    """A small network, in NumPy."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._first, self._second = random.random((1, UNITS)), random.random((UNITS, 1))

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Return the outputs for a batch of rows."""
        values = np.asarray(batch["value"])[:, None]
        return {"output": (np.tanh(values @ self._first) @ self._second)[:, 0]}


def train(batches: Iterable[Any]) -> int:
    """Train a model of Keras with batches; return the number of rows."""
    keras = importlib.import_module("keras")
    model = keras.Sequential([keras.layers.Dense(UNITS, "relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    num_rows = 0
    for batch in batches:
        values = np.asarray(batch["value"], np.float32)[:, None]
        model.train_on_batch(values, 2 * values)
        num_rows += len(values)
    return num_rows


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

    def model(self) -> int:
        """Compute the outputs of a model in an actor; the other CPU reads the files."""
        outputs = self._rows().map_batches(Model, concurrency=1)
        return int(outputs.materialize().count())

    def keras(self) -> int:
        """Train a model of Keras with batches."""
        return train(self._rows().iter_batches(batch_size=BATCH_ROWS))


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

    def model(self) -> int:
        """Compute the outputs of a model that each worker has."""
        import dask

        outputs = self._rows().map_partitions(
            lambda df, model: pd.DataFrame(model(df)), dask.delayed(Model)(), meta={"output": float}
        )
        return len(outputs.persist())

    def keras(self) -> int:
        """Train a model of Keras with batches."""
        return train(self._batches())

    def _batches(self) -> Iterator[pd.DataFrame]:
        for partition in self._rows().partitions:
            frame = partition.compute()
            for start in range(0, len(frame), BATCH_ROWS):
                yield frame[start : start + BATCH_ROWS]


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
    """Return the seconds of the last run of a program."""
    shape = (SORTED_ROWS, SORTED_COLUMNS) if name == "sort" else (NUM_ROWS, 2)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, *shape)
        with programs(impl, folder) as made:
            run: Callable[[], float] = getattr(made, name)
            expected = {"aggregate": 0.5, "groupby": NUM_KEYS}.get(name, shape[0])
            if name != "sort":
                run()
            cpu, clock = cpu_s(), time.perf_counter()
            assert abs(run() - expected) < 0.01 * expected
            clock = time.perf_counter() - clock
            line = LINES[name]
            return {f"{line}: CPU (s)": cpu_s() - cpu, f"{line} (s)": clock}


#: What the lines of the table say.
LINES = {
    "aggregate": "mean of a column",
    "sort": "sort of 2 GB",
    "shuffle": "random order",
    "groupby": f"sums of {NUM_KEYS:,} groups",
    "map": "map of batches",
    "model": "map of batches, a model in an actor",
    "keras": "batches into Keras",
}


if __name__ == "__main__":
    # Processes of two cores must not start threads for each core.
    for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(variable, "1")
    # Dask's workers have the usual rank; those of the others yield to every other program by default.
    os.environ.setdefault("RAY_worker_niceness", "0")
    cases = {name: functools.partial(measure, name) for name in LINES}
    beside_ray.main(__file__, __doc__, cases, "ray", "dask")
