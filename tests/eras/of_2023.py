"""In the style of Ray 2.0 to 2.10: ``session.report``, checkpoints of dicts, predictors."""

import os

import ray
from ray import air, tune
from ray.air import Checkpoint, session
from ray.air.config import (
    CheckpointConfig,
    DatasetConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
)
from ray.train.base_trainer import TrainingFailedError
from ray.train.batch_predictor import BatchPredictor
from ray.train.data_parallel_trainer import DataParallelTrainer
from ray.train.predictor import Predictor
from ray.tune import Tuner
from ray.tune.tune_config import TuneConfig
from ray.tune.utils.mock_trainable import MyTrainableClass

RESULTS = os.path.abspath("results")


def objective(config):
    start = 0
    if session.get_checkpoint():
        start = session.get_checkpoint().to_dict()["step"] + 1
    for step in range(start, 3):
        checkpoint = Checkpoint.from_dict({"step": step})
        result = {"score": config["x"] * (step + 1), "step": step, "folder": os.getcwd()}
        session.report(result, checkpoint=checkpoint)


def search():
    tuner = Tuner(
        objective,
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=TuneConfig(metric="score", mode="max", chdir_to_trial_dir=False),
        run_config=air.RunConfig(local_dir=RESULTS, stop={"step": 1}, verbose=0),
    )
    best = tuner.fit().get_best_result()
    print("Best:", best.config, best.metrics["score"], best.checkpoint.to_dict())
    print("Worked in the trial's folder:", best.metrics["folder"] == str(best.log_dir))
    print("Checkpoints:", len(best.best_checkpoints))
    print("At its path:", air.Result.from_path(best.path).metrics["score"])
    print("At a URI:", Checkpoint.from_uri(best.checkpoint.uri).to_dict())


def classes():
    results = Tuner(
        MyTrainableClass,
        param_space={"width": tune.grid_search([1, 10]), "height": 2},
        tune_config=TuneConfig(metric="episode_reward_mean", mode="max"),
        run_config=RunConfig(
            storage_path=RESULTS,
            stop={"training_iteration": 3},
            checkpoint_config=CheckpointConfig(checkpoint_frequency=1, num_to_keep=2),
            failure_config=FailureConfig(fail_fast=True),
            verbose=0,
        ),
    ).fit()
    print("Widths:", [result.config["width"] for result in results], len(results.errors))


def failing():
    def fail(config):
        raise ValueError("nothing works")

    results = Tuner(
        fail,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=RESULTS, verbose=0),
    ).fit()
    try:
        results.get_best_result("score", "max")
    except RuntimeError as error:
        print("All failed:", "All 2 trials failed" in str(error), "nothing works" in str(error))


def train_loop(config):
    frame = session.get_dataset_shard("train").to_pandas()
    for epoch in range(10):
        factor = session.get_world_size() * config["factor"]
        session.report(
            {"epoch": epoch, "rank": session.get_world_rank(), "rows": len(frame)},
            checkpoint=Checkpoint.from_dict({"factor": factor}),
        )


class Multiplier(Predictor):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    @classmethod
    def from_checkpoint(cls, checkpoint, **kwargs):
        return cls(checkpoint.to_dict()["factor"])

    def _predict_pandas(self, data, **kwargs):
        return data * self.factor


def trainer():
    from ray.train import RunConfig

    result = DataParallelTrainer(
        train_loop,
        train_loop_config={"factor": 3},
        scaling_config=ray.train.ScalingConfig(num_workers=2, _max_cpu_fraction_per_node=0.8),
        datasets={"train": air.train_test_split(ray.data.range(6), 2)[0]},
        dataset_config={
            "train": DatasetConfig(
                split=True,
                transform=True,
                global_shuffle=False,
                randomize_block_order=False,
                per_epoch_preprocessor=None,
                use_stream_api=False,
                stream_window_size=None,
                max_object_store_memory_fraction=0.2,
            )
        },
        run_config=RunConfig(local_dir=RESULTS, stop={"epoch": 2}, callbacks=[Count()]),
    ).fit()
    print("Stopped at:", result.metrics["epoch"], "Results:", Count.results)
    print(
        "Rows:", result.metrics["rows"], "Factor:", result.checkpoint.to_air_checkpoint().to_dict()
    )
    predictor = BatchPredictor.from_checkpoint(result.checkpoint, Multiplier)
    predicted = predictor.predict(ray.data.from_items([{"x": 1}, {"x": 2}]))
    print("Predicted:", sorted(row["x"] for row in predicted.take_all()))
    print("No preprocessor:", result.checkpoint.get_preprocessor())
    print(
        "Subclass:",
        issubclass(TrainingFailedError, Exception),
        ScalingConfig(num_workers=2).num_workers,
    )


def columns():
    from ray.data.preprocessors import Concatenator

    table = ray.data.from_items([{"x": 1.0, "y": 2.0, "label": 0}])
    both = Concatenator(exclude=["label"], output_column_name="both").fit_transform(table)
    one = Concatenator(include=["x"], output_column_name="one").fit_transform(table)
    every = Concatenator(output_column_name="every").fit_transform(table)
    print("Every column:", every.take(1)[0]["every"].tolist())
    tensors = [batch["x"].numpy().tolist() for batch in table.iter_tf_batches(prefetch_blocks=1)]
    print("Ahead:", tensors, [row["y"] for row in table.iter_rows(prefetch_batches=1)])
    print("Columns:", both.take(1)[0]["both"].tolist(), sorted(one.take(1)[0]))
    print("Epochs:", len(list(table.repeat(3).iter_rows())))


class Count(tune.Callback):
    results = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        Count.results += 1


if __name__ == "__main__":
    ray.init(num_cpus=2)
    search()
    classes()
    failing()
    trainer()
    columns()
