"""Train with Lightning. Lightning itself is imported when it is first needed."""

from raycompat._surface.modules import names_of
from raycompat.train.lightning._callback import RayTrainReportCallback
from raycompat.train.lightning._strategies import (
    RayDDPStrategy,
    RayDeepSpeedStrategy,
    RayFSDPStrategy,
    RayLightningEnvironment,
    prepare_trainer,
)

__all__ = [
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "prepare_trainer",
]

__getattr__ = names_of(__name__)
