"""TensorBoard's event files in each trial's folder, by tensorboardX."""

from __future__ import annotations

import logging
import math
import numbers
from typing import TYPE_CHECKING, Any

from raycompat.tune import result as keys
from raycompat.tune.logger.logger import LocalFolders, LoggerCallback
from raycompat.tune.search.extras import require
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

logger = logging.getLogger(__name__)

#: What is not a metric.
NOT_SHOWN = (keys.PID, keys.TIMESTAMP, keys.TIME_TOTAL_S, keys.TRAINING_ITERATION, "config")


class TBXLoggerCallback(LoggerCallback):
    """Write each number of a result as ``ray/tune/<name>``, and the hyperparameters at the end.

    Raises
    ------
    ImportError
        When tensorboardX is not installed: ``pip install raycompat[tune]``.

    Notes
    -----
    Ray source: ``ray.tune.logger.TBXLoggerCallback``, 2.60.0. No known difference.
    """

    def __init__(self) -> None:
        self._writer_cls = require("tensorboardX", "TBXLoggerCallback").SummaryWriter
        self._folders = LocalFolders()
        self._writers: dict[str, Any] = {}
        self._last: dict[str, dict[str, Any]] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        writer = self._writers.get(trial.trial_id)
        if writer is None:
            folder = self._folders.of(trial)
            writer = self._writers[trial.trial_id] = self._writer_cls(folder, flush_secs=30)
        step = result.get(keys.TIMESTEPS_TOTAL) or result[keys.TRAINING_ITERATION]
        flat = flatten_dict({k: v for k, v in result.items() if k not in NOT_SHOWN})
        numbers_only = {k: float(v) for k, v in flat.items() if _is_number(v)}
        for name, value in numbers_only.items():
            writer.add_scalar(f"ray/tune/{name}", value, global_step=step)
        self._last[trial.trial_id] = numbers_only

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        writer = self._writers.pop(trial.trial_id, None)
        if writer is not None:
            self._write_parameters(writer, trial, self._last.pop(trial.trial_id, {}))
            writer.close()
            self._folders.upload(trial)

    def _write_parameters(self, writer: Any, trial: Trial, metrics: dict[str, float]) -> None:
        shown = {
            name: value if isinstance(value, str | int | float | bool) else str(value)
            for name, value in flatten_dict(trial.evaluated_params).items()
            if value is not None
        }
        if shown:
            summaries = require("tensorboardX", "TBXLoggerCallback").summary.hparams(
                hparam_dict=shown, metric_dict=metrics
            )
            for summary in summaries:
                writer.file_writer.add_summary(summary)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        for trial in trials:
            self.log_trial_end(trial)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writers": {}}


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, numbers.Real)
        or (hasattr(value, "item") and getattr(value, "size", 0) == 1)
    ) and not math.isnan(float(value))
