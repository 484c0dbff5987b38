"""Old forms of Tune and Train that have code of their own, and what PB2 computes; without a cluster."""

import gc
import json
import os
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from raycompat import tune
from raycompat._old.air.wandb import WandbLogger, WandbLoggerCallback
from raycompat._old.train.predictors import TorchPredictor
from raycompat._old.train.profiler import TorchTensorboardProfilerCallback, TorchWorkerProfiler
from raycompat._old.train.trainer import Trainer
from raycompat._old.tune import utils
from raycompat._old.tune.automl import (
    ContinuousSpace,
    DiscreteSpace,
    GeneticSearch,
    GridSearch,
    RandomSearch,
    SearchSpace,
)
from raycompat._old.tune.callbacks_of_tests import FailureInjectorCallback
from raycompat._old.tune.logger import (
    DEFAULT_LOGGERS,
    LegacyLoggerCallback,
    Logger,
    MLFLowLogger,
    as_callbacks,
)
from raycompat._old_forms.reports import takes_metrics_as_keywords
from raycompat._surface import era
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train import Checkpoint
from raycompat.tune.error import TuneError
from raycompat.tune.execution.trial_actor import TrialActor
from raycompat.tune.experiment.trial import ExportFormat
from raycompat.tune.schedulers import (
    AsyncHyperBandScheduler,
    MedianStoppingRule,
    create_scheduler,
)
from raycompat.tune.schedulers.pb2 import PB2, BanditModel, best_point
from raycompat.tune.search.library import LibrarySearcher
from raycompat.tune.trainable.trainable import TrainingResult

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")


# Callbacks.


class Profile:
    step_num = 4

    def export_chrome_trace(self, path):
        with open(path, "w") as file:
            file.write("{}")


def test_traces_of_workers_are_written_once(tmp_path):
    profiler = TorchWorkerProfiler(str(tmp_path / "worker"))
    profiler.trace_handler(Profile())
    results = [{}, {"loss": 0.5, **profiler.get_and_clear_profile_traces()}]
    assert profiler.get_and_clear_profile_traces() == {"_train_torch_profiler": []}
    callback = TorchTensorboardProfilerCallback(workers_to_log=1)
    callback.start_training(str(tmp_path), {})
    callback.handle_result(results)
    assert callback.logdir == tmp_path / "pytorch_profiler"
    assert (callback.logdir / "worker_0_epoch_4.pt.trace.json").read_text() == "{}"


def test_an_injector_of_failures_is_refused_where_there_is_a_cluster_file(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    FailureInjectorCallback(str(cluster))
    cluster.touch()
    FailureInjectorCallback(str(cluster), disable=True)
    with pytest.raises(UnsupportedRayFeatureError, match="autoscaler"):
        FailureInjectorCallback(str(cluster))


class Runs:
    """In place of wandb."""

    def init(self, **options):
        self.options, self.logged = options, []
        return self

    def log(self, numbers):
        self.logged.append(numbers)

    def finish(self, exit_code):
        self.logged.append(exit_code)


def test_a_logger_of_wandb_takes_the_settings_of_the_config(monkeypatch):
    runs = Runs()
    monkeypatch.setitem(sys.modules, "wandb", runs)
    trial = SimpleNamespace(
        trial_id="a", experiment_dir_name="own", config={"lr": 0.5, "wandb": {"project": "mine"}}
    )
    logger = WandbLogger(trial.config, "", trial)
    logger.on_result({"training_iteration": 1, "loss": 0.5})
    logger.close()
    assert (runs.options["project"], runs.options["config"]) == ("mine", {"lr": 0.5})
    assert runs.logged == [{"training_iteration": 1, "loss": 0.5}, 0]
    with pytest.raises(ValueError, match="'project': 'mine'"):
        WandbLogger({"lr": 0.5}, "", trial)


def test_a_run_of_wandb_shows_the_whole_config(monkeypatch):
    runs = Runs()
    monkeypatch.setitem(sys.modules, "wandb", runs)
    config = {"lr": 0.5, "wandb": True, "callbacks": [object()]}
    trial = SimpleNamespace(trial_id="a", experiment_dir_name="own", config=config)
    WandbLoggerCallback(project="mine").log_trial_start(trial)
    assert runs.options["config"] == {"lr": 0.5, "wandb": True}


class Client:
    """In place of MLflow's client."""

    def __init__(self):
        self.logged = []

    def create_run(self, experiment):
        return SimpleNamespace(info=SimpleNamespace(run_id=f"run of {experiment}"))

    def log_param(self, *logged):
        self.logged.append(logged)

    def log_metric(self, *logged, step):
        self.logged.append((*logged, step))

    def set_terminated(self, run):
        self.logged.append(run)


def test_a_logger_of_mlflow_writes_a_run_into_the_experiment_of_the_config(monkeypatch):
    client = Client()
    tracking = SimpleNamespace(MlflowClient=lambda: client)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(tracking=tracking))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)
    logger = MLFLowLogger({"mlflow_experiment_id": "7"}, "")
    logger.on_result({"training_iteration": 1, "loss": 0.5})
    logger.close()
    run = "run of 7"
    assert client.logged == [(run, "mlflow_experiment_id", "7"), (run, "loss", 0.5, 1), run]


