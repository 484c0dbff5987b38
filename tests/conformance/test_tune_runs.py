"""Experiments from their start to their end: trainables, stopping, failures, callbacks, restoring."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def tune(cluster):
    return importlib.import_module(f"{cluster.__name__}.tune")


@pytest.fixture
def schedulers(tune):
    return importlib.import_module(f"{tune.__name__}.schedulers")


@pytest.fixture
def run_config(tune, tmp_path):
    def make(**options):
        return tune.RunConfig(storage_path=str(tmp_path), name="mine", **{"verbose": 0, **options})

    return make


@pytest.fixture
def fit(tune, run_config):
    """Run a trainable, and return its results."""

    def run(trainable, space=None, run=None, **chosen):
        return tune.Tuner(
            trainable,
            param_space=space or {},
            tune_config=tune.TuneConfig(**{"metric": "score", "mode": "max", **chosen}),
            run_config=run_config(**run or {}),
        ).fit()

    return run


@pytest.fixture
def counting(tune):
    """Return a class that counts, and saves its count."""

    class Counting(tune.Trainable):
        def setup(self, config):
            self.count, self.made = 0, os.getpid()

        def step(self):
            self.count += 1
            return {"score": self.count * self.config.get("x", 1), "made": self.made}

        def save_checkpoint(self, checkpoint_dir):
            Path(checkpoint_dir, "count").write_text(str(self.count))

        def load_checkpoint(self, checkpoint):
            self.count = int(Path(checkpoint, "count").read_text())

        def reset_config(self, new_config):
            self.config, self.count = new_config, 0
            return True

    return Counting


# --- forms of trainables --------------------------------------------------------------------------


def test_a_function_returns_its_result(fit):
    (result,) = fit(lambda config: {"score": config["x"]}, {"x": 3})
    assert result.metrics["score"] == 3
    assert result.metrics["training_iteration"] == 1


def test_a_function_yields_results(fit):
    def train(config):
        for step in range(3):
            yield {"score": step}

    (result,) = fit(train)
    assert result.metrics["score"] == 2
    assert result.metrics["training_iteration"] == 3


def test_a_context(tune, fit):
    report, get_context = tune.report, tune.get_context

    def train(config):
        context = get_context()
        report(
            {
                "score": 1,
                "experiment": context.get_experiment_name(),
                "name": context.get_trial_name(),
                "id": context.get_trial_id(),
                "folder": context.get_trial_dir(),
            }
        )

    (result,) = fit(train)
    assert result.metrics["experiment"] == "mine"
    assert result.metrics["id"] == result.metrics["trial_id"]
    assert result.metrics["name"].startswith("train")
    assert os.path.basename(result.metrics["folder"]) == os.path.basename(result.path)


def test_the_working_directory_is_the_trial_s(tune, fit):
    report = tune.report

    def train(config):
        Path("written").write_text("here")
        report({"score": 1, "folder": os.getcwd()})

    (result,) = fit(train)
    assert os.path.basename(result.metrics["folder"]) == os.path.basename(result.path)


def test_module_globals_belong_to_one_trial(tune, fit):
    report = tune.report

    def train(config):
        import string

        seen = getattr(string, "seen_by_trials", 0)
        string.seen_by_trials = seen + 1
        report({"score": seen})

    assert [result.metrics["score"] for result in fit(train, num_samples=6)] == [0] * 6


def test_parameters_of_any_size(tune, fit):
    def train(config, data=None):
        tune_report({"score": len(data) + config["x"]})

    tune_report = tune.report
    (result,) = fit(tune.with_parameters(train, data=list(range(1000))), {"x": 1})
    assert result.metrics["score"] == 1001


@pytest.mark.parametrize("resources", [{"cpu": 2}, {"CPU": 1, "GPU": 0.5}, {"CPU": 1, "custom": 1}])
def test_resources(tune, fit, resources):
    report, get_context = tune.report, tune.get_context

    def train(config):
        report({"score": 1, "has": get_context().get_trial_resources().required_resources})

    (result,) = fit(tune.with_resources(train, resources))
    names = {"cpu": "CPU"}
    expected = {names.get(name, name): amount for name, amount in resources.items()}
    assert result.metrics["has"] == expected


def test_resources_by_config(tune, fit):
    report, get_context = tune.report, tune.get_context

    def train(config):
        report({"score": get_context().get_trial_resources().required_resources["CPU"]})

    trainable = tune.with_resources(train, lambda config: {"cpu": config["cpus"]})
    grid = fit(trainable, {"cpus": tune.grid_search([1, 2])})
    assert [result.metrics["score"] for result in grid] == [1, 2]


def test_the_size_of_trials_limits_how_many_run(tune, fit):
    import time

    report = tune.report

    def train(config):
        start = time.time()
        time.sleep(0.3)
        report({"score": 1, "start": start, "end": time.time()})

    grid = fit(tune.with_resources(train, {"cpu": 4}), num_samples=2)
    first, second = sorted((result.metrics for result in grid), key=lambda each: each["start"])
    assert first["end"] <= second["start"]


def test_one_trial_at_a_time(tune, fit):
    import time

    report = tune.report

    def train(config):
        start = time.time()
        time.sleep(0.2)
        report({"score": 1, "start": start, "end": time.time()})

    grid = fit(train, num_samples=2, max_concurrent_trials=1)
    first, second = sorted((result.metrics for result in grid), key=lambda each: each["start"])
    assert first["end"] <= second["start"]


def test_a_class(fit, counting):
    (result,) = fit(counting, {"x": 2}, run={"stop": {"training_iteration": 3}})
    assert result.metrics["score"] == 6
    assert result.metrics["iterations_since_restore"] == 3


def test_a_class_ends_itself(tune, fit):
    class Ending(tune.Trainable):
        def step(self):
            return {"score": self.iteration, "done": self.iteration == 2}

    (result,) = fit(Ending)
    assert result.metrics["score"] == 2


def test_a_name(tune, fit):
    tune.register_trainable("my_function", lambda config: {"score": 5})
    assert fit("my_function")[0].metrics["score"] == 5


# --- processes ------------------------------------------------------------------------------------


def test_a_process_for_each_trial(fit, counting):
    stop = {"training_iteration": 1}
    grid = fit(counting, num_samples=4, run={"stop": stop})
    assert len({result.metrics["made"] for result in grid}) == 4


def test_classes_that_reset_share_processes(fit, counting):
    stop = {"training_iteration": 1}
    chosen = {"reuse_actors": True, "max_concurrent_trials": 1, "num_samples": 3}
    grid = fit(counting, run={"stop": stop}, **chosen)
    assert len({result.metrics["made"] for result in grid}) == 1
    assert [result.metrics["score"] for result in grid] == [1, 1, 1]


def test_functions_share_processes_where_asked(tune, fit):
    report = tune.report

    def train(config):
        report({"score": config["x"], "made": os.getpid()})

    chosen = {"reuse_actors": True, "max_concurrent_trials": 1}
    grid = fit(train, {"x": tune.grid_search([1, 2, 3])}, **chosen)
    assert len({result.metrics["made"] for result in grid}) == 1
    assert [result.metrics["score"] for result in grid] == [1, 2, 3]


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "iterations"),
    [
        ({"training_iteration": 2}, 2),
        ({"score": 4}, 4),
        ({"score": 9, "training_iteration": 3}, 3),
        (lambda trial_id, result: result["score"] >= 3, 3),
    ],
)
def test_stops(fit, counting, stop, iterations):
    (result,) = fit(counting, run={"stop": stop})
    assert result.metrics["training_iteration"] == iterations


def test_a_stopper_ends_all(tune, fit, counting):
    class Enough(tune.Stopper):
        def __init__(self):
            self.is_enough = False

        def __call__(self, trial_id, result):
            self.is_enough = self.is_enough or result["score"] >= 5
            return self.is_enough

        def stop_all(self):
            return self.is_enough

    grid = fit(counting, num_samples=2, run={"stop": Enough()})
    assert max(result.metrics.get("score", 0) for result in grid) >= 5
    assert grid.num_errors == 0


def test_a_budget_of_time(fit, counting):
    grid = fit(counting, time_budget_s=3)
    assert len(grid) == 1
    assert grid.num_errors == 0


def test_asha_stops_the_worse(tune, fit, schedulers, counting):
    scheduler = schedulers.ASHAScheduler(max_t=8, grace_period=2, reduction_factor=2)
    space = {"x": tune.grid_search([4, 3, 2, 1])}
    grid = fit(counting, space, scheduler=scheduler, max_concurrent_trials=1)
    lengths = [result.metrics["training_iteration"] for result in grid]
    assert lengths == [8, 2, 2, 2]


# --- failures -------------------------------------------------------------------------------------


def test_an_error_is_kept(fit):
    def train(config):
        raise KeyError("its own error")

    grid = fit(train)
    assert grid.num_errors == 1
    assert "its own error" in str(grid.errors[0])


def test_others_go_on(tune, fit):
    def train(config):
        if config["x"] == 2:
            raise ValueError("not two")
        return {"score": config["x"]}

    grid = fit(train, {"x": tune.grid_search([1, 2, 3])})
    assert (grid.num_terminated, grid.num_errors) == (2, 1)
    assert grid.get_best_result().config == {"x": 3}


@pytest.mark.parametrize(("max_failures", "errors"), [(0, 1), (1, 1), (2, 0), (-1, 0)])
def test_failures_are_retried(tune, fit, tmp_path, max_failures, errors):
    report, marks = tune.report, tmp_path / "marks"

    def train(config):
        with marks.open("a") as file:
            file.write("x")
        if len(marks.read_text()) < 3:
            raise ValueError("too early")
        report({"score": 1})

    failure = tune.FailureConfig(max_failures=max_failures)
    grid = fit(train, run={"failure_config": failure})
    assert grid.num_errors == errors


def test_a_retry_goes_on_from_the_checkpoint(tune, fit, counting, tmp_path):
    mark = tmp_path / "mark"

    class Failing(counting):
        def step(self):
            if self.count == 2 and not mark.exists():
                mark.touch()
                raise ValueError("once")
            return super().step()

    run = {
        "failure_config": tune.FailureConfig(max_failures=1),
        "checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=1),
        "stop": {"training_iteration": 4},
    }
    (result,) = fit(Failing, run=run)
    assert result.error is None
    assert result.metrics["score"] == 4
    assert result.metrics["iterations_since_restore"] == 2


def test_the_first_failure_is_raised(tune, fit):
    def train(config):
        raise ValueError("at once")

    with pytest.raises(Exception, match="at once"):
        fit(train, run={"failure_config": tune.FailureConfig(fail_fast="raise")})


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"checkpoint_frequency": 2}, ["checkpoint_000000", "checkpoint_000001"]),
        ({"checkpoint_at_end": True}, ["checkpoint_000000"]),
        ({"checkpoint_frequency": 1, "num_to_keep": 1}, ["checkpoint_000003"]),
    ],
)
def test_checkpoints_of_classes(tune, fit, counting, options, names):
    config = tune.CheckpointConfig(**options)
    run = {"checkpoint_config": config, "stop": {"training_iteration": 4}}
    (result,) = fit(counting, run=run)
    assert sorted(path.name for path in Path(result.path).glob("checkpoint_*")) == names
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "count").read_text() == "4"


# --- callbacks ------------------------------------------------------------------------------------


def test_callbacks_see_each_event(tune, fit, counting):
    seen = []

    class Noting(tune.Callback):
        def setup(self, **info):
            seen.append("setup")

        def on_trial_start(self, iteration, trials, trial, **info):
            seen.append("start")

        def on_trial_result(self, iteration, trials, trial, result, **info):
            seen.append(result["score"])

        def on_trial_save(self, iteration, trials, trial, **info):
            seen.append("save")

        def on_trial_complete(self, iteration, trials, trial, **info):
            seen.append("complete")

        def on_experiment_end(self, trials, **info):
            seen.append("end")

    run = {
        "callbacks": [Noting()],
        "stop": {"training_iteration": 2},
        "checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True),
    }
    fit(counting, run=run)
    assert seen == ["setup", "start", 1, 2, "save", "complete", "end"]


def test_a_logger_of_one_s_own(tune, fit, counting):
    logger = importlib.import_module(f"{tune.__name__}.logger")
    seen = []

    class Noting(logger.LoggerCallback):
        def log_trial_start(self, trial):
            seen.append("start")

        def log_trial_result(self, iteration, trial, result):
            seen.append(result["score"])

        def log_trial_end(self, trial, failed=False):
            seen.append(failed)

    fit(counting, run={"callbacks": [Noting()], "stop": {"training_iteration": 2}})
    assert seen == ["start", 1, 2, False]


def test_a_reporter_prints_a_table(tune, fit, counting, capsys, monkeypatch):
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")  # the reports of Ray that know reporters
    reporter = tune.CLIReporter(metric_columns={"score": "points"}, parameter_columns=["x"])
    run = {"progress_reporter": reporter, "stop": {"training_iteration": 2}, "verbose": 2}
    fit(counting, {"x": tune.grid_search([7, 11])}, run=run)
    shown = capsys.readouterr().out
    for text in ("points", "TERMINATED", "22", "14", "x"):
        assert text in shown


# --- tune.run and the form of 2018 ----------------------------------------------------------------


def test_run(tune, tmp_path):
    analysis = tune.run(
        lambda config: {"score": config["x"] ** 2},
        config={"x": tune.grid_search([1, -4, 3])},
        metric="score",
        mode="max",
        storage_path=str(tmp_path),
        verbose=0,
    )
    assert analysis.best_config == {"x": -4}
    assert len(analysis.trials) == 3


def test_run_raises_for_failed_trials(tune, tmp_path):
    def train(config):
        raise ValueError("no")

    with pytest.raises(tune.TuneError):
        tune.run(train, storage_path=str(tmp_path), verbose=0)
    analysis = tune.run(train, storage_path=str(tmp_path), verbose=0, raise_on_failed_trial=False)
    assert [trial.status for trial in analysis.trials] == ["ERROR"]


def test_experiments(tune, tmp_path, counting):
    trials = tune.run_experiments(
        {
            "first": {
                "run": counting,
                "stop": {"training_iteration": 2},
                "config": {"x": tune.grid_search([1, 2])},
                "storage_path": str(tmp_path),
            }
        },
        verbose=0,
    )
    assert sorted(trial.last_result["score"] for trial in trials) == [2, 4]
    assert {trial.status for trial in trials} == {"TERMINATED"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"metric": "score", "mode": "up"},
        {"metric": "typo", "mode": "max"},
        {"num_samples": 0.5},
    ],
)
def test_wrong_settings(tune, fit, wrong):
    with pytest.raises((ValueError, TypeError, tune.TuneError)):
        fit(lambda config: {"score": 1}, **wrong)


# --- restoring ------------------------------------------------------------------------------------


@pytest.fixture
def failing_once(tune, tmp_path):
    """Return a function that fails for x = 2 until the file `mended` exists."""
    report, mended, started = tune.report, tmp_path / "mended", tmp_path / "started"

    def train(config):
        with started.open("a") as file:
            file.write(f"{config['x']} ")
        if config["x"] == 2 and not mended.exists():
            raise ValueError("not yet")
        report({"score": config["x"]})

    return train


@pytest.mark.parametrize(
    ("options", "errors", "again"),
    [
        ({}, 1, ""),
        ({"resume_errored": True}, 0, "2 "),
        ({"restart_errored": True}, 0, "2 "),
    ],
)
def test_failed_trials_are_restored(tune, fit, failing_once, tmp_path, options, errors, again):
    grid = fit(failing_once, {"x": tune.grid_search([1, 2, 3])})
    assert grid.num_errors == 1
    (tmp_path / "mended").touch()
    (tmp_path / "started").write_text("")
    tuner = tune.Tuner.restore(grid.experiment_path, trainable=failing_once, **options)
    restored = tuner.fit()
    assert (len(restored), restored.num_errors) == (3, errors)
    assert (tmp_path / "started").read_text() == again


def test_results_of_a_restored_experiment(tune, fit):
    def train(config):
        return {"score": config["x"]}

    grid = fit(train, {"x": tune.grid_search([1, 2])})
    restored = tune.Tuner.restore(grid.experiment_path, trainable=train).get_results()
    assert sorted(result.metrics["score"] for result in restored) == [1, 2]


def test_a_folder_that_can_be_restored(tune, fit, tmp_path):
    grid = fit(lambda config: {"score": 1})
    assert tune.Tuner.can_restore(grid.experiment_path)
    assert not tune.Tuner.can_restore(str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        tune.Tuner.restore(str(tmp_path / "none"), trainable=lambda config: {"score": 1})


def test_the_trainable_s_name_is_the_same(tune, fit):
    def first(config):
        return {"score": 1}

    def second(config):
        return {"score": 1}

    grid = fit(first)
    with pytest.raises(ValueError, match="."):
        tune.Tuner.restore(grid.experiment_path, trainable=second).fit()


# Exports.


@pytest.fixture
def exporting(tune):
    """Return a class that exports a file in the trial's folder."""

    class Exporting(tune.Trainable):
        def setup(self, config):
            self.count, self.fails = 0, config["fails"]

        def step(self):
            self.count += 1
            return {"count": self.count}

        def _export_model(self, export_formats, export_dir):
            if self.fails:
                raise ValueError("nothing to export")
            Path(self.config["exported"], "model").write_text(
                f"{export_formats} after {self.count}"
            )
            return dict.fromkeys(export_formats, export_dir)

    return Exporting


