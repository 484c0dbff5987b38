"""Tune when things fail: the driver is killed or interrupted, trials die, arguments are wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

import raycompat as ray
from raycompat import tune
from raycompat._storage import Folder
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.tune.execution.experiment_state import JOURNAL, load_trials
from raycompat.tune.schedulers import HyperBandForBOHB

pytestmark = pytest.mark.timeout(180)

#: A program whose trials say in a file when they have ended.
PROGRAM = """
import os, sys, time
import raycompat as ray
from raycompat import tune

folder = sys.argv[1]

def train(config):
    for step in range(3):
        time.sleep(0.05)
        tune.report({"score": config["x"], "process": os.getpid()})
    with open(os.path.join(folder, "ended"), "a") as file:
        file.write(f"{config['x']}\\n")

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)
    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search(list(range(8)))},
        tune_config=tune.TuneConfig(metric="score", mode="max"),
        run_config=tune.RunConfig(name="mine", storage_path=folder, verbose=0),
    ).fit()
    print("ended with", grid.num_terminated)
"""


def train(config):
    """The program's trainable, which does not wait any more."""
    for _ in range(3):
        tune.report({"score": config["x"], "process": os.getpid()})


@pytest.fixture
def program(tmp_path, wait_until):
    """Start the program, wait until some trials have ended, and return its process."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(path), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        ended = tmp_path / "ended"
        wait_until(lambda: ended.exists() and ended.read_text().count("\n") >= 3, 100)
        yield process
        process.kill()


def check_restored(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    before = load_trials(Folder(folder))
    done = {t.trial_id: t.last_result["process"] for t in before if t.status == "TERMINATED"}
    assert len(done) >= 1
    assert len(done) < 8
    grid = tune.Tuner.restore(folder, trainable=train).fit()
    assert grid.num_terminated == len(grid) == 8
    assert sorted(result.metrics["score"] for result in grid) == list(range(8))
    for result in grid:
        trial_id = result.metrics["trial_id"]
        if trial_id in done:  # what had ended was not run again
            assert result.metrics["process"] == done[trial_id]
    assert grid.get_best_result().config == {"x": 7}


def test_a_killed_driver_is_restored(cluster, program, tmp_path):
    program.send_signal(signal.SIGKILL)
    program.wait(30)
    check_restored(tmp_path)


def test_an_interrupted_driver_is_restored(cluster, program, tmp_path):
    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=60)
    assert "Tuner.restore" in errors
    assert "ended with" in output  # `fit` has returned what there was
    check_restored(tmp_path)


def test_a_torn_line_of_the_journal_is_left_out(cluster, tmp_path):
    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    journal = Path(grid.experiment_path, JOURNAL)
    lines = journal.read_bytes().splitlines(keepends=True)
    torn = b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2]
    journal.write_bytes(torn)
    again = tune.Tuner.restore(grid.experiment_path, trainable=train).fit()
    assert again.num_terminated == 2


class Saved(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count, "process": os.getpid()}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]


def test_trials_that_are_killed_go_on(cluster, tmp_path):
    rng, killed = random.Random(4), []

    class Killer(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if len(killed) < 6 and rng.random() < 0.2:
                killed.append(result["process"])
                os.kill(result["process"], signal.SIGKILL)

    grid = tune.Tuner(
        Saved,
        param_space={"x": tune.grid_search([1, 2, 3])},
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            verbose=0,
            stop={"count": 10},
            callbacks=[Killer()],
            failure_config=tune.FailureConfig(max_failures=-1),
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        ),
    ).fit()
    assert killed
    assert [result.metrics["count"] for result in grid] == [10] * 3
    assert grid.num_errors == 0


def test_a_trial_that_always_dies_is_an_error(cluster, tmp_path):
    def die(config):
        os._exit(1)

    grid = tune.Tuner(die, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert grid.num_errors == 1
    assert isinstance(grid.errors[0], ray.exceptions.RayActorError)


def test_fail_fast(cluster, tmp_path):
    def fail(config):
        raise ValueError("bad")

    config = tune.RunConfig(
        storage_path=str(tmp_path), verbose=0, failure_config=tune.FailureConfig(fail_fast="raise")
    )
    with pytest.raises(ValueError, match="bad"):
        tune.Tuner(fail, run_config=config).fit()
    config.failure_config = tune.FailureConfig(fail_fast=True)
    config.name = "second"
    grid = tune.Tuner(fail, tune_config=tune.TuneConfig(num_samples=20), run_config=config).fit()
    assert len(grid) < 20


def test_trials_clean_up(cluster, tmp_path):
    class Clean(Saved):
        def cleanup(self):
            Path(self.logdir, "clean").touch()

    def endless(config):
        try:
            while True:
                tune.report({"count": 5})
        finally:
            Path(tune.get_context().get_trial_dir(), "clean").touch()

    for trainable in (Clean, endless):
        config = tune.RunConfig(
            storage_path=str(tmp_path), verbose=0, stop={"training_iteration": 5}
        )
        result = tune.Tuner(trainable, run_config=config).fit()[0]
        assert Path(result.path, "clean").exists()


def test_functions_with_a_reporter(cluster, tmp_path):
    def train(config, reporter):
        step = 0
        while True:
            step += 1
            reporter(timesteps_total=step * 10, mean_accuracy=step * config["lr"])

    tune.register_trainable("of_2018", train)
    trials = tune.run_experiments(
        {
            "experiment": {
                "run": "of_2018",
                "stop": {"mean_accuracy": 1, "timesteps_total": 100},
                "config": {"lr": tune.grid_search([0.5, 0.01])},
                "trial_resources": {"cpu": 1, "gpu": 0},
                "repeat": 2,
                "local_dir": str(tmp_path),
                "max_failures": 2,
            }
        },
        verbose=0,
    )
    assert [trial.last_result["timesteps_total"] for trial in trials] == [20, 100, 20, 100]


def test_old_methods(cluster, tmp_path):
    class Old(tune.Trainable):
        def _setup(self, config):
            self.count = 0

        def _train(self):
            self.count += 1
            return {"count": self.count}

        def _save(self, checkpoint_dir):
            path = os.path.join(checkpoint_dir, "count.txt")
            Path(path).write_text(str(self.count))
            return path

        def _restore(self, path):
            self.count = int(Path(path).read_text())

        def _stop(self):
            Path(self.logdir, "stopped").touch()

    (trial,) = tune.run_experiments(
        {
            "old": {
                "run": Old,
                "stop": {"count": 4},
                "checkpoint_freq": 2,
                "storage_path": str(tmp_path),
            }
        },
        verbose=0,
    )
    assert Path(trial.path, "stopped").exists()
    (again,) = tune.run_experiments(
        {
            "again": {
                "run": Old,
                "stop": {"count": 5},
                "restore": trial.checkpoint.path,
                "storage_path": str(tmp_path),
            }
        },
        verbose=0,
    )
    assert again.last_result["count"] == 5
    assert again.num_results == 1


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda p: tune.run("training", storage_path=p),
            tune.TuneError,
            "Unknown trainable 'training'",
        ),
        (
            lambda p: tune.run(lambda c: None, config={"x": tune.grid_search([])}, storage_path=p),
            ValueError,
            "at least one value",
        ),
        (
            lambda p: tune.run(
                lambda c: None, config={"x": tune.grid_search("abc")}, storage_path=p
            ),
            ValueError,
            "expected a list",
        ),
        (lambda p: tune.choice([]), ValueError, "at least one value"),
        (
            lambda p: tune.run(lambda c: None, metric="m", mode="highest", storage_path=p),
            ValueError,
            "'min' or 'max'",
        ),
        (
            lambda p: tune.run(lambda c: None, num_samples=0, storage_path=p),
            ValueError,
            "num_samples=0",
        ),
        (
            lambda p: tune.run_experiments({"a": {"run": lambda c: None, "stop_at": {}}}),
            tune.TuneError,
            "'stop'",
        ),
        (lambda p: tune.run(3, storage_path=p), tune.TuneError, "not a trainable"),
        (lambda p: HyperBandForBOHB(), UnsupportedRayFeatureError, "OptunaSearch"),
        (lambda p: tune.create_searcher("bayesopt"), UnsupportedRayFeatureError, "Optuna"),
        (lambda p: tune.report({"a": 1}), RuntimeError, "no trial runs"),
        (lambda p: tune.Tuner.restore(p, trainable=train), tune.TuneError, "tuner.pkl"),
    ],
)
def test_bad_input(tmp_path, call, error, says):
    with pytest.raises(error, match=says):
        call(str(tmp_path))


def test_infeasible_trials(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S", "0.1")
    trainable = tune.with_resources(train, {"cpu": 100})
    with pytest.raises(tune.TuneError, match="'CPU': 100"):
        tune.run(trainable, config={"x": 1}, storage_path=str(tmp_path), verbose=0)


def test_trials_that_never_report(cluster, tmp_path, caplog):
    analysis = tune.run(
        lambda config: None, metric="score", mode="max", storage_path=str(tmp_path), verbose=0
    )
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"]
    assert "without a report" in caplog.text


def test_results_survive_an_unknown_metric(cluster, tmp_path):
    def train(config):
        tune.report({"score": 1})
        tune.report({"typo": 2})

    with pytest.raises(ValueError, match=r"'score'.*\['typo'\]"):
        tune.run(
            train, name="kept", metric="score", mode="max", storage_path=str(tmp_path), verbose=0
        )
    analysis = tune.ExperimentAnalysis(str(tmp_path / "kept"))
    (trial,) = analysis.trials
    assert list(analysis.dataframe_of(trial)["score"]) == [1]


def test_remote_storage(cluster, tmp_path):
    """A file system that cannot rename: everything is there in the end, and can be restored."""
    storage = DirFileSystem(path=str(tmp_path), fs=LocalFileSystem(auto_mkdir=True))
    config = tune.RunConfig(
        name="far",
        storage_path="results",
        storage_filesystem=storage,
        verbose=0,
        stop={"count": 3},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=1),
    )
    result = tune.Tuner(Saved, run_config=config).fit()[0]
    folder = tmp_path / "results" / "far" / os.path.basename(result.path)
    assert {"result.json", "progress.csv", "params.json"} <= set(os.listdir(folder))
    with result.checkpoint.as_directory() as local:
        assert "dict_checkpoint.pkl" in os.listdir(local)
    again = tune.Tuner.restore("results/far", trainable=Saved, storage_filesystem=storage)
    assert again.get_results()[0].metrics["count"] == 3


def test_threads_end_with_the_experiment(cluster, tmp_path):
    before = threading.active_count()
    tune.run(train, config={"x": 1}, num_samples=4, storage_path=str(tmp_path), verbose=0)
    assert threading.active_count() <= before
