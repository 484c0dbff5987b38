"""Programs with data sets, trials and training functions, annotated as users annotate them.

They never run: `make lint` checks them with mypy. A type of the package that is narrower than what programs pass,
or than what their subclasses take, is an error here; and an "ignore" that is not needed is one, too.
"""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs

import raycompat as ray
from raycompat import train, tune
from raycompat.data import expressions
from raycompat.data.aggregate import AggregateFn, AggregateFnV2, Max
from raycompat.data.block import BlockAccessor, BlockMetadata
from raycompat.data.datasource import PathPartitionFilter
from raycompat.data.preprocessor import Preprocessor
from raycompat.train.torch import TorchTrainer
from raycompat.tune.schedulers import FIFOScheduler, PopulationBasedTraining
from raycompat.tune.search import Searcher

FILESYSTEM = pyarrow.fs.LocalFileSystem()
RESOURCES: dict[str, float] = {"num_cpus": 1}
ENVIRONMENT: dict[str, dict[str, str]] = {"env_vars": {"NAME": "value"}}

Batch = dict[str, np.ndarray]


# Data sets: functions, files, and the values that come out.


def scaled(row: dict[str, Any], by: int = 1) -> dict[str, Any]:
    return {"x": row["id"] * by}


def same_arrays(batch: Batch) -> Batch:
    return batch


def same_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


class Adder:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, batch: Batch) -> Batch:
        return {name: values + self.amount for name, values in batch.items()}


def maps(dataset: ray.data.Dataset) -> None:
    more: dict[str, int] = {"by": 2}
    amounts: list[int] = [1]
    dataset.map(scaled, fn_kwargs=more, num_cpus=1, runtime_env=ENVIRONMENT, concurrency=2)
    dataset.map_batches(Adder, fn_constructor_args=amounts, concurrency=(1, 2), batch_size=3)
    dataset.map_batches(Adder, compute=ray.data.ActorPoolStrategy(size=1), batch_size="auto")
    dataset.map_batches(same_arrays, ray_remote_args_fn=lambda: RESOURCES)
    dataset.map_batches(same_frame, batch_format="pandas", batch_size=None)
    dataset.filter(lambda row: row["id"] > 1).flat_map(lambda row: [row, row])
    dataset.filter(expr=(1 + expressions.col("id")) * 2.5 > 3)
    dataset.map(scaled, fn_args=3)  # type: ignore[arg-type]


def files(dataset: ray.data.Dataset) -> None:
    of_year = PathPartitionFilter.of(lambda values: values["year"] == "2024")
    ray.data.read_csv(
        ["a", "b"], filesystem=FILESYSTEM, ray_remote_args=RESOURCES, partition_filter=of_year
    )
    ray.data.read_parquet("a", columns=["x"], shuffle=ray.data.FileShuffleConfig(seed=1))
    ray.data.read_parquet("a", shuffle="rows")  # type: ignore[arg-type]
    ray.data.read_sql("SELECT 1", lambda: sqlite3.connect("x"), sql_params=(1,))
    ray.data.read_webdataset(
        "a", decoder=[lambda row: row, "PIL"], fileselect=["*.jpg"], suffixes=lambda name: True
    )
    dataset.write_csv("a", filesystem=FILESYSTEM, arrow_csv_args_fn=lambda: {"delimiter": ";"})
    dataset.write_sql("INSERT INTO t VALUES (?)", lambda: sqlite3.connect("x"))
    dataset.write_webdataset("a", encoder=True)


def values(dataset: ray.data.Dataset) -> None:
    frames: list[pd.DataFrame] = [pd.DataFrame()]
    rows: list[dict[str, int]] = [{"a": 1}]
    ray.data.from_pandas(frames)
    ray.data.from_pandas(pd.DataFrame())
    ray.data.from_arrow(pa.table({}))
    ray.data.from_numpy([np.zeros(1)])
    ray.data.from_items(rows)
    ray.data.from_pandas_refs([ray.put(pd.DataFrame())])
    in_rows = AggregateFn(
        init=lambda key: 0,
        accumulate_row=lambda total, row: total + row["id"],
        merge=lambda one, other: one + other,
        name="total",
    )
    print(dataset.aggregate(Max("id"), in_rows)["total"] + 1, dataset.sum("id") + 1)
    print(dataset.take_all()[0]["id"] + 1)
    for batch in dataset.iter_batches(batch_size=2):
        batch["id"].sum()
    for tensors in dataset.iter_torch_batches(device="cpu", collate_fn=lambda batch: batch):
        tensors["id"].numpy()