def test_each_trial_exports_its_model_at_its_end(tune, exporting, tmp_path):
    trial = importlib.import_module(f"{tune.__name__}.experiment.trial")
    found = tune.run(
        exporting,
        config={"fails": tune.grid_search([False, True]), "exported": str(tmp_path)},
        stop={"count": 3},
        export_formats=[trial.ExportFormat.MODEL, "mine"],
        storage_path=str(tmp_path / "results"),
        raise_on_failed_trial=False,
        verbose=0,
    )
    good, bad = sorted(found.trials, key=lambda trial: trial.config["fails"])
    assert good.status == "TERMINATED"
    assert (tmp_path / "model").read_text() == "['model', 'mine'] after 3"
    assert bad.status == "ERROR"


def test_no_samples_are_no_trials(tune, fit, tmp_path):
    assert len(fit(lambda config: None, num_samples=0)) == 0
    found = tune.run(lambda config: None, num_samples=0, storage_path=str(tmp_path), verbose=0)
    assert found.trials == []


def test_a_trial_continues_with_other_resources(tune, fit, counting, schedulers):
    class Told(counting):
        def step(self):
            cpus = self.trial_resources.required_resources["CPU"]
            return {**super().step(), "cpus": cpus}

    def two_after_two(runner, trial, result, scheduler):
        enough = result["training_iteration"] >= 2
        return tune.PlacementGroupFactory([{"CPU": 2}]) if enough else None

    scheduler = schedulers.ResourceChangingScheduler(
        schedulers.ASHAScheduler(max_t=5), two_after_two
    )
    (result,) = fit(Told, scheduler=scheduler)
    assert (result.metrics["score"], result.metrics["cpus"]) == (5, 2)
    cpus = list(result.metrics_dataframe["cpus"])
    assert cpus[0] == 1 and cpus == sorted(cpus)


