"""Options of trainers in the forms of older Rays."""

import sys
from types import SimpleNamespace

import pytest

from raycompat._old.train import session
from raycompat._old_forms.train import options
from raycompat._surface import era, forms
from raycompat.exceptions import OldFormWarning
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


def test_a_distributed_model_is_saved_without_its_wrapper(monkeypatch):
    class Wrapper:
        module = "the model"

    parallel = SimpleNamespace(DistributedDataParallel=Wrapper)
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(parallel=parallel))
    )
    assert session._unwrapped(Wrapper()) == "the model"
    assert session._unwrapped({"a": 1}) == {"a": 1}
