"""Trainers of Train in trials of Tune: as the trainable, and in a function that is the trainable.

Real Ray has the first form with its first version of Train only, and the second with its second. So the
tests take two runs there: one as it is, and one with ``RAY_TRAIN_V2_ENABLED=0``.
"""

import importlib
import os
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.timeout(180)

IS_FIRST_VERSION = os.environ.get("RAY_TRAIN_V2_ENABLED") == "0"


@pytest.fixture
def train(cluster: ModuleType) -> ModuleType:
    return importlib.import_module(f"{cluster.__name__}.train")


@pytest.fixture
def tune(cluster: ModuleType) -> ModuleType:
    return importlib.import_module(f"{cluster.__name__}.tune")


@pytest.fixture
def trainer(cluster: ModuleType, train: ModuleType):
    """Make a trainer that can be a trainable."""
    if cluster.__name__ == "ray" and not IS_FIRST_VERSION:
        pytest.skip("Ray takes trainers of its first version of Train: RAY_TRAIN_V2_ENABLED=0")
    where = importlib.import_module(f"{cluster.__name__}.train.data_parallel_trainer")

    def make(loop, num_workers=2, **options):
        options.setdefault("scaling_config", train.ScalingConfig(num_workers=num_workers))
        return where.DataParallelTrainer(loop, **options)

    return make


@pytest.fixture
def inner_trainer(cluster: ModuleType, train: ModuleType):
    """Return the class of a trainer that a function runs."""
    where = "train.data_parallel_trainer"
    if cluster.__name__ == "ray":
        if IS_FIRST_VERSION:
            pytest.skip("Ray's first version of Train has no callback for reports")
        where = "train.v2.api.data_parallel_trainer"
    return importlib.import_module(f"{cluster.__name__}.{where}").DataParallelTrainer


@pytest.fixture
def run_config(tune: ModuleType, tmp_path: Path):
    """Make the configuration of an experiment in the test's folder."""

    def make(max_failures=0, **options):
        return tune.RunConfig(
            name="experiment",
            storage_path=str(tmp_path),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=max_failures),
            **options,
        )

    return make


def steps(train):
    """Return a training function that saves each step, and goes on from it."""
    report, get_checkpoint, get_context = train.report, train.get_checkpoint, train.get_context
    checkpoint_class = train.Checkpoint

    def loop(config):
        rank, start = get_context().get_world_rank(), 0
        if get_checkpoint() is not None:
            with get_checkpoint().as_directory() as found:
                start = int((Path(found) / "step").read_text()) + 1
        for step in range(start, config.get("steps", 3)):
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    (Path(folder) / "step").write_text(str(step))
                (Path(folder) / f"rank_{rank}").write_text(str(step))
                metrics = {"step": step, "start": start, "score": config["x"] * step}
                metrics["size"] = get_context().get_world_size()
                report(metrics, checkpoint=checkpoint_class.from_directory(folder))
            if step == config.get("fails_at") and start == 0 and rank == 1:
                raise ValueError("it fails on purpose")

    return loop


def scores(train):
    """Return a training function that reports numbers, without checkpoints."""
    report, get_context = train.report, train.get_context

    def loop(config):
        for step in range(config.get("steps", 3)):
            rank, size = get_context().get_world_rank(), get_context().get_world_size()
            report({"score": config["x"] * step, "rank": rank, "size": size, "step": step})

    return loop


# --- a trainer as the trainable -------------------------------------------------------------------


def test_a_grid_over_the_training_function_s_config(trainer, train, tune, run_config):
    grid = tune.Tuner(
        trainer(scores(train), train_loop_config={"x": 0, "steps": 4}),
        param_space={"train_loop_config": {"x": tune.grid_search([1, 2])}},
        tune_config=tune.TuneConfig(metric="score", mode="max"),
        run_config=run_config(),
    ).fit()
    assert len(grid) == grid.num_terminated == 2
    best = grid.get_best_result()
    assert best.config == {"train_loop_config": {"x": 2}}
    assert {name: best.metrics[name] for name in ("score", "rank", "size")} == {
        "score": 6,
        "rank": 0,
        "size": 2,
    }
    assert best.metrics["training_iteration"] == 4
    assert list(best.metrics_dataframe["score"]) == [0, 2, 4, 6]
    assert best.checkpoint is None


