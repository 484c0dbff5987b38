"""What an experiment leaves: results, tables, checkpoints, and files where tools find them."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

#: The scores of the trial with x: x, 2x, 3x. The trial with x = 4 fails after its first report.
STEPS = 3


@pytest.fixture
def tune(cluster):
    return importlib.import_module(f"{cluster.__name__}.tune")


def run(tune, folder):
    report, checkpoint_class = tune.report, tune.Checkpoint

    def train(config):
        for step in range(1, STEPS + 1):
            with tempfile.TemporaryDirectory() as made:
                Path(made, "step").write_text(str(step))
                report(
                    {"score": config["x"] * step, "loss": -step, "deep": {"er": step}},
                    checkpoint=checkpoint_class.from_directory(made),
                )
            if config["x"] == 4:
                raise ArithmeticError("no four")

    keep = tune.CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="score", checkpoint_score_order="max"
    )
    return tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 3, 2, 4]), "fixed": {"a": "b"}},
        tune_config=tune.TuneConfig(metric="score", mode="max"),
        run_config=tune.RunConfig(
            name="known", storage_path=str(folder), checkpoint_config=keep, verbose=0
        ),
    ).fit()


_made = {}


@pytest.fixture
def grid(tune, tmp_path_factory):
    """Return the results of one experiment, which all tests read."""
    if not _made:
        _made["grid"] = run(tune, tmp_path_factory.mktemp("results"))
    return _made["grid"]


@pytest.fixture
def by_x(grid):
    return {result.config["x"]: result for result in grid}


@pytest.fixture
def analysis(tune, grid):
    return tune.ExperimentAnalysis(grid.experiment_path, default_metric="score", default_mode="max")


def folder_of(result):
    return Path(result.path)


def test_all_trials_are_there(grid):
    assert len(grid) == 4
    assert (grid.num_terminated, grid.num_errors) == (3, 1)
    assert sorted(result.config["x"] for result in grid) == [1, 2, 3, 4]
    assert grid[0].config["fixed"] == {"a": "b"}


def test_the_error_of_a_trial(grid, by_x):
    assert len(grid.errors) == 1
    assert "no four" in str(by_x[4].error)
    assert by_x[1].error is None
    assert by_x[4].metrics["score"] == 4


def test_the_best_result(grid):
    best = grid.get_best_result()
    assert best.config["x"] == 3
    assert best.metrics["score"] == 9


@pytest.mark.parametrize(
    ("metric", "mode", "scope", "x"),
    [
        ("score", "min", "last", 1),
        ("score", "max", "all", 3),
        ("score", "min", "all", 1),
        ("score", "max", "avg", 3),
        ("score", "max", "last-5-avg", 3),
        ("deep/er", "min", "last", 4),
    ],
)
def test_the_best_by_another_measure(grid, metric, mode, scope, x):
    best = grid.get_best_result(metric, mode, scope, filter_nan_and_inf=True)
    assert best.config["x"] == x


def test_an_unknown_metric_has_no_best(grid):
    with pytest.raises(RuntimeError, match="."):
        grid.get_best_result("typo", "max")


def test_the_last_metrics(by_x):
    metrics = by_x[2].metrics
    assert metrics["training_iteration"] == STEPS
    assert metrics["deep"] == {"er": STEPS}
    assert metrics["config"] == {"x": 2, "fixed": {"a": "b"}}
    assert metrics["done"] is True
    assert metrics["time_total_s"] >= metrics["time_this_iter_s"] >= 0
    assert {"pid", "hostname", "node_ip", "date", "timestamp", "trial_id"} <= set(metrics)


def test_a_table_of_a_trial(by_x):
    frame = by_x[2].metrics_dataframe
    assert list(frame["score"]) == [2, 4, 6]
    assert list(frame["training_iteration"]) == [1, 2, 3]
    assert list(frame["deep/er"]) == [1, 2, 3]


def test_a_table_of_all_trials(grid):
    frame = grid.get_dataframe()
    assert sorted(frame["score"]) == [3, 4, 6, 9]
    assert sorted(frame["config/x"]) == [1, 2, 3, 4]
    assert set(frame["config/fixed/a"]) == {"b"}


@pytest.mark.parametrize(("mode", "expected"), [("max", [3, 4, 6, 9]), ("min", [1, 2, 3, 4])])
def test_a_table_of_the_best_rows(grid, mode, expected):
    frame = grid.get_dataframe(filter_metric="score", filter_mode=mode)
    assert sorted(frame["score"]) == expected


def test_the_last_checkpoint(by_x):
    with by_x[2].checkpoint.as_directory() as folder:
        assert Path(folder, "step").read_text() == "3"


def test_the_best_checkpoints_are_kept(by_x):
    kept = by_x[2].best_checkpoints
    assert sorted(metrics["score"] for _, metrics in kept) == [4, 6]
    names = sorted(path.name for path in folder_of(by_x[2]).glob("checkpoint_*"))
    assert names == ["checkpoint_000001", "checkpoint_000002"]


@pytest.mark.parametrize(("mode", "step"), [("max", "3"), ("min", "2")])
def test_the_best_checkpoint_of_a_result(by_x, mode, step):
    with by_x[2].get_best_checkpoint("score", mode).as_directory() as folder:
        assert Path(folder, "step").read_text() == step


def test_lines_of_json(by_x):
    text = (folder_of(by_x[3]) / "result.json").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["score"] for line in lines] == [3, 6, 9]
    assert lines[0]["config"] == {"x": 3, "fixed": {"a": "b"}}
    assert [line["training_iteration"] for line in lines] == [1, 2, 3]


def test_lines_of_csv(by_x):
    import pandas as pd

    frame = pd.read_csv(folder_of(by_x[3]) / "progress.csv")
    assert list(frame["score"]) == [3, 6, 9]
    assert not [column for column in frame if "config" in column]


def test_parameters(by_x):
    folder, expected = folder_of(by_x[3]), {"x": 3, "fixed": {"a": "b"}}
    assert json.loads((folder / "params.json").read_text()) == expected
    with (folder / "params.pkl").open("rb") as file:
        assert pickle.load(file) == expected


def test_events_for_tensorboard(by_x):
    events = read_events(folder_of(by_x[3]))
    scores = [(each.step, each.value) for each in events.Scalars("ray/tune/score")]
    assert scores == [(1, 3), (2, 6), (3, 9)]
    assert [each.value for each in events.Scalars("ray/tune/deep/er")] == [1, 2, 3]


def test_hyperparameters_for_tensorboard(by_x):
    events = read_events(folder_of(by_x[3]))
    experiment, start = parameters_of(events)
    assert {name: value.number_value for name, value in start.hparams.items()} == {"x": 3}
    metrics = {each.name.tag for each in experiment.metric_infos}
    # TensorBoard takes a metric's value from the numbers of the same name.
    assert {"ray/tune/score", "ray/tune/deep/er"} <= metrics <= set(events.Tags()["scalars"])


def read_events(folder):
    """Return the event file of a trial as the real TensorBoard reads it."""
    name = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(name, reason="tensorboard is not installed")
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    return events


def parameters_of(events):
    """Return what TensorBoard's table of hyperparameters reads of a trial."""
    from tensorboard.plugins.hparams import plugin_data_pb2

    parts = [
        plugin_data_pb2.HParamsPluginData.FromString(
            events.SummaryMetadata(f"_hparams_/{name}").plugin_data.content
        )
        for name in ("experiment", "session_start_info")
    ]
    return parts[0].experiment, parts[1].session_start_info


