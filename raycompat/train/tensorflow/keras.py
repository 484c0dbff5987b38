"""What Keras uses in training functions: of both Kerases, imported when it is used."""

import importlib
from typing import Any

from raycompat.train.tensorflow._report_callback import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]

#: Names of Keras 3's part, whose import brings TensorFlow along.
_OF_KERAS_3 = ("DistributedOptimizer", "SynchronizationCallback")


def __getattr__(name: str) -> Any:
    """Import what needs Keras 3; see PEP 562."""
    if name in _OF_KERAS_3:
        parallel = importlib.import_module("raycompat.train.tensorflow.keras_parallel")
        return getattr(parallel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
