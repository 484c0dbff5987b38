"""Train with LightGBM. LightGBM itself is imported when it is first needed."""

from raycompat._surface.modules import names_of
from raycompat.train.lightgbm._callback import RayTrainReportCallback
from raycompat.train.lightgbm._columns import normalize_pandas_for_lightgbm
from raycompat.train.lightgbm.config import LightGBMConfig, get_network_params
from raycompat.train.lightgbm.lightgbm_checkpoint import LightGBMCheckpoint
from raycompat.train.lightgbm.lightgbm_trainer import LightGBMTrainer

__all__ = [
    "LightGBMCheckpoint",
    "LightGBMConfig",
    "LightGBMTrainer",
    "RayTrainReportCallback",
    "get_network_params",
    "normalize_pandas_for_lightgbm",
]

#: Names of older Rays.
__getattr__ = names_of(__name__)
