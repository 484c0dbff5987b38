"""Callbacks of XGBoost that report to Tune."""

from __future__ import annotations

from typing import Any

from raycompat._old.tune.integration.reporting import RoundReports, WithoutCheckpoints, report
from raycompat._old_forms.packages import require

_Callback: Any = require("xgboost.callback", "ray.tune.integration.xgboost").TrainingCallback


class TuneReportCheckpointCallback(RoundReports, _Callback):
    """Report the evaluations after each round, with the model as a checkpoint: see `RoundReports`."""

    CHECKPOINT_NAME = "model.ubj"

    @staticmethod
    def _load(path: str) -> Any:
        return require("xgboost", "ray.tune.integration.xgboost").Booster(model_file=path)

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, Any]) -> bool:
        """Report the last value of each evaluation."""
        found = {
            f"{data}-{name}": values[-1]
            for data, of_data in evals_log.items()
            for name, values in of_data.items()
        }
        self._report(model, epoch + 1, found, is_last=False)
        return False

    def after_training(self, model: Any) -> Any:
        """Report once more with a checkpoint, where that was asked for."""
        if self._at_end:
            report(self._last, self._writer(model))
        return model


class TuneReportCallback(WithoutCheckpoints, TuneReportCheckpointCallback):
    """Report the evaluations after each round."""
