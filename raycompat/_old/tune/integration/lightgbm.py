"""Callbacks of LightGBM that report to Tune."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from raycompat._old.tune.integration.reporting import Metrics, chosen, report


class TuneReportCheckpointCallback:
    """Report the evaluations after each round, with the model as a checkpoint.

    Parameters
    ----------
    metrics : str, list of str or dict, optional
        Which, such as ``"eval-binary_error"``; by default all.
    filename : str, default "model.txt"
        The model's file in the checkpoint.
    frequency : int, default 5
        At each which round there is a checkpoint; 0 for none.
    checkpoint_at_end : bool, default False
        Whether the last round has one too.
    results_postprocessing_fn : callable, optional
        Changes the evaluations before they are reported.
    """

    CHECKPOINT_NAME = "model.txt"
    #: As LightGBM orders callbacks: after those that evaluate.
    order, before_iteration = 20, False

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 5,
        checkpoint_at_end: bool = False,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self._metrics, self._filename = metrics, filename
        self._frequency, self._at_end = frequency, checkpoint_at_end
        self._changed = results_postprocessing_fn

    def __call__(self, env: Any) -> None:
        """Report the evaluations of a round, which LightGBM describes by `env`."""
        found: dict[str, Any] = {}
        for data, name, value, *rest in env.evaluation_result_list:
            if len(rest) > 1:  # of cross-validation: the mean and the deviation
                found[f"{data}-{name}-mean"], found[f"{data}-{name}-stdv"] = value, rest[1]
            else:
                found[f"{data}-{name}"] = value
        if self._changed is not None:
            found = self._changed(found)
        number = env.iteration + 1
        is_due = self._frequency > 0 and number % self._frequency == 0
        is_due = is_due or (self._at_end and number == env.end_iteration)
        report(chosen(self._metrics, found), self._writer(env.model) if is_due else None)

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