def test_all_cpus_for_the_only_trial(cluster, fit, counting, schedulers):
    class Told(counting):
        def step(self):
            cpus = self.trial_resources.required_resources["CPU"]
            return {**super().step(), "cpus": cpus}

    scheduler = schedulers.ResourceChangingScheduler()
    (result,) = fit(Told, run={"stop": {"training_iteration": 3}}, scheduler=scheduler)
    cpus = cluster.cluster_resources()["CPU"]
    assert (result.metrics["score"], result.metrics["cpus"]) == (3, cpus)


def test_retries_and_fail_fast_exclude_each_other(tune, tmp_path):
    with pytest.raises(ValueError):
        tune.run(lambda config: None, fail_fast=True, max_failures=2, storage_path=str(tmp_path))


def test_a_restored_experiment_keeps_its_parameters(tune, fit, run_config, tmp_path):
    def report(config):
        tune.report({"score": 1})

    fit(report, {"a": 1})
    path = str(tmp_path / "mine")
    tune.Tuner.restore(path, trainable=report, param_space={"a": 1})
    with pytest.raises(ValueError):
        tune.Tuner.restore(path, trainable=report, param_space={"b": 1})


def test_a_result_without_the_metric(tune, tmp_path):
    with pytest.raises(tune.TuneError):
        tune.run(
            lambda config: tune.report({"y": 1}),
            metric="x",
            mode="max",
            storage_path=str(tmp_path),
            verbose=0,
        )


