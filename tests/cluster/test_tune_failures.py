"""Tune when things fail: the driver is killed or interrupted, trials die, arguments are wrong."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
from _small_disk import output_of
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

import raycompat as ray
from raycompat import tune
from raycompat._storage import Folder
from raycompat.train import Checkpoint, RunConfig, ScalingConfig, get_checkpoint, report
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.tune.execution.experiment_state import JOURNAL, load_trials
from raycompat.tune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)

pytestmark = pytest.mark.timeout(180)

#: A program whose trials say in a file when they have ended.
PROGRAM = """
import os, sys, time
import raycompat as ray
from raycompat import tune


folder = sys.argv[1]

def note(name, config):
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{config['x']}\\n")

def train(config):
    note("begun", config)
    try:
        for step in range(3):
            time.sleep(0.05)
            tune.report({"score": config["x"], "process": os.getpid()})
        note("ended", config)
    finally:
        note("cleaned", config)

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
    begun, cleaned = ((tmp_path / name).read_text().split() for name in ("begun", "cleaned"))
    assert sorted(begun) == sorted(cleaned)
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


@pytest.mark.parametrize("at_once", [1, 2])
def test_restore_after_fail_fast_runs_the_rest(cluster, tmp_path, at_once):
    restored = tmp_path / "restored"

    def fail_first(config):
        if config["a"] == 0:
            raise ValueError("bad")
        while not restored.exists():  # so that the failure comes first
            tune.report({"a": config["a"]})
        tune.report({"a": config["a"]})

    config = tune.RunConfig(
        name="run",
        storage_path=str(tmp_path),
        verbose=0,
        failure_config=tune.FailureConfig(fail_fast=True),
    )
    grid = tune.Tuner(
        fail_first,
        param_space={"a": tune.grid_search([0, 1, 2, 3])},
        tune_config=tune.TuneConfig(max_concurrent_trials=at_once),
        run_config=config,
    ).fit()
    assert grid.num_errors == 1
    assert len(grid) < 4
    restored.touch()
    grid = tune.Tuner.restore(str(tmp_path / "run"), trainable=fail_first).fit()
    assert grid.num_errors == 1
    assert sorted(result.metrics["a"] for result in grid if not result.error) == [1, 2, 3]


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
    name = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(name, reason="tensorboard is not installed")
    events = reader.EventAccumulator(trials[0].logdir)
    events.Reload()
    accuracy = events.Scalars("ray/tune/mean_accuracy")
    assert [(each.step, each.value) for each in accuracy] == [(10, 0.5), (20, 1)]


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
        (
            lambda p: tune.run(
                lambda c: None, config={"a": {"x": {"grid_serach": [1, 2]}}}, storage_path=p
            ),
            ValueError,
            r"'a/x' has the key 'grid_serach'.*tune.grid_search\(\[1, 2\]\)",
        ),
        (
            lambda p: tune.Tuner(DataParallelTrainer(train), param_space={"train_lop_config": {}}),
            ValueError,
            "'train_loop_config'",
        ),
        (lambda p: tune.choice([]), ValueError, "at least one value"),
        (
            lambda p: tune.run(lambda c: None, metric="m", mode="highest", storage_path=p),
            ValueError,
            "'min' or 'max'",
        ),
        (
            lambda p: tune.run(lambda c: None, num_samples=-2, storage_path=p),
            ValueError,
            "num_samples=-2",
        ),
        (
            lambda p: tune.run_experiments({"a": {"run": lambda c: None, "stop_at": {}}}),
            tune.TuneError,
            "'stop'",
        ),
        (lambda p: tune.run(3, storage_path=p), tune.TuneError, "not a trainable"),
        (lambda p: tune.create_searcher("bohb"), ImportError, "pip install hpbandster ConfigSpace"),
        (
            lambda p: tune.create_searcher("bayesopt"),
            ImportError,
            "pip install bayesian-optimization",
        ),
        (lambda p: tune.Tuner.restore(p, trainable=train), FileNotFoundError, "tuner.pkl"),
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


#: Seconds for which trials are killed; a minute and more with RAYCOMPAT_TUNE_CHAOS_S=60.
CHAOS_S = float(os.environ.get("RAYCOMPAT_TUNE_CHAOS_S", "10"))


