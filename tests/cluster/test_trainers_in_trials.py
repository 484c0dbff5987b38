"""Trainers of Train as trainables of Tune: features that real Ray lacks or has in another form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import raycompat as ray
from raycompat import train, tune
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train._round_reports import MakesCheckpoints
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.tune.schedulers import PopulationBasedTraining

pytestmark = pytest.mark.timeout(180)

TUTORIALS = Path(__file__).parents[2] / "tutorials"


@pytest.fixture
def run_config(tmp_path):
    return tune.RunConfig(name="experiment", storage_path=str(tmp_path), verbose=0)


def test_populations_exchange_checkpoints(cluster, run_config):
    def loop(config):
        step, origin = 0, config["x"]
        if train.get_checkpoint() is not None:
            with train.get_checkpoint().as_directory() as found:
                step, origin = map(int, (Path(found) / "state").read_text().split())
        while True:
            step += 1
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "state").write_text(f"{step} {origin}")
                train.report(
                    {"score": step + 1000 * origin, "origin": origin},
                    checkpoint=train.Checkpoint.from_directory(folder),
                )

    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        synch=True,
        hyperparam_mutations={"train_loop_config": {"x": [1, 2]}},
        quantile_fraction=0.5,
        resample_probability=0,
    )
    run_config.stop = {"training_iteration": 6}
    grid = tune.Tuner(
        DataParallelTrainer(loop),
        param_space={"train_loop_config": {"x": tune.grid_search([1, 2])}},
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=scheduler),
        run_config=run_config,
    ).fit()
    assert grid.num_errors == 0
    assert [result.metrics["origin"] for result in grid] == [2, 2]


def test_a_function_makes_checkpoints_as_the_tuner_says(cluster, run_config):
    """Also after a restore; what the tuner leaves out is as in the trainer."""

    class Own(MakesCheckpoints):
        frequency, at_end = 1, True

        def __call__(self, config):
            if train.get_checkpoint() is None and config["fails"]:
                raise ValueError("on purpose")
            train.report({"frequency": self.frequency, "at_end": self.at_end})

        def with_checkpoints(self, config):
            changed = Own()
            changed.frequency = config.checkpoint_frequency or self.frequency
            changed.at_end = self.at_end if (at_end := config.checkpoint_at_end) is None else at_end
            return changed

    def found(result):
        return result.metrics["frequency"], result.metrics["at_end"]

    trainer = DataParallelTrainer(Own(), train_loop_config={"fails": False})
    (result,) = tune.Tuner(trainer, run_config=run_config).fit()
    assert found(result) == (1, True)
    run_config.name = "other"
    run_config.checkpoint_config = tune.CheckpointConfig(
        checkpoint_frequency=5, checkpoint_at_end=False
    )
    failing = DataParallelTrainer(Own(), train_loop_config={"fails": True})
    grid = tune.Tuner(failing, run_config=run_config).fit()
    assert grid.num_errors == 1
    again = tune.Tuner.restore(grid.experiment_path, trainable=trainer, restart_errored=True)
    assert found(again.fit()[0]) == (5, False)


def test_a_function_that_makes_no_checkpoints_refuses_their_frequency(cluster, run_config):
    run_config.checkpoint_config = tune.CheckpointConfig(checkpoint_frequency=5)
    trainer = DataParallelTrainer(lambda: train.report({"a": 1}))
    with pytest.raises(ValueError, match=r"checkpoint_frequency .*RayTrainReportCallback"):
        tune.Tuner(trainer, run_config=run_config).fit()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_callbacks_and_data_sets_of_the_trainer(cluster, run_config, tmp_path, num_workers):
    """They work with workers, and when the trial trains by itself."""

    class Note(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            with open(tmp_path / "notes", "a") as file:
                file.write(json.dumps([metrics[0]["total"], checkpoint is not None]) + "\n")

    def loop(config):
        total = sum(train.get_dataset_shard("train")) * config["factor"]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "total").write_text(str(total))
            train.report({"total": total}, checkpoint=train.Checkpoint.from_directory(folder))

    grid = tune.Tuner(
        DataParallelTrainer(
            loop,
            datasets={"train": [1, 2, 3]},
            scaling_config=train.ScalingConfig(num_workers=num_workers),
            run_config=train.RunConfig(callbacks=[Note()], storage_path=str(tmp_path)),
        ),
        param_space={"train_loop_config": {"factor": tune.grid_search([1, 10])}},
        tune_config=tune.TuneConfig(max_concurrent_trials=1),
        run_config=run_config,
    ).fit()
    assert [result.metrics["total"] for result in grid] == [6, 60]
    notes = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    assert notes == [[6, True], [60, True]]
    for result in grid:
        assert os.path.dirname(result.checkpoint.path) == result.path
        assert Path(result.checkpoint.path, "total").read_text() == str(result.metrics["total"])


def test_workers_list_the_checkpoints_that_tune_has_kept(cluster, run_config):
    def loop():
        for step in range(4):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "step").write_text(str(step))
                train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(folder))
        found = train.get_all_reported_checkpoints()
        train.report({"found": [each.metrics["step"] for each in found]})

    run_config.checkpoint_config = tune.CheckpointConfig(num_to_keep=2)
    (result,) = tune.Tuner(DataParallelTrainer(loop), run_config=run_config).fit()
    assert result.metrics["found"] == [2, 3]


def test_workers_take_the_resources_of_their_trial(cluster, run_config):
    """Two trials of one worker run side by side on two CPUs: nothing else takes one."""

    def loop():
        free = ray.available_resources().get("CPU", 0)
        group = ray.util.get_current_placement_group()
        train.report({"free": free, "bundles": group.bundle_specs})

    (result,) = tune.Tuner(
        DataParallelTrainer(loop, scaling_config=train.ScalingConfig(num_workers=2)),
        run_config=run_config,
    ).fit()
    assert result.metrics["free"] == 0
    assert result.metrics["bundles"] == [{"CPU": 1}, {"CPU": 1}]


def test_too_many_workers_are_told(cluster, run_config, monkeypatch):
    monkeypatch.setenv("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S", "0.1")
    trainer = DataParallelTrainer(lambda: None, scaling_config=train.ScalingConfig(num_workers=100))
    with pytest.raises(tune.TuneError, match="'CPU': 100"):
        tune.Tuner(trainer, run_config=run_config).fit()


def test_validations_are_refused():
    trainer = DataParallelTrainer(
        lambda: None, validation_config=train.ValidationConfig(fn=lambda checkpoint: {})
    )
    with pytest.raises(UnsupportedRayFeatureError, match="validation_config"):
        tune.Tuner(trainer)


def test_a_tensorflow_trainer_is_tuned(cluster, run_config):
    from raycompat.train.tensorflow import TensorflowTrainer

    def loop(config):
        import keras
        import numpy as np

        from raycompat.train.tensorflow.keras import ReportCheckpointCallback

        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(config["lr"]), "mse")
        x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
        model.fit(x, 3 * x, epochs=3, verbose=0, callbacks=[ReportCheckpointCallback()])

    grid = tune.Tuner(
        TensorflowTrainer(loop, train_loop_config={"lr": 0.1}),
        param_space={"train_loop_config": {"lr": tune.grid_search([0.001, 0.1])}},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=run_config,
    ).fit()
    assert grid.num_errors == 0, grid.errors
    best = grid.get_best_result()
    assert best.config == {"train_loop_config": {"lr": 0.1}}
    assert best.metrics["training_iteration"] == 3
    assert (Path(best.checkpoint.path) / "model.keras").is_file()


@pytest.mark.nightly
@pytest.mark.parametrize("search", ["loop", "tune"])
def test_the_tutorial_program_finds_a_network_that_reads(no_cluster, search):
    done = subprocess.run(
        [sys.executable, TUTORIALS / "hyperopt_digits.py", "--search", search, "--draws", "4"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("  accuracy ") for line in lines) == 4
    (best,) = [line for line in lines if line.startswith("The best: ")]
    accuracy = float(best.split("accuracy ")[1].split("%")[0])
    assert 90 <= accuracy <= 100
    found = [float(line.split()[1].rstrip("%")) for line in lines if line.startswith("  accuracy")]
    assert accuracy == max(found)


def test_the_tutorial_program_says_what_it_expects():
    done = subprocess.run(
        [sys.executable, TUTORIALS / "hyperopt_digits.py", "--draws", "0"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 2
    assert "--draws is 0; expected at least 1" in done.stderr