def test_a_checkpoint_is_known_before_it_is_saved(tune, counting, tmp_path):
    heard = []

    class Listening(tune.Callback):
        def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
            heard.append("checkpoint")

        def on_trial_save(self, iteration, trials, trial, **info):
            heard.append("save")

        def on_trial_result(self, iteration, trials, trial, result, **info):
            heard.append("result")

    tune.run(
        counting,
        callbacks=[Listening()],
        stop={"training_iteration": 2},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        storage_path=str(tmp_path),
        verbose=0,
    )
    assert heard == ["result", "checkpoint", "save"] * 2


def test_a_trial_without_an_experiment(tune):
    trials = importlib.import_module(f"{tune.__name__}.experiment")
    trial = trials.Trial("name", stub=True, stopping_criterion={"a": 3})
    assert (trial.status, trial.config, len(trial.trial_id)) == ("PENDING", {}, 8)
    assert [trial.should_stop({"a": a}) for a in (1, 3)] == [False, True]
    assert trial.should_stop({"a": 1, "done": True})
    trial.update_resources({"cpu": 2})
    assert trial.placement_group_factory.bundles == [{"CPU": 2}]


def test_a_request_for_nothing(tune):
    with pytest.raises(ValueError):
        tune.PlacementGroupFactory([{}])