@pytest.mark.nightly
@pytest.mark.timeout(CHAOS_S * 4 + 180)
def test_trials_are_killed_at_random(cluster, tmp_path, wait_until):
    """Each trial counts to its end, whatever moment its process dies at, set-up included."""

    pids = tmp_path / "pids"

    class Slow(Saved):
        def setup(self, config):
            with open(pids, "a") as file:
                file.write(f"{os.getpid()}\n")
            super().setup(config)

        def step(self):
            time.sleep(0.02)  # so that kills fall into steps, not only between them
            return super().step()

    rng, kills, is_over = random.Random(11), [], threading.Event()
    #: What stopper and callback know of it, who are pickled with the experiment's state.
    over: list[bool] = []
    driver = psutil.Process()

    def kill() -> None:
        while not (over or is_over.wait(rng.uniform(0.3, 0.8))):
            trials = {int(line) for line in pids.read_text().split()} if pids.exists() else set()
            alive = [each for each in driver.children(recursive=True) if each.pid in trials]
            if alive:
                victim = rng.choice(alive)
                try:
                    victim.kill()
                except psutil.NoSuchProcess:
                    continue  # its trial has ended just now
                kills.append(victim.pid)

    began = time.monotonic()
    ended: set[str] = set()

    class Watch(tune.Callback):
        def on_trial_complete(self, iteration, trials, trial, **info):
            assert trial.trial_id not in ended
            ended.add(trial.trial_id)

        def on_step_end(self, iteration, trials, **info):
            if time.monotonic() - began > CHAOS_S:
                over.append(True)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        grid = tune.Tuner(
            Slow,
            param_space={"x": tune.grid_search(list(range(6)))},
            tune_config=tune.TuneConfig(metric="count", mode="max"),
            run_config=tune.RunConfig(
                storage_path=str(tmp_path),
                verbose=0,
                stop=lambda trial_id, result: bool(over) and result["count"] >= 10,
                callbacks=[Watch()],
                failure_config=tune.FailureConfig(max_failures=-1),
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=2),
            ),
        ).fit()
    finally:
        is_over.set()
        killer.join()
    print(f"{len(kills)} kills in {time.monotonic() - began:.0f} s")
    assert len(kills) >= CHAOS_S / 3
    assert (grid.num_terminated, grid.num_errors, len(ended)) == (6, 0, 6)
    for result in grid:
        counts = [int(count) for count in result.metrics_dataframe["count"]]
        # A retried trial may repeat the steps behind its last checkpoint, and leaves none out.
        assert all(after <= before + 1 for before, after in zip(counts, counts[1:], strict=False))
        assert (counts[0], counts[-1]) == (1, result.metrics["count"])


FULL_DISK = """
import os, sys
import raycompat as ray
from raycompat import tune


disk, folder = sys.argv[1], os.path.join(sys.argv[1], "mine")

class Grow(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count, "score": self.config["x"]}

    def save_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "weights"), "wb") as file:
            file.write(bytes([self.count]) * self.config["size"])

    def load_checkpoint(self, checkpoint_dir):
        content = open(os.path.join(checkpoint_dir, "weights"), "rb").read()
        self.count = content[0]
        assert content == bytes([self.count]) * self.config["size"]

def tuner(name, size, **options):
    return tune.Tuner(
        Grow,
        param_space={"x": tune.grid_search([1, 2, 3, 4]), "size": size},
        tune_config=tune.TuneConfig(metric="score", mode="max", max_concurrent_trials=1),
        run_config=tune.RunConfig(
            name=name, storage_path=disk, verbose=0, stop={"count": 3}, **options,
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        ),
    )

ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)

# Checkpoints fill the disk: trials for which there is no room fail, and the others are kept.
grid = tuner("mine", 900_000).fit()
assert len(grid) == 4 and grid.num_terminated >= 1 and grid.num_errors >= 1, grid
for result in grid:
    if result.error is not None:
        assert isinstance(result.error, OSError) and "disk is full" in str(result.error), result.error
for result in grid:
    for checkpoint, metrics in result.best_checkpoints:
        content = open(os.path.join(checkpoint.path, "weights"), "rb").read()
        assert content == bytes([metrics["count"]]) * 900_000
failed = grid.num_errors

# With room again, the failed trials go on from their last whole checkpoints.
for result in grid:
    if result.error is None:
        for checkpoint, _ in result.best_checkpoints:
            os.unlink(os.path.join(checkpoint.path, "weights"))
os.system(f"mount -o remount,size=40m {disk}")
grid = tune.Tuner.restore(folder, trainable=Grow, resume_errored=True).fit()
assert (grid.num_terminated, grid.num_errors) == (4, 0), grid.errors

# Nothing at all can be written in mid-experiment: `fit` raises, and what was written stays valid.
class Filler(tune.Callback):
    def on_trial_complete(self, iteration, trials, trial, **info):
        if os.path.exists(disk + ".filled"):  # the restored experiment has this callback, too
            return
        open(disk + ".filled", "w").close()
        with open(os.path.join(disk, "filler"), "ab", buffering=0) as file:
            for size in (1_000_000, 1_000, 1):
                try:
                    while file.write(b"." * size) == size:
                        pass
                except OSError:
                    pass

try:
    tuner("second", 10, callbacks=[Filler()]).fit()
except OSError as error:
    assert "No space left" in str(error) or "disk is full" in str(error), error
else:
    raise AssertionError("there was room")
os.unlink(os.path.join(disk, "filler"))
grid = tune.Tuner.restore(os.path.join(disk, "second"), trainable=Grow).fit()
assert (len(grid), grid.num_terminated) == (4, 4), grid
print(failed, sorted(result.metrics["count"] for result in grid))
"""


