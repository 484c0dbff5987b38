"""Keras's callback, for older programs that import it from here."""

from raycompat.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
