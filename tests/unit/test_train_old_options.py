"""Options of trainers in the forms of older Rays."""

import sys
from types import SimpleNamespace

import pytest

from raycompat._old.air.dataset_config import DatasetConfig
from raycompat._old.train import session
from raycompat._old.train.trainer import Trainer
from raycompat._old_forms.train import options
from raycompat._surface import era, forms
from raycompat.exceptions import OldFormWarning, UnsupportedRayFeatureError
from raycompat.train.backend import BackendConfig
from raycompat.train.data_parallel_trainer import DataParallelTrainer


def test_trainers_take_a_dict_as_scaling_config(monkeypatch):
    monkeypatch.setattr(forms, "_seen", set())
    monkeypatch.delenv(era.VARIABLE, raising=False)
    with pytest.warns(OldFormWarning, match=r"ScalingConfig as a dict.*1\.12 to 2\.40"):
        trainer = DataParallelTrainer(print, scaling_config={"num_workers": 2})
    assert trainer.scaling_config.num_workers == 2
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(ValueError, match="does not have it"):
        DataParallelTrainer(print, scaling_config={"num_workers": 2})


@pytest.mark.parametrize(
    ("scaling", "version", "split"),
    [({"num_workers": 2}, None, ["train"]), (None, "2.6.3", ["train"]), (None, "2.7.0", "all")],
)
def test_trainers_up_to_2_6_divide_the_data_set_train_alone(monkeypatch, scaling, version, split):
    monkeypatch.delenv(era.VARIABLE, raising=False)
    if version:
        monkeypatch.setenv(era.VARIABLE, version)
    assert options.default_split(scaling) == split


def test_trainers_take_a_configuration_for_each_data_set(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "2.2")
    data = {"train": [1, 2], "valid": [3, 4], "other": [5, 6]}

    def divided(**configs):
        trainer = DataParallelTrainer(print, datasets=data, dataset_config=configs)
        return trainer.data_config._datasets_to_split

    assert divided() == divided(train=DatasetConfig(fit=True, transform=True)) == ["train"]
    assert divided(valid=DatasetConfig(split=True, use_stream_api=True)) == ["train", "valid"]
    others = {"*": DatasetConfig(split=True)}
    assert divided(**others, valid=DatasetConfig(split=False)) == ["other", "train"]
    assert divided(train=DatasetConfig(split=False)) == []
    with pytest.raises(ValueError, match="requires the data set 'test'"):
        divided(test=DatasetConfig(required=True))
    with pytest.raises(ValueError, match="expected a DatasetConfig"):
        divided(train={"split": True})
    with pytest.raises(UnsupportedRayFeatureError, match="fit=True"):
        divided(valid=DatasetConfig(fit=True))
    with pytest.raises(UnsupportedRayFeatureError, match="random_shuffle"):
        DatasetConfig(global_shuffle=True)
    monkeypatch.setenv(era.VARIABLE, "2.60")
    with pytest.raises(ValueError, match="does not have it"):
        divided()


def test_the_trainer_of_ray_1_divides_all_data_sets_but_those_that_it_marks(monkeypatch):
    monkeypatch.setenv(era.VARIABLE, "1.12")
    data = {"train": [1, 2], "validation": [3, 4], "test_NO-SHARD": [5, 6]}
    trainer = Trainer(BackendConfig(), 2)._trainer(print, None, data, None, None)
    _, second = trainer.data_config.configure(trainer.datasets, 2, None, None)
    assert second == {"train": [2], "validation": [4], "test": [5, 6]}


def test_a_distributed_model_is_saved_without_its_wrapper(monkeypatch):
    class Wrapper:
        module = "the model"

    parallel = SimpleNamespace(DistributedDataParallel=Wrapper)
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(parallel=parallel))
    )
    assert session._unwrapped(Wrapper()) == "the model"
    assert session._unwrapped({"a": 1}) == {"a": 1}