def test_the_error_s_files(by_x):
    folder = folder_of(by_x[4])
    assert "no four" in (folder / "error.txt").read_text()
    assert (folder / "error.pkl").exists()
    assert not (folder_of(by_x[3]) / "error.txt").exists()


def test_the_folder_of_the_experiment(grid):
    assert os.path.basename(grid.experiment_path) == "known"
    folders = [path for path in Path(grid.experiment_path).iterdir() if path.is_dir()]
    assert len([path for path in folders if (path / "result.json").exists()]) == 4


def test_a_result_is_read_from_its_folder(by_x, tune):
    result = tune.Result.from_path(by_x[2].path)
    assert result.metrics["score"] == 6
    assert list(result.metrics_dataframe["score"]) == [2, 4, 6]


def test_an_analysis_finds_the_best(analysis):
    assert analysis.best_config["x"] == 3
    assert analysis.best_result["score"] == 9
    assert analysis.best_trial.last_result["score"] == 9
    assert analysis.get_best_config("score", "min")["x"] == 1


def test_an_analysis_finds_checkpoints(analysis):
    with analysis.best_checkpoint.as_directory() as folder:
        assert Path(folder, "step").read_text() == "3"
    trial = analysis.get_best_trial("score", "min")
    with analysis.get_last_checkpoint(trial).as_directory() as folder:
        assert Path(folder, "step").read_text() == "3"


def test_an_analysis_has_tables(analysis):
    frames = analysis.trial_dataframes
    assert sorted(len(frame) for frame in frames.values()) == [1, 3, 3, 3]
    assert sorted(analysis.dataframe()["score"]) == [3, 4, 6, 9]
    assert sorted(analysis.dataframe(metric="score")["score"]) == [3, 4, 6, 9]
    assert sorted(analysis.results_df["score"]) == [3, 4, 6, 9]
    assert sorted(config["x"] for config in analysis.get_all_configs().values()) == [1, 2, 3, 4]


def test_an_analysis_needs_a_metric(tune, grid):
    analysis = tune.ExperimentAnalysis(grid.experiment_path)
    with pytest.raises(ValueError, match="."):
        analysis.get_best_trial()


def test_an_analysis_needs_an_experiment(tune, tmp_path):
    with pytest.raises((ValueError, tune.TuneError)):
        tune.ExperimentAnalysis(str(tmp_path))


def test_a_folder_without_an_experiment(tune, tmp_path):
    with pytest.raises(ValueError, match=str(tmp_path)):
        tune.ExperimentAnalysis(str(tmp_path))


def test_a_training_function_that_its_user_calls(tune):
    def train(config):
        context = tune.get_context()
        tune.report({"score": config["x"]})
        return context.get_trial_id(), context.get_trial_dir(), tune.get_checkpoint()

    assert train({"x": 1}) == (None, None, None)
