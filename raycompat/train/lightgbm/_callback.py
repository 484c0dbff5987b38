"""`RayTrainReportCallback`: reports each round of LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.train._boosting import ReportsToTrain
from raycompat.train._round_reports import MetricNames, RoundReports

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

__all__ = ["RayTrainReportCallback"]


class OfLightGBM(RoundReports):
    """Reports the evaluations after each round of LightGBM: see `RoundReports`."""

    CHECKPOINT_NAME = "model.txt"
    # As LightGBM orders callbacks: after those that evaluate.
    order, before_iteration = 20, False

    @staticmethod
    def _load(path: str) -> Any:
        return require("lightgbm", "RayTrainReportCallback").Booster(model_file=path)

    def __call__(self, env: Any) -> None:
        """Report the evaluations of a round, which LightGBM describes by `env`."""
        found: Metrics = {}
        for data, name, value, *rest in env.evaluation_result_list:
            if len(rest) > 1:  # of cross-validation: the mean and the deviation
                found[f"{data}-{name}-mean"], found[f"{data}-{name}-stdv"] = value, rest[1]
            else:
                found[f"{data}-{name}"] = value
        number = env.iteration + 1
        self._report(env.model, number, found, is_last=number == env.end_iteration)


class RayTrainReportCallback(ReportsToTrain, OfLightGBM):
    """Report the evaluations of LightGBM after each round, with the model as a checkpoint.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which are reported, such as ``"eval-l2"``, or new names for them. By default all.
    filename : str, default "model.txt"
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

        lightgbm.train(
            params, rows, valid_sets=[test], callbacks=[RayTrainReportCallback()]
        )

    After it::

        model = RayTrainReportCallback.get_model(result.checkpoint)
    """

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str = OfLightGBM.CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)


RayTrainReportCallback.__module__ = "raycompat.train.lightgbm"