def test_a_checkpoint_is_made_of_a_model():
    torch = pytest.importorskip("torch")
    from raycompat.train.torch import to_air_checkpoint

    checkpoint = to_air_checkpoint(torch.nn.Linear(2, 1), preprocessor="a preprocessor")
    assert checkpoint.get_model().in_features == 2
    assert checkpoint.get_preprocessor() == "a preprocessor"


def test_a_trainable_hears_of_its_resources_before_it_is_restored():
    heard = []
    actor = TrialActor()
    actor._trainable = SimpleNamespace(
        trial_resources="two", update_resources=heard.append, restore=heard.append
    )
    for has_new in (False, True):
        actor._restore(SimpleNamespace(has_new_resources=has_new), TrainingResult("saved", {}))
    assert heard == ["saved", "two", "saved"]


# Schedulers.


def test_a_scheduler_of_the_time_has_a_metric_and_a_mode(monkeypatch):
    with pytest.raises(ValueError, match=r"mode=None: .* --ray 0.8"):
        AsyncHyperBandScheduler(metric="score").on_trial_add(None, None)
    accurate = AsyncHyperBandScheduler(metric="mean_accuracy")
    accurate.on_trial_add(None, SimpleNamespace(trial_id="a"))
    assert accurate.score({"mean_accuracy": 0.5}) == 0.5
    monkeypatch.setenv(era.VARIABLE, "0.8.7")
    scheduler = MedianStoppingRule()
    scheduler.on_trial_add(None, None)
    assert scheduler.score({"episode_reward_mean": 2.0}) == 2.0
    monkeypatch.setenv(era.VARIABLE, "1.12")
    with pytest.raises(ValueError, match="a metric without a mode"):
        AsyncHyperBandScheduler(metric="mean_accuracy").on_trial_add(None, None)


# Searchers and analyses.


def test_a_searcher_of_the_time_has_a_metric_and_a_mode(monkeypatch):
    class Library(LibrarySearcher):
        def start(self, domains):
            pass

        def ask(self, point):
            return object(), {"x": 0.5}

    space = {"x": tune.uniform(0, 1)}
    accurate = Library(space, metric="mean_accuracy")
    accurate.suggest("a")
    assert accurate.mode == "max"
    with pytest.raises(RuntimeError, match="mode=None"):
        Library(space, metric="score").suggest("a")
    monkeypatch.setenv(era.VARIABLE, "0.8.7")
    assert (Library().metric, Library(metric="score").mode) == ("episode_reward_mean", "max")
    assert type("ZOOptSearch", (Library,), {})().mode == "min"
    monkeypatch.setenv(era.VARIABLE, "1.12")
    with pytest.raises(ValueError, match="a metric without a mode"):
        Library(space, metric="mean_accuracy").suggest("a")


