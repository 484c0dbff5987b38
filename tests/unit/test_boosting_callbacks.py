"""Callbacks of libraries that boost trees, as Ray had them: what they report, without the libraries."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest

from raycompat._old.tune.integration import reporting


class Model:
    def __init__(self, rounds=1):
        self.rounds = rounds

    def num_boosted_rounds(self):
        return self.rounds

    def save_model(self, path):
        Path(path).write_text("trees")


@pytest.fixture
def reports(monkeypatch):
    """The reports to Tune: metrics, and the files of the checkpoint."""
    made = []

    def report(metrics, checkpoint=None):
        files = (
            [] if checkpoint is None else [path.name for path in Path(checkpoint.path).iterdir()]
        )
        made.append((metrics, files))

    monkeypatch.setattr(reporting, "session", SimpleNamespace(report=report))
    return made


@pytest.fixture
def xgboost(monkeypatch):
    package, module = types.ModuleType("xgboost"), types.ModuleType("xgboost.callback")
    package.callback, module.TrainingCallback = module, type("TrainingCallback", (), {})
    monkeypatch.setitem(sys.modules, "xgboost", package)
    monkeypatch.setitem(sys.modules, "xgboost.callback", module)
    names = "raycompat._old.tune.integration.xgboost", "raycompat.train.xgboost._callback"
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(names[0])
    for name in names:
        del sys.modules[name]


def lightgbm_round(number, results, end=3):
    return SimpleNamespace(
        model=Model(), iteration=number, end_iteration=end, evaluation_result_list=results
    )


def test_lightgbm_reports_each_round(reports):
    from raycompat._old.tune.integration.lightgbm import (
        TuneReportCallback,
        TuneReportCheckpointCallback,
    )

    callback = TuneReportCheckpointCallback(
        {"loss": "eval-l2"}, frequency=2, checkpoint_at_end=True
    )
    for number in range(3):
        callback(lightgbm_round(number, [("eval", "l2", number / 2, False)]))
    assert reports == [
        ({"loss": 0.0}, []),
        ({"loss": 0.5}, ["model.txt"]),
        ({"loss": 1.0}, ["model.txt"]),
    ]
    reports.clear()
    plain = TuneReportCallback(results_postprocessing_fn=lambda found: {**found, "more": 1})
    plain(lightgbm_round(0, [("cv", "l2", 3.0, False, 0.25)]))
    assert reports == [({"cv-l2-mean": 3.0, "cv-l2-stdv": 0.25, "more": 1}, [])]
    with pytest.raises(KeyError, match="eval-auc"):
        TuneReportCallback("eval-auc")(lightgbm_round(0, [("eval", "l2", 1.0, False)]))


def test_xgboost_reports_each_round(reports, xgboost):
    callback = xgboost.TuneReportCheckpointCallback(
        ["eval-logloss"], "trees.json", frequency=2, checkpoint_at_end=True
    )
    for number in range(2):
        log = {"eval": {"logloss": [9.0, number], "error": [1.0]}}
        assert not callback.after_iteration(model := Model(number + 1), number, log)
    assert callback.after_training(model) is model
    assert reports == [({"eval-logloss": 0}, []), ({"eval-logloss": 1}, ["trees.json"])]
    reports.clear()
    plain = cloudpickle.loads(cloudpickle.dumps(xgboost.TuneReportCallback("eval-error")))
    assert isinstance(plain, sys.modules["xgboost.callback"].TrainingCallback)
    plain.after_iteration(Model(), 0, {"eval": {"error": [1.0]}})
    plain.after_training(Model())
    assert reports == [({"eval-error": 1.0}, [])]


@pytest.mark.parametrize(("frequency", "rounds"), [(0, 2), (3, 2), (2, 1)])
def test_xgboost_reports_a_model_that_has_no_checkpoint_once_more(
    reports, xgboost, frequency, rounds
):
    callback = xgboost.TuneReportCheckpointCallback(frequency=frequency, checkpoint_at_end=True)
    for number in range(2):
        callback.after_iteration(Model(number + 1), number, {"eval": {"loss": [number]}})
    callback.after_training(Model(rounds))
    assert reports[2:] == [({"eval-loss": 1}, ["model.ubj"])]


def test_metrics_are_chosen_before_the_function_changes_them(reports):
    from raycompat._old.tune.integration.lightgbm import TuneReportCallback

    a_round = lightgbm_round(0, [("eval", "l2", 3.0, False)])
    TuneReportCallback(
        {"loss": "eval-l2"}, results_postprocessing_fn=lambda found: {"root": found["loss"] ** 0.5}
    )(a_round)
    TuneReportCallback([])(a_round)
    assert reports == [({"root": 3.0**0.5}, []), ({"eval-l2": 3.0}, [])]


class Loaded:
    """A model of a library, which knows its file."""

    def __init__(self, model_file):
        self.text = Path(model_file).read_text()


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_model_is_read_from_a_checkpoint(monkeypatch, tmp_path, xgboost, library):
    from raycompat.train import Checkpoint

    monkeypatch.setitem(sys.modules, library, SimpleNamespace(Booster=Loaded))
    module = importlib.import_module(f"raycompat._old.tune.integration.{library}")
    callback = module.TuneReportCheckpointCallback
    (tmp_path / "own.txt").write_text("own")
    (tmp_path / callback.CHECKPOINT_NAME).write_text("trees")
    checkpoint = Checkpoint.from_directory(tmp_path)
    assert callback.get_model(checkpoint).text == "trees"
    assert callback.get_model(checkpoint, filename="own.txt").text == "own"


def test_without_the_library_the_callback_says_how_to_install_it(monkeypatch):
    from raycompat.train.xgboost import RayTrainReportCallback

    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match="pip install xgboost"):
        RayTrainReportCallback()


@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_the_configuration_of_checkpoints_reaches_the_callback(monkeypatch, library):
    from raycompat import train, tune

    name = {"xgboost": "XGBoostTrainer", "lightgbm": "LightGBMTrainer"}[library]
    monkeypatch.setitem(sys.modules, library, types.ModuleType(library))
    cls = getattr(importlib.import_module(f"raycompat.train.{library}"), name)
    own = train.CheckpointConfig(checkpoint_frequency=4)
    trainer = cls(
        params={},
        label_column="y",
        datasets={"train": [{"x": 1, "y": 2}]},
        run_config=train.RunConfig(checkpoint_config=own),
    )
    function = trainer.train_loop_per_worker
    assert function.plan.reports == {"frequency": 4, "checkpoint_at_end": True}
    assert function.with_checkpoints(tune.CheckpointConfig()).plan == function.plan
    given = tune.CheckpointConfig(checkpoint_frequency=5, checkpoint_at_end=False)
    changed = function.with_checkpoints(given).plan.reports
    assert changed == {"frequency": 5, "checkpoint_at_end": False}