@pytest.mark.nightly
@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="mounting a small disk needs root",
)
def test_a_full_disk(no_cluster, tmp_path):
    failed, counts = output_of(FULL_DISK, tmp_path, "5m").split(maxsplit=1)
    assert int(failed) >= 1
    assert counts.strip() == "[3, 3, 3, 3]"


@pytest.mark.parametrize(
    "scheduler",
    [
        None,
        ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
        HyperBandScheduler(max_t=4, reduction_factor=2),
        MedianStoppingRule(grace_period=1, min_samples_required=1),
        PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=2,
            hyperparam_mutations={"x": [1, 2]},
        ),
    ],
    ids=lambda scheduler: type(scheduler).__name__,
)
def test_scores_that_are_not_numbers(cluster, tmp_path, caplog, scheduler):
    """Trials with NaN are never the best, no scheduler fails on them, and the user is warned."""

    class Score(Saved):
        def step(self):
            result = super().step()
            return {**result, "score": math.nan if self.config["bad"] else result["count"]}

    grid = tune.Tuner(
        Score,
        param_space={"bad": tune.grid_search([True, False, True]), "x": 1},
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=scheduler),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, stop={"count": 4}),
    ).fit()
    assert grid.num_errors == 0
    assert grid.num_terminated == 3
    assert "score=NaN" in caplog.text
    best = grid.get_best_result()
    assert not math.isnan(best.metrics["score"])


def test_a_copied_trial_keeps_what_it_trains_afterwards(cluster, tmp_path):
    """After a copy, a pause continues from the trial's own checkpoint, not from the donor's again."""

    class Score(Saved):
        def step(self):
            return {**super().step(), "score": self.config["x"]}

    grid = tune.Tuner(
        Score,
        param_space={"x": tune.grid_search([1, 2, 3, 4])},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            scheduler=PopulationBasedTraining(
                time_attr="training_iteration",
                perturbation_interval=2,
                hyperparam_mutations={"x": [1, 2, 3, 4]},
                resample_probability=0,
                synch=True,
            ),
        ),
        run_config=tune.RunConfig(
            name="copies", storage_path=str(tmp_path), verbose=0, stop={"training_iteration": 10}
        ),
    ).fit()
    assert grid.num_terminated == 4
    # All have trained equally long at each copy, so no trial goes back.
    for result in grid:
        assert list(result.metrics_dataframe["training_iteration"]) == list(range(1, 11))
    assert len((tmp_path / "copies" / "pbt_global.txt").read_text().splitlines()) == 4