def test_draws_are_in_the_config(trainer, train, tune, run_config):
    grid = tune.Tuner(
        trainer(scores(train), train_loop_config={"x": 0}),
        param_space={"train_loop_config": {"x": tune.uniform(1, 2), "nested": {"a": 1}}},
        tune_config=tune.TuneConfig(num_samples=2),
        run_config=run_config(),
    ).fit()
    for result in grid:
        drawn = result.config["train_loop_config"]["x"]
        assert 1 <= drawn <= 2
        assert result.metrics["score"] == drawn * 2


def test_a_number_of_workers_is_searched(trainer, train, tune, run_config):
    grid = tune.Tuner(
        trainer(scores(train), train_loop_config={"x": 1}),
        param_space={"scaling_config": {"num_workers": tune.grid_search([1, 3])}},
        run_config=run_config(),
    ).fit()
    assert sorted(result.metrics["size"] for result in grid) == [1, 3]
    assert grid.num_errors == 0


def test_a_scaling_config_in_the_space(trainer, train, tune, run_config):
    (result,) = tune.Tuner(
        trainer(scores(train), train_loop_config={"x": 1}),
        param_space={"scaling_config": train.ScalingConfig(num_workers=1)},
        run_config=run_config(),
    ).fit()
    assert result.metrics["size"] == 1
    assert result.config["scaling_config"]["num_workers"] == 1


def test_checkpoints_of_workers_are_the_trial_s(trainer, train, tune, run_config):
    (result,) = tune.Tuner(
        trainer(steps(train), train_loop_config={"x": 1}),
        run_config=run_config(checkpoint_config=tune.CheckpointConfig(num_to_keep=2)),
    ).fit()
    assert result.error is None
    assert os.path.dirname(result.checkpoint.path) == result.path
    names = sorted(each for each in os.listdir(result.path) if each.startswith("checkpoint_0"))
    assert names == ["checkpoint_000001", "checkpoint_000002"]
    assert result.metrics["checkpoint_dir_name"] == "checkpoint_000002"
    with result.checkpoint.as_directory() as found:
        assert {"rank_0", "rank_1", "step"} <= set(os.listdir(found))
        assert (Path(found) / "step").read_text() == "2"


def test_the_best_checkpoints_are_kept(trainer, train, tune, run_config):
    best = tune.CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="score", checkpoint_score_order="max"
    )
    (result,) = tune.Tuner(
        trainer(steps(train), train_loop_config={"x": -1}),
        run_config=run_config(checkpoint_config=best),
    ).fit()
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [-1, 0]


def test_a_failed_worker_fails_its_trial(trainer, train, tune, run_config):
    grid = tune.Tuner(
        trainer(steps(train), train_loop_config={"x": 1}),
        param_space={"train_loop_config": {"fails_at": tune.grid_search([1, None])}},
        run_config=run_config(),
    ).fit()
    assert (grid.num_errors, grid.num_terminated) == (1, 1)
    (failed,) = [result for result in grid if result.error is not None]
    assert isinstance(failed.error, ValueError)
    assert "on purpose" in str(failed.error)
    assert failed.metrics["step"] == 1
    assert "on purpose" in (Path(failed.path) / "error.txt").read_text()


def test_a_failed_trial_goes_on_from_its_checkpoint(trainer, train, tune, run_config):
    (result,) = tune.Tuner(
        trainer(steps(train), train_loop_config={"x": 1, "fails_at": 1}),
        run_config=run_config(max_failures=1),
    ).fit()
    assert result.error is None
    assert (result.metrics["step"], result.metrics["start"]) == (2, 2)
    assert result.metrics["training_iteration"] == 3
    assert result.metrics["checkpoint_dir_name"] == "checkpoint_000002"


def test_a_stop_ends_the_workers(trainer, train, tune, run_config):
    (result,) = tune.Tuner(
        trainer(scores(train), train_loop_config={"x": 1, "steps": 10**6}),
        run_config=run_config(stop={"step": 5}),
    ).fit()
    assert result.error is None
    assert result.metrics["step"] == 5
    # The resources of the first are free for the next.
    (again,) = tune.Tuner(
        trainer(scores(train), num_workers=3, train_loop_config={"x": 1}),
        run_config=run_config(),
    ).fit()
    assert again.metrics["size"] == 3