def test_callbacks_know_the_time_budget(tune, tmp_path):
    seen = []

    class Budget(tune.Callback):
        def setup(self, stop=None, num_samples=None, total_num_samples=None, **info):
            seen.append((num_samples, total_num_samples, info["time_budget_s"]))

    tune.Tuner(
        lambda config: {"x": 1},
        tune_config=tune.TuneConfig(num_samples=2, time_budget_s=600),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[Budget()]),
    ).fit()
    assert seen == [(2, 2, 600)]


def test_a_trial_says_whether_it_has_reported(tune, tmp_path):
    def quiet(config):
        if config["reports"]:
            tune.report({"x": 1})

    seen = {}

    class Look(tune.Callback):
        def on_trial_start(self, iteration, trials, trial, **info):
            seen["start"] = trial.has_reported_at_least_once

        def on_trial_complete(self, iteration, trials, trial, **info):
            seen["end"] = trial.has_reported_at_least_once

    tune.Tuner(
        quiet,
        param_space={"reports": True},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[Look()]),
    ).fit()
    assert seen == {"start": False, "end": True}


def test_a_trial_has_no_rank(tune, tmp_path):
    def ranks(config):
        context = tune.get_context()
        names = ["world_size", "world_rank", "local_rank", "local_world_size", "node_rank"]
        tune.report({name: getattr(context, f"get_{name}")() for name in names})

    (result,) = tune.Tuner(
        ranks, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    ).fit()
    assert result.error is None
    assert result.metrics["world_rank"] is None
    assert result.metrics["node_rank"] is None
