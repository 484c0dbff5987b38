"""What a run says of a training function, of data and of requests that cannot be right."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

import raycompat as ray
from raycompat import train
from raycompat.train.data_parallel_trainer import DataParallelTrainer

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def fit(cluster, tmp_path):
    """Run a function on two workers, and return the result."""

    def run(function, num_workers=2, **more):
        run_config = train.RunConfig(storage_path=str(tmp_path / "runs"), **more.pop("run", {}))
        return DataParallelTrainer(
            function,
            scaling_config=train.ScalingConfig(num_workers=num_workers),
            run_config=run_config,
            **more,
        ).fit()

    return run


def test_a_function_that_never_reports(fit):
    result = fit(lambda: "done")
    assert (result.metrics, result.checkpoint, result.error) == (None, None, None)
    assert result.return_value == "done"


def test_metrics_that_are_not_numbers(fit, tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()

    def report():
        for loss in (2.0, math.nan, 1.0):
            train.report({"loss": loss, "note": "text"}, train.Checkpoint(str(folder)))

    keep = train.CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min"
    )
    result = fit(report, run={"checkpoint_config": keep})
    assert [metrics["loss"] for _, metrics in result.best_checkpoints] == [2.0, 1.0]
    assert result.metrics["note"] == "text"


def test_a_score_that_is_text(fit, tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()

    def report():
        train.report({"loss": "low"}, train.Checkpoint(str(folder)))
        train.report({"loss": 0.5}, train.Checkpoint(str(folder)))

    keep = train.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="loss")
    with pytest.raises(train.TrainingFailedError, match="'low'"):
        fit(report, run={"checkpoint_config": keep})


def test_a_checkpoint_to_resume_from_that_is_not_there(fit):
    with pytest.raises(train.TrainingFailedError, match="/no/such/folder"):
        fit(lambda: None, resume_from_checkpoint=train.Checkpoint("/no/such/folder"))


def report_text():
    train.report("loss: 0.5")


def report_a_checkpoint_that_is_not_there():
    train.report({}, checkpoint=train.Checkpoint("/no/such/folder"))


def report_unequally():
    for _ in range(2 - train.get_context().get_world_rank()):
        train.report({"loss": 1})


def ask_for_data_that_is_not_there():
    train.get_dataset_shard("tests")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (report_text, "expected a dict of metrics"),
        (report_a_checkpoint_that_is_not_there, "/no/such/folder"),
        (report_unequally, "equally often"),
        (ask_for_data_that_is_not_there, "'tests'"),
    ],
)
def test_what_a_function_does_wrong_is_named(fit, function, text):
    with pytest.raises(train.WorkerGroupError, match=text) as caught:
        fit(function, datasets={"train": [1, 2]})
    assert "pid" in str(caught.value)


def test_a_column_that_is_not_there(cluster):
    dataset = ray.data.from_items([{"label": 1}, {"label": 2}])
    with pytest.raises(ValueError, match="Did you mean 'label'"):
        dataset.select_columns(["labels"]).take_all()


def test_more_workers_than_cpus_are_told_soon(fit):
    begin = time.monotonic()
    with pytest.raises(train.ControllerError, match=r"7 workers.*'CPU': 7.*'CPU': 2.*room for 2"):
        fit(lambda: None, num_workers=7)
    assert time.monotonic() - begin < 10


def test_a_function_that_cannot_be_loaded_is_tried_once(fit, tmp_path):
    def load(path):
        with Path(path).open("a") as file:
            print("loaded", file=file)
        raise ModuleNotFoundError("No module named 'on_the_driver_only'")

    class Unloadable:
        def __reduce__(self):
            return load, (str(tmp_path / "loads"),)

    value = Unloadable()
    with pytest.raises(train.ControllerError, match="on_the_driver_only"):
        fit(lambda: value, num_workers=1)
    assert (tmp_path / "loads").read_text().splitlines() == ["loaded"]


@pytest.mark.parametrize("given", [3, "text", {"train": 3}, {"train": "text"}])
def test_what_is_no_data_set(given):
    with pytest.raises(TypeError, match="datasets"):
        DataParallelTrainer(lambda: None, datasets=given)


def test_a_reference_to_a_data_set(cluster):
    with pytest.raises(TypeError, match=r"ray\.get"):
        DataParallelTrainer(lambda: None, datasets={"train": ray.put([1, 2])})
