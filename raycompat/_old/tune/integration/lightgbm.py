"""Callbacks of LightGBM that report to Tune."""

from __future__ import annotations

from typing import Any

from raycompat._old.tune.integration.reporting import RoundReports, WithoutCheckpoints
from raycompat._old_forms.packages import require


class TuneReportCheckpointCallback(RoundReports):
    """Report the evaluations after each round, with the model as a checkpoint: see `RoundReports`."""

    CHECKPOINT_NAME = "model.txt"
    #: As LightGBM orders callbacks: after those that evaluate.
    order, before_iteration = 20, False

    @staticmethod
    def _load(path: str) -> Any:
        return require("lightgbm", "ray.tune.integration.lightgbm").Booster(model_file=path)

    def __call__(self, env: Any) -> None:
        """Report the evaluations of a round, which LightGBM describes by `env`."""
        found: dict[str, Any] = {}
        for data, name, value, *rest in env.evaluation_result_list:
            if len(rest) > 1:  # of cross-validation: the mean and the deviation
                found[f"{data}-{name}-mean"], found[f"{data}-{name}-stdv"] = value, rest[1]
            else:
                found[f"{data}-{name}"] = value
        number = env.iteration + 1
        self._report(env.model, number, found, is_last=number == env.end_iteration)


class TuneReportCallback(WithoutCheckpoints, TuneReportCheckpointCallback):
    """Report the evaluations after each round."""
