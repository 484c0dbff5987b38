"""Callbacks of XGBoost that report to Tune."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from raycompat._old.air.packages import require
from raycompat._old.tune.integration.reporting import Metrics, chosen, report

_Callback: Any = require("xgboost.callback", "ray.tune.integration.xgboost").TrainingCallback


class TuneReportCheckpointCallback(_Callback):
    """Report the evaluations after each round, with the model as a checkpoint.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which, such as ``"eval-logloss"``; by default all.
    filename : str, default "model.ubj"
        The model's file in the checkpoint.
    frequency : int, default 5
        At each which round there is a checkpoint; 0 for none.
    checkpoint_at_end : bool, default False
        Whether there is one at the end too.
    results_postprocessing_fn : callable, optional
        Changes the evaluations before they are reported.
    """

    CHECKPOINT_NAME = "model.ubj"

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 5,
        checkpoint_at_end: bool = False,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._metrics, self._filename = metrics, filename
        self._frequency, self._at_end = frequency, checkpoint_at_end
        self._changed = results_postprocessing_fn
        self._last: dict[str, Any] = {}

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:
        """Report the last value of each evaluation."""
        found = {
            f"{data}-{name}": values[-1]
            for data, of_data in evals_log.items()
            for name, values in of_data.items()
        }
        if self._changed is not None:
            found = self._changed(found)
        self._last = chosen(self._metrics, found)
        is_due = self._frequency > 0 and (epoch + 1) % self._frequency == 0
        report(self._last, self._writer(model) if is_due else None)
        return False

    def after_training(self, model: Any) -> Any:
        """Report once more with a checkpoint, where that was asked for."""
        if self._at_end:
            report(self._last, self._writer(model))
        return model

    def _writer(self, model: Any) -> Callable[[str], Any]:
        return lambda folder: model.save_model(os.path.join(folder, self._filename))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Report the evaluations after each round."""

    def __init__(
        self,
        metrics: Metrics = None,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, frequency=0, results_postprocessing_fn=results_postprocessing_fn)