def test_a_table_without_a_mode_has_the_last_results(tmp_path):
    results = [{"mean_accuracy": accuracy} for accuracy in (0.5, 0.1)]
    lines = "".join(json.dumps(result) + "\n" for result in results)
    folder = SimpleNamespace(exists=lambda name: True, read=lambda name: lines.encode())
    trial = SimpleNamespace(
        trial_id="a", config={}, path="", folder=folder, last_result=results[-1]
    )
    analysis = tune.ExperimentAnalysis(tmp_path, trials=[trial])
    assert analysis.dataframe("mean_accuracy", "max").mean_accuracy.tolist() == [0.5]
    with pytest.raises(ValueError, match="expected a metric and mode"):
        analysis.dataframe(mode="max")
    assert analysis.dataframe(metric="mean_accuracy").mean_accuracy.tolist() == [0.1]


# Predictors.


def test_a_predictor_takes_the_dtypes_of_its_library():
    torch = pytest.importorskip("torch")
    predictor = TorchPredictor(torch.nn.Identity())
    numbers = np.array([1, 2])
    assert predictor.predict(numbers, dtype=torch.float32)["predictions"].dtype == np.float32
    with pytest.raises(UnsupportedRayFeatureError, match=r"dtype=torch\.bfloat16.*NumPy"):
        predictor.predict(numbers, dtype=torch.bfloat16)
    of_tensorflow = SimpleNamespace(as_numpy_dtype=np.float16)
    halves = predictor.predict({"a": numbers, "b": numbers}, dtype={"a": of_tensorflow})
    assert halves["a"].dtype == np.float16
    assert halves["b"].dtype == numbers.dtype


# Checkpoints.


class SavesFile(tune.Trainable):
    def save_checkpoint(self, folder):
        path = os.path.join(folder, "state")
        with open(path, "w") as file:
            file.write("saved")
        return path

    def load_checkpoint(self, path):
        with open(path) as file:
            self.loaded = file.read()


def test_a_class_may_return_the_file_of_its_checkpoint(tmp_path, monkeypatch):
    saver = SavesFile()
    saver.restore(saver.save(str(tmp_path)))
    assert saver.loaded == "saved"
    monkeypatch.setenv(era.VARIABLE, "2.10")
    with pytest.raises(ValueError, match="save_checkpoint with a file"):
        saver.save(str(tmp_path))


# Reports.


@takes_metrics_as_keywords("ray.tune.report with metrics as keywords")
def report(metrics, *, checkpoint=None):
    return metrics, checkpoint


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [
        ([{"a": 1}], {}, ({"a": 1}, None)),
        ([{"a": 1}], {"checkpoint": 2}, ({"a": 1}, 2)),
        ([], {"metrics": {"a": 1}, "checkpoint": 2}, ({"a": 1}, 2)),
        ([], {"loss": 1, "done": True}, ({"loss": 1, "done": True}, None)),
        ([{"a": 1}], {"b": 2}, ({"a": 1, "b": 2}, None)),
        ([], {}, ({}, None)),
        ([0.5], {}, ({"_metric": 0.5}, None)),
        ([0.5], {"b": 2}, ({"_metric": 0.5, "b": 2}, None)),
    ],
)
def test_metrics_are_a_dict_or_keywords(args, kwargs, found):
    assert report(*args, **kwargs) == found


