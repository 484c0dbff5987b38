"""The common parts of Train and Tune, for older programs that import them from here."""

from raycompat._surface.modules import names_of
from raycompat.train._result import TrialResult as Result
from raycompat.train._run_configs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig"]
