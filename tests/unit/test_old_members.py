"""Methods and properties that classes had in older Rays: the rows of the table, and what they are of an object."""

from __future__ import annotations

import numpy as np
import pytest

from raycompat import air, tune
from raycompat._old.data.tensor_array import TensorArray
from raycompat._storage import Folder
from raycompat._surface import era, forms, table
from raycompat.exceptions import OldFormWarning
from raycompat.train.data_parallel_trainer import DataParallelTrainer
from raycompat.tune.experiment.trial import Trial

ROWS = [
    (of, row)
    for library in ("core", *table.LIBRARIES)
    for of, members in table.rows(library).members.items()
    for row in members.values()
]


@pytest.mark.parametrize(("of", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_each_row_says_what_the_member_is_here(of, row):
    cls = forms.find(f"raycompat{of.removeprefix('ray')}")
    name = row.name.rpartition(".")[2].removesuffix("()")
    assert not hasattr(cls, name), "the class has it: the row is never read"
    assert bool(row.now or row.here) != bool(row.without)
    if row.here:
        assert callable(forms.find(row.here))
    elif row.now:
        assert hasattr(cls, row.now.rpartition(".")[2].removesuffix("()"))


class Counter(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]


@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")
def test_the_state_of_a_trainable_travels_as_bytes():
    first, second = Counter(), Counter()
    first.train()
    second.restore_from_object(first.save_to_object())
    assert second.train()["count"] == 2


def test_a_member_warns_once_and_the_chosen_version_may_not_have_it(monkeypatch):
    tune.register_trainable("counter", Counter)
    trial = Trial(
        "counter", resources=tune.PlacementGroupFactory([{"CPU": 1, "gnu": 2}, {"GPU": 1}])
    )
    monkeypatch.setattr(forms, "_seen", set())
    with pytest.warns(OldFormWarning, match=r"Trial.resources .* placement_group_factory"):
        assert trial.resources == (1, 1, 0, {"gnu": 2})
    monkeypatch.setenv(era.VARIABLE, "2.40")
    with pytest.raises(AttributeError, match="does not have it"):
        trial.resources


def test_a_refused_member_says_why_and_others_are_unknown_as_ever():
    trial = Trial("counter", stub=True)
    assert not hasattr(trial, "runner")
    with pytest.raises(AttributeError, match="belongs to the experiment"):
        trial.runner
    with pytest.raises(AttributeError, match="'Trial' object has no attribute 'other'"):
        trial.other


def test_a_subclass_may_have_the_member_itself():
    class Own(Counter):
        def get_current_ip(self):
            return "here"

    assert Own().get_current_ip() == "here"


def test_arrays_of_a_column_have_methods_of_numpy():
    column = TensorArray(np.arange(6).reshape(3, 2))
    assert column.astype(float).to_numpy().tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert column.take([2]).to_numpy(dtype=float).tolist() == [[4.0, 5.0]]
    assert (column.any(), column.all(), column.copy().numpy_dtype) == (
        True,
        False,
        np.arange(1).dtype,
    )


def test_a_result_is_read_from_the_folder_of_a_run_or_of_a_trial(tmp_path):
    with pytest.raises(RuntimeError, match="is not the folder of a trial"):
        air.Result.from_path(tmp_path)


@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")
def test_a_trainer_is_a_class_for_a_tuner():
    trainable = DataParallelTrainer(lambda config: None).as_trainable()
    assert issubclass(trainable, tune.Trainable)
    assert trainable.__name__ == "DataParallelTrainer"


def test_the_error_of_a_property_is_its_own():
    class Rated(Counter):
        @property
        def rate(self):
            return self.unknown / 2

    with pytest.raises(AttributeError, match="'unknown'"):
        Rated().rate


@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")
def test_a_checkpoint_that_is_gone_is_not_deleted_with_its_neighbours(tmp_path):
    (tmp_path / "results.json").touch()
    trainable = Counter()
    saved = trainable.save(str(tmp_path / "checkpoint"))
    trainable.delete_checkpoint(saved)
    trainable.delete_checkpoint(saved)
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_looking_for_a_method_is_not_its_use(monkeypatch):
    monkeypatch.setattr(forms, "_seen", set())
    trainable = Counter()
    assert hasattr(trainable, "get_current_ip")
    with pytest.warns(OldFormWarning, match="get_current_ip"):
        trainable.get_current_ip()
    monkeypatch.setenv(era.VARIABLE, "2.60")
    assert not hasattr(trainable, "get_current_ip")


@pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")
def test_where_files_are_that_are_not_on_this_machine(tmp_path):
    tune.register_trainable("counter", Counter)
    assert Trial("counter", experiment_folder=Folder(str(tmp_path))).remote_checkpoint_dir is None
    remote = Trial("counter", experiment_folder=Folder("memory://bucket/own"))
    assert remote.remote_checkpoint_dir.startswith("memory://")
    assert tune.SyncConfig(upload_dir="s3://bucket").upload_dir == "s3://bucket"
    assert (remote.uses_placement_groups, remote.is_restoring) == (True, False)
