"""The configurations that Train and Tune had in common until Train's second version."""

from raycompat._surface.modules import names_of
from raycompat.train._run_configs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]
