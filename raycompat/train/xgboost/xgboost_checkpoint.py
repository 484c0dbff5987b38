"""`XGBoostCheckpoint`: a checkpoint that is a model of XGBoost."""

from __future__ import annotations

from typing import Any, ClassVar

from raycompat._old_forms.packages import require
from raycompat.train._boosting import ModelCheckpoint

__all__ = ["XGBoostCheckpoint"]


class XGBoostCheckpoint(ModelCheckpoint):
    """A checkpoint that is a model of XGBoost.

    Parameters as in `raycompat.train.Checkpoint`.

    Examples
    --------
    In a program with XGBoost::

        checkpoint = XGBoostCheckpoint.from_model(booster)
        booster = checkpoint.get_model()
    """

    MODEL_FILENAME: ClassVar[str] = "model.json"

    @staticmethod
    def _load(path: str) -> Any:
        return require("xgboost", "XGBoostCheckpoint").Booster(model_file=path)


XGBoostCheckpoint.__module__ = "raycompat.train.xgboost"
