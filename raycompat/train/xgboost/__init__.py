"""Train with XGBoost. XGBoost itself is imported when it is first needed."""

from raycompat._surface.modules import names_of
from raycompat.train.xgboost._callback import RayTrainReportCallback
from raycompat.train.xgboost.config import XGBoostConfig
from raycompat.train.xgboost.xgboost_checkpoint import XGBoostCheckpoint
from raycompat.train.xgboost.xgboost_trainer import XGBoostTrainer

__all__ = ["RayTrainReportCallback", "XGBoostCheckpoint", "XGBoostConfig", "XGBoostTrainer"]

#: Names of older Rays.
__getattr__ = names_of(__name__)
