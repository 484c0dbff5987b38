"""Options of trainers in the forms of older Rays."""

import pytest

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
