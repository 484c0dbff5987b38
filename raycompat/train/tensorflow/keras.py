"""What Keras uses in training functions; both Kerases."""

from raycompat.train.tensorflow._report_callback import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
