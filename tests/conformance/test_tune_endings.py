"""What happens at the end of trials and of their results: checkpoints, callbacks, the best one."""

import importlib
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def tune(cluster):
    return importlib.import_module(f"{cluster.__name__}.tune")


@pytest.fixture
def counting(tune):
    class Counting(tune.Trainable):
        def setup(self, config):
            self.count = 0

        def step(self):
            self.count += 1
            return {"count": self.count}

        def save_checkpoint(self, checkpoint_dir):
            Path(checkpoint_dir, "count").write_text(str(self.count))

        def load_checkpoint(self, checkpoint_dir):
            self.count = int(Path(checkpoint_dir, "count").read_text())

    return Counting


@pytest.fixture
def fit(tune, tmp_path):
    def fitted(trainable, config=None, **options):
        run_config = tune.RunConfig(storage_path=str(tmp_path), verbose=0, **options)
        return tune.Tuner(trainable, param_space=config, run_config=run_config).fit()

    return fitted


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({}, 1),
        ({"checkpoint_frequency": 2}, 2),
        ({"checkpoint_at_end": False}, 0),
    ],
)
def test_a_class_makes_a_checkpoint_at_its_end(tune, fit, counting, options, number):
    checkpoints = tune.CheckpointConfig(**options)
    results = fit(counting, stop={"training_iteration": 3}, checkpoint_config=checkpoints)
    assert len(list(Path(results[0].path).glob("checkpoint_*"))) == number


def test_a_checkpoint_is_shown_after_its_result(tune, fit):
    events = []

    class Events(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            events.append(("result", result["x"]))

        def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
            events.append("checkpoint")

        def on_trial_save(self, iteration, trials, trial, **info):
            events.append("save")

        def on_trial_complete(self, iteration, trials, trial, **info):
            events.append("complete")

    def reports(config):
        for x in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                tune.report({"x": x}, checkpoint=tune.Checkpoint.from_directory(folder))

    fit(reports, callbacks=[Events()])
    of_one = ["checkpoint", "save"]
    assert events == [("result", 1), *of_one, ("result", 2), *of_one, "complete"]


def test_the_only_trial_is_the_best(tune, tmp_path):
    analysis = tune.run(lambda config: {"x": 1}, storage_path=str(tmp_path), verbose=0)
    assert analysis.get_best_trial() is analysis.trials[0]
    with pytest.raises(ValueError):
        analysis.best_trial  # noqa: B018


def test_parts_of_the_interface_for_schedulers(ray, cluster, tune):
    schedulers = importlib.import_module(f"{ray.__name__}.tune.schedulers")
    assert schedulers.TrialScheduler().supports_buffered_results
    group = tune.PlacementGroupFactory([{"CPU": 1}])()
    assert group.bundle_specs == [{"CPU": 1.0}]
    cluster.util.remove_placement_group(group)


def test_a_trial_says_where_its_files_are(tune, tmp_path):
    analysis = tune.run(lambda config: {"x": 1}, name="runs", storage_path=str(tmp_path), verbose=0)
    trial = analysis.trials[0]
    storage = trial.storage
    assert storage.storage_fs_path == str(tmp_path)
    assert storage.experiment_dir_name == "runs"
    assert storage.experiment_fs_path == str(tmp_path / "runs")
    assert storage.trial_fs_path == trial.path == str(tmp_path / "runs" / storage.trial_dir_name)