def test_a_scheduler_stops_trials(trainer, train, tune, run_config):
    schedulers = importlib.import_module(f"{tune.__name__}.schedulers")
    grid = tune.Tuner(
        trainer(scores(train), num_workers=1, train_loop_config={"steps": 9}),
        param_space={"train_loop_config": {"x": tune.grid_search([4, 3, 2, 1])}},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            max_concurrent_trials=1,
            scheduler=schedulers.ASHAScheduler(max_t=9, grace_period=3, reduction_factor=3),
        ),
        run_config=run_config(),
    ).fit()
    assert [result.metrics["training_iteration"] for result in grid] == [9, 3, 3, 3]


def test_a_run_config_of_the_trainer_is_the_experiment_s(trainer, train, tune, tmp_path):
    own = train.RunConfig(
        name="mine",
        storage_path=str(tmp_path),
        failure_config=train.FailureConfig(max_failures=1),
        checkpoint_config=train.CheckpointConfig(num_to_keep=1),
    )
    (result,) = (
        grid := tune.Tuner(
            trainer(steps(train), train_loop_config={"x": 1, "fails_at": 1}, run_config=own)
        ).fit()
    )
    assert grid.experiment_path == str(tmp_path / "mine")
    assert result.error is None
    assert [each for each in os.listdir(result.path) if each.startswith("checkpoint_0")] == [
        "checkpoint_000002"
    ]


def test_a_run_config_of_the_tuner_is_preferred(trainer, train, tune, run_config, tmp_path):
    own = train.RunConfig(name="other", storage_path=str(tmp_path / "other"))
    grid = tune.Tuner(
        trainer(scores(train), train_loop_config={"x": 1}, run_config=own),
        run_config=run_config(),
    ).fit()
    assert grid.experiment_path == str(tmp_path / "experiment")
    assert not (tmp_path / "other" / "other").exists()


def test_a_run_config_is_not_searched(trainer, train, tune):
    with pytest.raises(ValueError, match=r"run_?config|RunConfig"):
        tune.Tuner(
            trainer(scores(train), train_loop_config={"x": 1}),
            param_space={"run_config": tune.RunConfig()},
        )


def test_trials_are_named_after_the_trainer(trainer, train, tune, tmp_path):
    config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    grid = tune.Tuner(trainer(scores(train), train_loop_config={"x": 1}), run_config=config).fit()
    assert os.path.basename(grid.experiment_path).startswith("DataParallelTrainer_")
    assert os.path.basename(grid[0].path).startswith("DataParallelTrainer_")


def test_all_trials_begin_with_a_checkpoint(trainer, train, tune, run_config, tmp_path):
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "step").write_text("0")
    grid = tune.Tuner(
        trainer(
            steps(train),
            train_loop_config={"x": 1},
            resume_from_checkpoint=train.Checkpoint.from_directory(str(folder)),
        ),
        param_space={"train_loop_config": {"x": tune.grid_search([1, 2])}},
        run_config=run_config(),
    ).fit()
    assert [result.metrics["start"] for result in grid] == [1, 1]


def test_failed_trials_are_restored_from_their_checkpoints(trainer, train, tune, run_config):
    made = trainer(steps(train), train_loop_config={"x": 1, "fails_at": 1})
    grid = tune.Tuner(made, run_config=run_config()).fit()
    assert grid.num_errors == 1
    tuner = tune.Tuner.restore(grid.experiment_path, trainable=made, resume_errored=True)
    (result,) = tuner.fit()
    assert result.error is None
    assert (result.metrics["step"], result.metrics["start"]) == (2, 2)


# --- a trainer in a function ----------------------------------------------------------------------


@pytest.fixture
def driver(cluster, train, tune, inner_trainer, tmp_path):
    """Make a function of a trial that runs a trainer."""
    integration = importlib.import_module(f"{cluster.__name__}.tune.integration.ray_train")
    callback, get_context = integration.TuneReportCallback, tune.get_context
    scaling, run, failure = train.ScalingConfig, train.RunConfig, train.FailureConfig

    def make(loop, num_workers=2, max_failures=0):
        def train_driver(config):
            inner_trainer(
                loop,
                train_loop_config=config,
                scaling_config=scaling(num_workers=num_workers),
                run_config=run(
                    name=f"run-{get_context().get_trial_id()}",
                    storage_path=str(tmp_path / "runs"),
                    failure_config=failure(max_failures=max_failures),
                    callbacks=[callback()],
                ),
            ).fit()

        return tune.with_resources(train_driver, {"CPU": 0.5})

    return make