def test_only_scores_that_are_not_numbers(cluster, tmp_path):
    grid = tune.Tuner(
        lambda config: {"score": math.nan},
        tune_config=tune.TuneConfig(metric="score", mode="max", num_samples=2),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert len(grid) == 2
    with pytest.raises(RuntimeError, match="score"):
        grid.get_best_result()


@pytest.mark.nightly
def test_a_budget_ends_trials_that_never_report(cluster, tmp_path):
    def wait(config):
        threading.Event().wait()

    began = time.monotonic()
    grid = tune.Tuner(
        wait,
        tune_config=tune.TuneConfig(time_budget_s=1),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert time.monotonic() - began < 60
    assert (len(grid), grid.num_errors) == (1, 0)
    assert ray.available_resources()["CPU"] == 2


def test_a_killed_trial_ends_its_workers(cluster, tmp_path, wait_until):
    """Workers of a trainer die with their trial, which goes on from its checkpoint."""
    folder = str(tmp_path)

    def loop(config):
        start = 0
        if get_checkpoint() is not None:
            with get_checkpoint().as_directory() as found:
                start = int(Path(found, "step").read_text()) + 1
        with open(os.path.join(folder, "pids"), "a") as file:
            file.write(f"{os.getpid()}\n")
        for step in range(start, 4):
            with tempfile.TemporaryDirectory() as saved:
                Path(saved, "step").write_text(str(step))
                report({"step": step, "start": start}, Checkpoint.from_directory(saved))

    killed = []

    class Killer(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["step"] == 1 and not killed:
                killed.append(result["pid"])
                os.kill(result["pid"], signal.SIGKILL)

    (result,) = tune.Tuner(
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="unused", storage_path=folder),
        ),
        run_config=tune.RunConfig(
            storage_path=folder,
            verbose=0,
            callbacks=[Killer()],
            failure_config=tune.FailureConfig(max_failures=1),
        ),
    ).fit()
    assert killed
    assert (result.metrics["step"], result.metrics["start"]) == (3, 2)
    pids = [int(line) for line in Path(folder, "pids").read_text().split()]
    assert len(pids) == 4
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    wait_until(lambda: ray.available_resources().get("CPU") == 2)


def test_trials_with_equal_folder_names_have_folders_of_their_own(cluster, tmp_path):
    def results(num_samples, **names):
        tuner = tune.Tuner(
            lambda config: {"x": config["x"]},
            param_space={"x": tune.grid_search([1, 2])},
            tune_config=tune.TuneConfig(num_samples=num_samples, **names),
            run_config=tune.RunConfig(name="run", storage_path=str(tmp_path), verbose=0),
        )
        return tuner.fit()

    paths = []
    for names in (
        {"trial_dirname_creator": lambda trial: "same"},
        {"trial_dirname_creator": lambda trial: "same"},  # of another run with the same folder
        {"trial_name_creator": lambda trial: "ä" * 200},  # equal where they are cut
    ):
        for result in results(2, **names):
            paths.append(result.path)
            assert len(Path(result.path, "result.json").read_text().splitlines()) == 1
    assert len(set(paths)) == 12
    assert {Path(path).parent for path in paths} == {tmp_path / "run"}
    for wrong in ("../../escape", "a/b", "..", "nu\0l", "\ud800"):
        with pytest.raises(ValueError, match="trial_dirname_creator"):
            results(1, trial_dirname_creator=lambda trial, wrong=wrong: wrong)


class Hostile:
    """A metric whose text and whose number cannot be made."""

    def __repr__(self):
        raise ZeroDivisionError("in user code")

    __float__ = __repr__


def hostile_metrics() -> dict:
    itself: dict = {}
    itself["itself"] = itself
    return {"large": 10**400, "itself": itself, "object": Hostile(), "complex": 1j}


def test_a_metric_that_cannot_be_written_is_recorded_as_text(cluster, tmp_path):
    def trainable(config):
        for score in range(3):
            tune.report({"score": score, **hostile_metrics()})

    (result,) = tune.Tuner(
        trainable, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=2)
    ).fit()
    assert result.error is None
    assert result.metrics["score"] == 2
    assert result.metrics["large"] == str(10**400)
    assert result.metrics["itself"] == {"itself": "..."}
    assert "ZeroDivisionError" in result.metrics["object"]

    def train():
        with pytest.raises(ValueError, match="leads out"):
            report({"score": 0}, checkpoint_dir_name="../../escape")
        report({"score": 1, **hostile_metrics()})

    run = DataParallelTrainer(train, run_config=RunConfig(storage_path=str(tmp_path))).fit()
    assert run.metrics["score"] == 1
    assert run.metrics["itself"] == {"itself": "..."}


@pytest.mark.parametrize("name", ["../../escape", "/absolute", "\ud800", "ä" * 150])
def test_no_name_leads_out_of_the_storage(tmp_path, name):
    with pytest.raises(ValueError, match="name="):
        RunConfig(name=name, storage_path=str(tmp_path))
    tuner = tune.Tuner(
        lambda config: None, run_config=tune.RunConfig(name=name, storage_path=str(tmp_path))
    )
    with pytest.raises(ValueError, match="name="):
        tuner.fit()
    assert not list(tmp_path.iterdir())
