"""Experiments of Tune in Aim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.tune.logger import LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

__all__ = ["AimLoggerCallback"]


class AimLoggerCallback(LoggerCallback):
    """Log each trial as a run of Aim.

    Parameters
    ----------
    repo : str, optional
        Where Aim keeps runs. By default the experiment's folder.
    experiment_name : str, optional
        By default the name of Tune's.
    metrics : list of str, optional
        Which numbers are logged. By default all.
    **aim_run_kwargs
        Further arguments of ``aim.Run``.

    Raises
    ------
    ImportError
        When aim is not installed.

    Notes
    -----
    Ray source: ``ray.tune.logger.aim.AimLoggerCallback``, 2.60.0.
    """

    def __init__(
        self,
        repo: str | None = None,
        experiment_name: str | None = None,
        metrics: list[str] | None = None,
        **aim_run_kwargs: Any,
    ) -> None:
        self._aim = require("aim", "AimLoggerCallback")
        self._repo, self._name, self._metrics = repo, experiment_name, metrics
        self._kwargs = aim_run_kwargs
        self._runs: dict[str, Any] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Begin a run."""
        if trial.trial_id not in self._runs:
            run = self._aim.Run(
                repo=self._repo or trial.local_experiment_path,
                experiment=self._name or trial.experiment_dir_name,
                **self._kwargs,
            )
            run["trial_id"], run["hparams"] = trial.trial_id, flatten_dict(trial.config)
            self._runs[trial.trial_id] = run

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        flat = flatten_dict({name: value for name, value in result.items() if name != "config"})
        for name, value in flat.items():
            is_wanted = self._metrics is None or name in self._metrics
            if is_wanted and isinstance(value, int | float):
                step = result["training_iteration"]
                self._runs[trial.trial_id].track(value, name=name, step=step)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """End the run."""
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.close()
