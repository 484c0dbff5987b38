"""Keras's callback, where older programs import it from."""

from raycompat.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
