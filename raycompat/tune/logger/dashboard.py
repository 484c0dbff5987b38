"""Trials on the dashboard: the tab *Experiments* of the page *Ray*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raycompat._recordable import recordable
from raycompat.tune import result as keys
from raycompat.tune.logger.logger import LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict
from raycompat.util.tracking import Experiment

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics


class DashboardCallback(LoggerCallback):
    """Report parameters, states and results of trials to the dashboard."""

    def __init__(self, name: str, metric: str | None, mode: str | None) -> None:
        self._experiment = Experiment(
            name, metric=metric, mode="min" if mode == "min" else "max", kind="Tune"
        )

    def log_trial_start(self, trial: Trial) -> None:
        parameters = flatten_dict(recordable(trial.evaluated_params or trial.config))
        self._experiment.trial(str(trial), "RUNNING", parameters)

    def log_trial_result(self, iteration: int, trial: Trial, result: Metrics) -> None:
        shown = {k: v for k, v in result.items() if k not in keys.ADDED_KEYS}
        figures = flatten_dict(recordable(shown))
        step = result.get(keys.TRAINING_ITERATION, iteration)
        self._experiment.report(str(trial), step, figures)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        error = str(trial.error) if failed and trial.error is not None else ""
        self._experiment.trial(str(trial), "ERROR" if failed else "TERMINATED", error=error)

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        self._experiment.end()
