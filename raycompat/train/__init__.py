"""Train models on many processes, with TensorFlow and Keras or any other library."""

from raycompat.train._callback import UserCallback
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._configs import (
    CheckpointConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
)
from raycompat.train._result import Result
from raycompat.train._sync_config import SyncConfig

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "LoggingConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "UserCallback",
]
