"""Keras functions for training functions. Importing this module does not import TensorFlow."""

import importlib
from typing import TYPE_CHECKING, Any

from raycompat.train.tensorflow._report_callback import ReportCheckpointCallback

if TYPE_CHECKING:
    from raycompat.train.tensorflow._keras_parallel import (
        DistributedOptimizer,
        SynchronizationCallback,
    )

__all__ = ["DistributedOptimizer", "ReportCheckpointCallback", "SynchronizationCallback"]

#: Names whose module imports TensorFlow and Keras 3.
_OF_KERAS_3 = ("DistributedOptimizer", "SynchronizationCallback")


def __getattr__(name: str) -> Any:
    """Import the names that need Keras 3 (PEP 562)."""
    if name in _OF_KERAS_3:
        parallel = importlib.import_module("raycompat.train.tensorflow._keras_parallel")
        return getattr(parallel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
