"""Loggers of 0.2 to 2.48: a class for each trial, where `LoggerCallback` is one for all trials."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import yaml

from raycompat._old_forms.packages import require
from raycompat._recordable import as_json_text
from raycompat.tune.logger import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    TBXLoggerCallback,
)
from raycompat.tune.result import TRAINING_ITERATION

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial


class Logger:
    """Writes the results of one trial.

    Parameters
    ----------
    config : dict
        The trial's hyperparameters.
    logdir : str
        Its folder.
    trial : Trial, optional
        The trial itself.
    """

    def __init__(self, config: dict[str, Any], logdir: str, trial: Trial | None = None) -> None:
        self.config, self.logdir, self.trial = config, logdir, trial
        self._init()

    def _init(self) -> None:
        """Prepare; subclasses may write it."""

    def on_result(self, result: dict[str, Any]) -> None:
        """Write a result; subclasses write it."""
        raise NotImplementedError(f"{type(self).__name__} has no method on_result().")

    def update_config(self, config: dict[str, Any]) -> None:
        """Take note of a new config."""

    def close(self) -> None:
        """Release what was taken."""

    def flush(self) -> None:
        """Write what was kept back."""


class NoopLogger(Logger):
    """Writes nothing."""

    def on_result(self, result: dict[str, Any]) -> None:
        """Leave the result."""


class JsonLogger(NoopLogger):
    """Stands for `JsonLoggerCallback`, which every experiment has."""


class CSVLogger(NoopLogger):
    """Stands for `CSVLoggerCallback`, which every experiment has."""


class TBXLogger(NoopLogger):
    """Stands for `TBXLoggerCallback`, which every experiment has where tensorboardX is installed."""


class MLFLowLogger(Logger):
    """Logs a trial as a run of MLflow, in the experiment of ``config["mlflow_experiment_id"]``.

    Notes
    -----
    Ray source: ``ray.tune.logger.MLFLowLogger``, 0.8.7. Differs from Ray: without that key, the
    experiment is MLflow's default.
    """

    def _init(self) -> None:
        self._client = require("mlflow.tracking", "MLFLowLogger").MlflowClient()
        run = self._client.create_run(self.config.get("mlflow_experiment_id", "0"))
        self._run_id = run.info.run_id
        for name, value in self.config.items():
            self._client.log_param(self._run_id, name, value)

    def on_result(self, result: dict[str, Any]) -> None:
        """Log the numbers with a fraction, as Ray did."""
        for name, value in result.items():
            if isinstance(value, float):
                step = result.get(TRAINING_ITERATION)
                self._client.log_metric(self._run_id, name, value, step=step)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run_id)


#: The loggers that every experiment has.
DEFAULT_LOGGERS = (JsonLogger, CSVLogger, TBXLogger)

_CALLBACKS = {
    JsonLogger: JsonLoggerCallback,
    CSVLogger: CSVLoggerCallback,
    TBXLogger: TBXLoggerCallback,
}


class UnifiedLogger(Logger):
    """Writes each result by several loggers.

    Parameters
    ----------
    loggers : list of type, optional
        Subclasses of `Logger`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        logdir: str,
        trial: Trial | None = None,
        loggers: Iterable[type[Logger]] | None = None,
    ) -> None:
        self._classes = list(loggers or DEFAULT_LOGGERS)
        super().__init__(config, logdir, trial)

    def _init(self) -> None:
        self._loggers = [cls(self.config, self.logdir, self.trial) for cls in self._classes]

    def on_result(self, result: dict[str, Any]) -> None:
        """Write a result by all of them."""
        for each in self._loggers:
            each.on_result(result)

    def close(self) -> None:
        """Close all of them."""
        for each in self._loggers:
            each.close()

    def flush(self) -> None:
        """Flush all of them."""
        for each in self._loggers:
            each.flush()


class LegacyLoggerCallback(LoggerCallback):
    """Makes a logger of each class for each trial.

    Parameters
    ----------
    logger_classes : list of type, or type
        Subclasses of `Logger`.
    """

    def __init__(self, logger_classes: Iterable[type[Logger]] | type[Logger]) -> None:
        if isinstance(logger_classes, type):
            logger_classes = [logger_classes]
        self._classes = list(logger_classes)
        self._loggers: dict[str, list[Logger]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Make the loggers of a trial."""
        if trial.trial_id not in self._loggers:
            trial.folder.create()
            self._loggers[trial.trial_id] = [
                cls(trial.config, trial.path, trial) for cls in self._classes
            ]

    def log_trial_restore(self, trial: Trial) -> None:
        """Tell them that the trial continues."""
        for each in self._loggers.get(trial.trial_id, ()):
            each.flush()

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write a result by all of them."""
        self.log_trial_start(trial)
        for each in self._loggers[trial.trial_id]:
            each.on_result(result)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close them."""
        for each in self._loggers.pop(trial.trial_id, ()):
            each.close()


def as_callbacks(loggers: Iterable[Any]) -> list[Any]:
    """Return callbacks for classes of loggers, and for functions that make one."""
    given = list(loggers)
    ready = [each for each in given if isinstance(each, LoggerCallback)]
    classes = [each for each in given if each not in ready]
    kept = [each for each in classes if each not in DEFAULT_LOGGERS]
    return [*ready, *([LegacyLoggerCallback(kept)] if kept else [])]


def pretty_print(result: dict[str, Any], exclude: Iterable[str] | None = None) -> str:
    """Return a result as text, one value a line, without the config and what is None.

    Parameters
    ----------
    result : dict
        A result of a trial.
    exclude : iterable of str, optional
        Names that are left out, too.
    """
    left_out = {"config", "hist_stats", "_metadata", *(exclude or ())}
    shown = {
        name: value for name, value in result.items() if value is not None and name not in left_out
    }
    plain = json.loads(as_json_text(shown))
    return str(yaml.safe_dump(plain, default_flow_style=False))
