"""Callbacks of Keras that report to Tune."""

from __future__ import annotations

import os
from typing import Any

from raycompat._old.tune.integration.reporting import report
from raycompat.train._round_reports import MetricNames, chosen
from raycompat.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["TuneReportCallback", "TuneReportCheckpointCallback", "TuneReporterCallback"]


class TuneReportCheckpointCallback(ReportCheckpointCallback):
    """Report metrics and checkpoints at events of Keras.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which metrics; by default all.
    filename : str, default "checkpoint"
        The model's file or folder in the checkpoint.
    frequency : int, default 1
        At each which event there is a checkpoint.
    on : str or list of str, default "epoch_end"
        Events at which it reports.
    """

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str = "checkpoint",
        frequency: int = 1,
        on: str | list[str] = "epoch_end",
        save_format: str | None = None,
    ) -> None:
        super().__init__(checkpoint_on=on, report_metrics_on=on)
        self._wanted, self._filename, self._frequency = metrics, filename, frequency
        self._count = 0

    def _handle(self, logs: dict[str, Any] | None, event: str) -> None:
        if event not in self._report_metrics_on:
            return
        self._count += 1
        is_due = self._frequency and self._count % self._frequency == 0
        report(self._found(logs or {}), self._write if is_due else None)

    def _found(self, logs: dict[str, Any]) -> dict[str, Any]:
        return chosen(self._wanted, logs)

    def _write(self, folder: str) -> None:
        name = self._filename
        if not name.endswith((".keras", ".h5")):
            name += ".keras"
        self.model.save(os.path.join(folder, name))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Report metrics at events of Keras.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which metrics; by default all.
    on : str or list of str, default "epoch_end"
        Events at which it reports.
    """

    def __init__(self, metrics: MetricNames = None, on: str | list[str] = "epoch_end") -> None:
        super().__init__(metrics, frequency=0, on=on)


class TuneReporterCallback(TuneReportCallback):
    """Report ``keras_info``, ``mean_loss`` and ``mean_accuracy``, as the callback of 0.8 did.

    Parameters
    ----------
    freq : {"epoch", "batch"}, default "epoch"
        When it reports.
    """

    def __init__(self, reporter: Any = None, freq: str = "epoch", logs: Any = None) -> None:
        super().__init__(on=f"{freq}_end" if freq == "epoch" else "train_batch_end")

    def _found(self, logs: dict[str, Any]) -> dict[str, Any]:
        accuracy = logs.get("accuracy", logs.get("acc"))
        added = {"mean_loss": logs.get("loss"), "mean_accuracy": accuracy}
        return {"keras_info": dict(logs), **{k: v for k, v in added.items() if v is not None}}
