"""What Train and Tune had in common, where older programs import it from."""

from raycompat.air.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from raycompat.air.result import Result

__all__ = ["CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig"]
