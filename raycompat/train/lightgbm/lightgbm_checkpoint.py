"""`LightGBMCheckpoint`: a checkpoint that is a model of LightGBM."""

from __future__ import annotations

from typing import Any, ClassVar

from raycompat._old_forms.packages import require
from raycompat.train._boosting import ModelCheckpoint

__all__ = ["LightGBMCheckpoint"]


class LightGBMCheckpoint(ModelCheckpoint):
    """A checkpoint that is a model of LightGBM.

    Parameters as in `raycompat.train.Checkpoint`.

    Examples
    --------
    In a program with LightGBM::

        checkpoint = LightGBMCheckpoint.from_model(booster)
        booster = checkpoint.get_model()
    """

    MODEL_FILENAME: ClassVar[str] = "model.txt"

    @staticmethod
    def _load(path: str) -> Any:
        return require("lightgbm", "LightGBMCheckpoint").Booster(model_file=path)


LightGBMCheckpoint.__module__ = "raycompat.train.lightgbm"
