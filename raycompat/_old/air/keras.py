"""Callbacks of Keras, which ``ray.air`` had until they moved to ``ray.train.tensorflow.keras``."""

from __future__ import annotations

from typing import Any

from raycompat.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["Callback", "ReportCheckpointCallback"]


class Callback(ReportCheckpointCallback):
    """Report metrics and checkpoints at events of Keras, under the names of 2.0.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which metrics; by default all.
    on : str or list of str, default "epoch_end"
        Events at which metrics are reported.
    frequency : int, default 1
        At how many of these events a checkpoint is made; 0 for none.
    """

    def __init__(
        self,
        metrics: Any = None,
        on: str | list[str] = "epoch_end",
        frequency: int | list[int] = 1,
    ) -> None:
        super().__init__(
            checkpoint_on=on if frequency else [], report_metrics_on=on, metrics=metrics
        )
