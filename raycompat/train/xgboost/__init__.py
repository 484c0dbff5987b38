"""Train with XGBoost. XGBoost itself is imported when it is first needed."""

from typing import Any

from raycompat._surface.modules import names_of
from raycompat.train.xgboost.config import XGBoostConfig
from raycompat.train.xgboost.xgboost_checkpoint import XGBoostCheckpoint
from raycompat.train.xgboost.xgboost_trainer import XGBoostTrainer

__all__ = ["RayTrainReportCallback", "XGBoostCheckpoint", "XGBoostConfig", "XGBoostTrainer"]

_of_older_rays = names_of(__name__)


def __getattr__(name: str) -> Any:
    if name == "RayTrainReportCallback":  # it inherits from a class of the library
        from raycompat.train.xgboost._callback import RayTrainReportCallback

        return RayTrainReportCallback
    return _of_older_rays(name)