# Data sets: subclasses.


class Source(ray.data.Datasource):
    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: ray.data.DataContext | None = None,
    ) -> list[ray.data.ReadTask]:
        metadata = BlockMetadata(1, 8, None, None)
        return [ray.data.ReadTask(lambda: [pa.table({"a": [1]})], metadata)]


class Reports(ray.data.BlockBasedFileDatasink):
    def write_block_to_file(self, block: BlockAccessor, file: pa.NativeFile) -> None:
        file.write(b"report")


class Notes(ray.data.RowBasedFileDatasink):
    def write_row_to_file(self, row: dict[str, Any], file: pa.NativeFile) -> None:
        file.write(str(row["id"]).encode())


class Range(AggregateFnV2):
    def __init__(self, on: str) -> None:
        super().__init__(f"range({on})", lambda: (0, 0), on=on, ignore_nulls=True)

    def aggregate_block(self, block: pa.Table) -> tuple[int, int]:
        return (0, block.num_rows)

    def combine(
        self, current_accumulator: tuple[int, int], new: tuple[int, int]
    ) -> tuple[int, int]:
        return (min(current_accumulator[0], new[0]), max(current_accumulator[1], new[1]))

    def finalize(self, accumulator: tuple[int, int]) -> int:
        return accumulator[1] - accumulator[0]


class Shifted(Preprocessor):
    def _fit(self, ds: ray.data.Dataset) -> None:
        self.stats_ = {"mean": ds.mean("x")}

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        return df - self.stats_["mean"]


# Trials.


class Noting(tune.Callback):
    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        print(result["loss"] + 1)


class Least(Searcher):
    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        return {"x": 0}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return True

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        pass


class Going(FIFOScheduler):
    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return self.CONTINUE if result["loss"] > 0 else self.STOP


class Enough(tune.Stopper):
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(result["loss"] < 1)

    def stop_all(self) -> bool:
        return False


class Steps(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.loss: float = config["x"]

    def step(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | None:
        return {"loss": self.loss}

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        pass


def loss(config: dict[str, Any]) -> dict[str, float]:
    return {"loss": config["x"] + 1}


def trials() -> None:
    space: dict[str, Any] = {
        "x": tune.uniform(0, 1),
        "layers": tune.choice([1, 2]),
        "units": tune.sample_from(lambda spec: 1),
    }
    limits: dict[str, int] = {"training_iteration": 3}
    results = tune.Tuner(
        tune.with_resources(tune.with_parameters(loss, rows=[1]), {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", search_alg=Least(), scheduler=Going()
        ),
        run_config=tune.RunConfig(stop=limits, callbacks=[Noting()]),
    ).fit()
    best = results.get_best_result()
    print(best.config["x"] + 1 if best.config else None)
    tune.run(loss, config=space, stop=Enough(), storage_filesystem=FILESYSTEM, scheduler="fifo")
    tune.run(Steps, stop=lambda trial_id, result: bool(result["loss"] < 1), callbacks=[Noting()])
    tune.run("PPO", resources_per_trial={"cpu": 1, "custom_resources": {"disk": 1}})
    tune.run(3)  # type: ignore[arg-type]
    PopulationBasedTraining(
        hyperparam_mutations={"lr": [1, 2], "momentum": lambda: 1.0},
        custom_explore_fn=lambda config: config,
    )


# Training.


def loop(config: dict[str, Any]) -> None:
    for batch in train.get_dataset_shard("train").iter_batches():
        train.report({"loss": batch["x"].mean() * config["lr"]})


class Whole(train.DataConfig):
    def configure(
        self,
        datasets: dict[str, Any],
        world_size: int,
        worker_handles: list[Any] | None,
        worker_node_ids: list[str] | None,
        **kwargs: Any,
    ) -> list[dict[str, Any]]:
        return [datasets] * world_size


def training(datasets: dict[str, ray.data.Dataset], given: Iterable[str]) -> None:
    result = TorchTrainer(
        loop,
        train_loop_config={"lr": 0.1},
        datasets=datasets,
        dataset_config=Whole(),
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(storage_path=pathlib.Path("a")),
        metadata=dict.fromkeys(given, 1),
    ).fit()
    print(result.metrics["loss"] + 1 if result.metrics else None, result.return_value)
