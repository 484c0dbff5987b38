"""The common parts of Train and Tune, for older programs that import them from here."""

from raycompat.air.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from raycompat.train._result import TrialResult as Result

__all__ = ["CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig"]