def test_reports_of_a_run_are_the_trial_s(driver, train, tune, run_config):
    grid = tune.Tuner(
        driver(scores(train), num_workers=1),
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(metric="score", mode="max"),
        run_config=run_config(),
    ).fit()
    assert grid.num_terminated == 2
    best = grid.get_best_result()
    assert best.config == {"x": 2}
    assert (best.metrics["score"], best.metrics["rank"], best.metrics["size"]) == (4, 0, 1)
    assert list(best.metrics_dataframe["score"]) == [0, 2, 4]
    assert "checkpoint_path" not in best.metrics


def test_checkpoints_of_a_run_are_paths_in_metrics(driver, train, tune, run_config, tmp_path):
    (result,) = tune.Tuner(
        driver(steps(train)), param_space={"x": 1}, run_config=run_config()
    ).fit()
    assert result.checkpoint is None
    path = Path(result.metrics["checkpoint_path"])
    assert path.parent.parent == tmp_path / "runs"
    assert (path / "step").read_text() == "2"
    assert {"rank_0", "rank_1"} <= set(os.listdir(path))


def test_a_failed_run_fails_its_trial(driver, train, tune, run_config):
    (result,) = tune.Tuner(
        driver(steps(train)), param_space={"x": 1, "fails_at": 1}, run_config=run_config()
    ).fit()
    assert isinstance(result.error, train.TrainingFailedError)
    assert "on purpose" in str(result.error)
    assert result.metrics["step"] in (0, 1)


def test_a_run_recovers_inside_of_its_trial(driver, train, tune, run_config):
    (result,) = tune.Tuner(
        driver(steps(train), max_failures=1),
        param_space={"x": 1, "fails_at": 1},
        run_config=run_config(),
    ).fit()
    assert result.error is None
    assert (result.metrics["step"], result.metrics["start"]) == (2, 2)


def test_a_retried_trial_continues_its_run(driver, train, tune, run_config):
    (result,) = tune.Tuner(
        driver(steps(train)),
        param_space={"x": 1, "fails_at": 1},
        run_config=run_config(max_failures=1),
    ).fit()
    assert result.error is None
    assert (result.metrics["step"], result.metrics["start"]) == (2, 2)


def test_a_stop_ends_a_run(driver, train, tune, run_config, cluster):
    (result,) = tune.Tuner(
        driver(scores(train)),
        param_space={"x": 1, "steps": 10**5},
        run_config=run_config(stop={"step": 5}),
    ).fit()
    assert result.error is None
    assert result.metrics["step"] == 5


def test_results_of_a_run_without_the_callback(cluster, train, tune, inner_trainer, tmp_path):
    loop, report = scores(train), tune.report
    scaling, run = train.ScalingConfig, train.RunConfig
    report_in_worker, checkpoint_class = train.report, train.Checkpoint

    def saved(config):
        loop(config)
        with tempfile.TemporaryDirectory() as folder:
            report_in_worker({"last": 7}, checkpoint=checkpoint_class.from_directory(folder))

    def train_driver(config):
        found = inner_trainer(
            saved,
            train_loop_config=config,
            scaling_config=scaling(num_workers=1),
            run_config=run(name="inner", storage_path=str(tmp_path)),
        ).fit()
        report({"from_result": found.metrics["last"]})

    (result,) = tune.Tuner(
        tune.with_resources(train_driver, {"CPU": 0.5}),
        param_space={"x": 1},
        run_config=tune.RunConfig(name="outer", storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert result.metrics["from_result"] == 7
    assert "score" not in result.metrics


def test_the_callback_belongs_to_a_trial(cluster, inner_trainer):
    module = importlib.import_module(f"{cluster.__name__}.tune.integration.ray_train")
    with pytest.raises(RuntimeError):
        module.TuneReportCallback()
