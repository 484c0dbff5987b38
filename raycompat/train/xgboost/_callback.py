"""`RayTrainReportCallback`: reports each round of XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.train._boosting import ReportsToTrain
from raycompat.train._joined import Joined
from raycompat.train._round_reports import MetricNames, RoundReports

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

__all__ = ["RayTrainReportCallback"]


class OfXGBoost(Joined, RoundReports):
    """Reports the evaluations after each round of XGBoost: see `RoundReports`."""

    _library = (("xgboost.callback",), "TrainingCallback")
    CHECKPOINT_NAME = "model.ubj"

    @staticmethod
    def _load(path: str) -> Any:
        return require("xgboost", "RayTrainReportCallback").Booster(model_file=path)

    # The rounds of the model that the last report has; None without a checkpoint.
    _saved_rounds: int | None = None

    def after_iteration(self, model: Any, epoch: int, evals_log: Metrics) -> bool:
        """Report the last value of each evaluation; XGBoost calls this."""
        found = {
            f"{data}-{name}": values[-1]
            for data, of_data in evals_log.items()
            for name, values in of_data.items()
        }
        is_saved = self._report(model, epoch + 1, found, is_last=False)
        self._saved_rounds = model.num_boosted_rounds() if is_saved else None
        return False

    def after_training(self, model: Any) -> Any:
        """Report once more with a checkpoint, where that was asked for; XGBoost calls this.

        It does not if the last round's report has the same model. Early stopping can have cut it.
        """
        if self._at_end and model.num_boosted_rounds() != self._saved_rounds:
            self._send(self._last, self._writer(model))
        return model


class RayTrainReportCallback(ReportsToTrain, OfXGBoost):
    """Report the evaluations of XGBoost after each round, with the model as a checkpoint.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which are reported, such as ``"eval-logloss"``, or new names for them. By default all.
    filename : str, default "model.ubj"
        The model's file in the checkpoint.
    frequency : int, default 0
        Rounds from one checkpoint to the next; 0 for none before the end.
    checkpoint_at_end : bool, default True
        Whether the last report comes with a checkpoint.
    results_postprocessing_fn : callable, optional
        Changes the evaluations before they are reported: takes and returns a dict.

    Examples
    --------
    In the function of a worker::

        xgboost.train(
            params,
            dtrain,
            evals=[(dtest, "eval")],
            callbacks=[RayTrainReportCallback()],
        )

    After it::

        model = RayTrainReportCallback.get_model(result.checkpoint)
    """

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str = OfXGBoost.CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)


RayTrainReportCallback.__module__ = "raycompat.train.xgboost"