def test_keywords_are_refused_by_a_later_version(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(TypeError, match="unexpected keyword argument 'loss'"):
        report(loss=1)


# Checkpoints.


def test_a_checkpoint_of_a_dict_travels_and_leaves_nothing():
    checkpoint = pickle.loads(pickle.dumps(Checkpoint.from_dict({"step": 3})))
    assert checkpoint.to_dict() == {"step": 3}
    folder = checkpoint.path
    assert Checkpoint(folder).to_dict() == {"step": 3}
    assert Checkpoint.from_bytes(checkpoint.to_bytes()).to_dict() == {"step": 3}
    del checkpoint
    gc.collect()
    assert not os.path.exists(folder)


def test_a_checkpoint_of_a_folder_has_no_dict_but_a_path(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(ValueError, match="made from a folder"):
        checkpoint.to_dict()
    assert os.path.join(checkpoint, "x") == str(tmp_path / "x")
    assert checkpoint.value == str(tmp_path)
    assert checkpoint.get_preprocessor() is None
    checkpoint.set_preprocessor([1])
    assert checkpoint.get_preprocessor() == [1]


def test_a_later_version_has_no_paths_and_no_dicts(monkeypatch, tmp_path):
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(TypeError, match="is not a path"):
        os.path.join(Checkpoint(tmp_path), "x")
    with pytest.raises(AttributeError, match="2.60"):
        Checkpoint.from_dict({})


# Small functions.


def test_nested_dicts_are_looked_up_and_updated():
    assert utils.unflattened_lookup("a/b", {"a": {"b": 1}}) == 1
    assert utils.unflattened_lookup("a/c", {"a": {"b": 1}}, default=2) == 2
    with pytest.raises(KeyError):
        utils.unflattened_lookup("a/c", {"a": {"b": 1}})
    found = {"a": {"b": 1}, "c": {"type": "x", "d": 1}}
    utils.deep_update(
        found, {"a": {"b": 2}, "c": {"type": "y"}}, override_all_if_type_changes=["c"]
    )
    assert found == {"a": {"b": 2}, "c": {"type": "y"}}
    with pytest.raises(KeyError, match="'new'"):
        utils.deep_update(found, {"new": 1})
    assert utils.deep_update(found, {"a": {"new": 1}}, allow_new_subkey_list=["a"])["a"]["new"] == 1


def test_loggers_that_are_always_there_are_left_out():
    class Mine(Logger):
        pass

    assert as_callbacks(DEFAULT_LOGGERS) == []
    (callback,) = as_callbacks([*DEFAULT_LOGGERS, Mine])
    assert isinstance(callback, LegacyLoggerCallback)


@pytest.mark.parametrize("option", ["return_trials", "trial_executor"])
def test_options_that_cannot_be_kept_say_so(option):
    with pytest.raises(UnsupportedRayFeatureError, match=option):
        tune.run(lambda config: None, **{option: True})


def test_the_first_error_is_named_when_all_trials_failed():
    from raycompat.tune.analysis.experiment_analysis import no_best

    class Failed:
        status, error, error_file, metric_analysis = "ERROR", ValueError("no data"), "error.txt", {}

    text = no_best([Failed(), Failed()], "loss")
    assert "All 2 trials failed" in text
    assert "no data" in text


# AutoML.


def test_automl_searches_go_generation_by_generation():
    space = SearchSpace({ContinuousSpace("a.x", 0, 1, 3), DiscreteSpace("y", ["p", "q"])})
    grid = GridSearch(space, "reward")
    configs = [grid.suggest(str(number)) for number in range(6)]
    assert {(c["a"]["x"], c["y"]) for c in configs} == {
        (x, y) for x in (0, 0.5, 1) for y in ("p", "q")
    }
    assert grid.suggest("6") is None  # they still run
    for number in range(6):
        grid.on_trial_complete(str(number), {"reward": number})
    assert grid.suggest("7") == grid.FINISHED
    assert RandomSearch(space, "reward", repeat=1).suggest("0")["y"] in "pq"


def test_genetic_search_keeps_what_is_good():
    space = SearchSpace({DiscreteSpace(name, range(8)) for name in "abc"})
    search = GeneticSearch(space, "reward", max_generation=12, population_size=20)
    means, number = [], 0
    while True:
        generation = {}
        while isinstance(config := search.suggest(str(number)), dict):
            generation[str(number)] = -sum(config.values())
            number += 1
        if config == search.FINISHED:
            break
        for trial_id, reward in generation.items():
            search.on_trial_complete(trial_id, {"reward": reward})
        means.append(np.mean(list(generation.values())))
    assert len(means) == 12
    assert means[-1] > means[0]


# PB2.


def test_the_model_prefers_what_has_improved_most_and_forgets():
    random = np.random.default_rng(0)
    points = random.random((40, 1))
    model = BanditModel(points, np.zeros(40), -((points[:, 0] - 0.7) ** 2))
    assert abs(best_point(model, 1.0, np.empty((0, 1)), 1, random)[0] - 0.7) < 0.1
    mean, deviation = model.predict(np.array([[0.7], [0.1]]), 1.0, np.empty((0, 1)))
    assert mean[0] > mean[1]
    _, with_pending = model.predict(np.array([[0.7]]), 1.0, np.array([[0.7]]))
    assert with_pending[0] <= deviation[0]


def test_pb2_checks_its_bounds_and_has_its_name():
    with pytest.raises(TuneError, match="hyperparam_bounds"):
        PB2(metric="x", mode="max")
    with pytest.raises(TuneError, match="lowest and the highest"):
        PB2(metric="x", mode="max", hyperparam_bounds={"lr": [1, 1]})
    assert isinstance(create_scheduler("pb2", hyperparam_bounds={"lr": [0, 1]}), PB2)


# Searchers over a library that asks and tells.


class Counting(LibrarySearcher):
    library = "Counting"

    def start(self, domains):
        self.domains, self.told, self.count = domains, [], 0

    def ask(self, point):
        self.count += 1
        return self.count, point or dict.fromkeys(self.domains, self.count)

    def tell(self, handle, value):
        self.told.append((handle, self.sign * value))


def test_a_library_sees_flat_names_and_low_values():
    searcher = Counting(points_to_evaluate=[{"a": {"x": 7}}])
    space = {"a": {"x": tune.uniform(0, 1)}, "fixed": 3}
    assert searcher.set_search_properties("score", "max", space)
    assert searcher.suggest("first") == {"a": {"x": 7}, "fixed": 3}
    assert searcher.suggest("second") == {"a": {"x": 2}, "fixed": 3}
    searcher.on_trial_complete("first", {"score": 5})
    searcher.on_trial_complete("second", {"score": float("nan")})
    assert searcher.told == [(1, -5)]
    assert not searcher.set_search_properties("score", "max", space)
    with pytest.raises(ValueError, match="Counting"):
        Counting({"x": tune.grid_search([1, 2])}, "score", "max")


@pytest.mark.parametrize(
    ("name", "options", "install"),
    [
        ("ax", {}, "ax-platform"),
        ("bayesopt", {}, "bayesian-optimization"),
        ("bohb", {}, "hpbandster ConfigSpace"),
        ("hebo", {}, "HEBO"),
        ("nevergrad", {}, "nevergrad"),
        ("zoopt", {"budget": 1}, "zoopt"),
    ],
)
def test_a_missing_library_is_named_with_the_line_that_installs_it(
    monkeypatch, name, options, install
):
    import sys

    package = {"bayesopt": "bayes_opt", "bohb": "hpbandster"}.get(name, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {install}"):
        tune.create_searcher(name, **options)


def test_points_of_hyperopt_may_have_positions_of_choices():
    hyperopt = pytest.importorskip("hyperopt")
    from raycompat.tune.search.hyperopt import HyperOptSearch

    space = {"a": hyperopt.hp.choice("a", ["relu", "tanh"])}

    def first(value):
        points = [{"a": value}]
        return HyperOptSearch(space, metric="m", mode="min", points_to_evaluate=points).suggest("t")

    assert first(1) == first("tanh") == {"a": "tanh"}
    with pytest.raises(ValueError, match="expected one of"):
        first(2)


def test_formats_of_exports():
    formats = [" Model", "h5"]
    ExportFormat.validate(formats)
    assert formats == [ExportFormat.MODEL, ExportFormat.H5]
    with pytest.raises(ValueError, match="'cake' is not a format"):
        ExportFormat.validate(["model", "cake"])


def test_a_module_within_one_that_is_refused_is_found():
    from raycompat.util.sgd import v2

    from raycompat.util import sgd

    assert v2.Trainer is Trainer
    with pytest.raises(UnsupportedRayFeatureError, match=r"tensorflow\.TensorflowTrainer"):
        sgd.PyTorchTrainer(model_creator=None)
