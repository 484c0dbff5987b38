"""Experiments of Tune in Comet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.tune.logger import LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

__all__ = ["CometLoggerCallback"]


class CometLoggerCallback(LoggerCallback):
    """Log each trial as an experiment of Comet.

    Parameters
    ----------
    online : bool, default True
        Whether it is sent at once, or kept in files.
    tags : list of str, optional
        Tags of each experiment.
    save_checkpoints : bool, default False
        Whether checkpoints are logged.
    **experiment_kwargs
        Arguments of Comet's experiment.

    Raises
    ------
    ImportError
        When comet_ml is not installed.

    Notes
    -----
    Ray source: ``ray.air.integrations.comet.CometLoggerCallback``, 2.60.0.
    """

    def __init__(
        self,
        online: bool = True,
        tags: list[str] | None = None,
        save_checkpoints: bool = False,
        **experiment_kwargs: Any,
    ) -> None:
        comet = require("comet_ml", "CometLoggerCallback")
        self._class = comet.Experiment if online else comet.OfflineExperiment
        self._tags, self._saves, self._kwargs = tags or [], save_checkpoints, experiment_kwargs
        self._experiments: dict[str, Any] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Begin an experiment, or go on with that of a trial which starts again."""
        if trial.trial_id not in self._experiments:
            made = self._class(**self._kwargs)
            made.set_name(str(trial))
            made.add_tags(self._tags)
            made.log_others({"trial_id": trial.trial_id, "trial_name": str(trial)})
            made.log_parameters(flatten_dict(trial.config))
            self._experiments[trial.trial_id] = made

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        flat = flatten_dict({name: value for name, value in result.items() if name != "config"})
        numbers = {name: value for name, value in flat.items() if isinstance(value, int | float)}
        self._experiments[trial.trial_id].log_metrics(numbers, step=result["training_iteration"])

    def log_trial_save(self, trial: Trial) -> None:
        """Log a checkpoint, where that was asked for."""
        if self._saves and trial.checkpoint is not None:
            with trial.checkpoint.as_directory() as folder:
                self._experiments[trial.trial_id].log_asset_folder(folder)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """End the experiment."""
        made = self._experiments.pop(trial.trial_id, None)
        if made is not None:
            made.end()
