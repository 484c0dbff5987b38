"""`LoggerCallback`: writes a trial's results where tools find them."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from raycompat._surface.modules import names_of
from raycompat.tune.callback import Callback

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Metrics


class LoggerCallback(Callback):
    """Write results of trials. Subclasses write the methods that begin with ``log_trial``.

    Notes
    -----
    Ray source: ``ray.tune.logger.LoggerCallback``, 2.60.0. No known difference.
    """

    def log_trial_start(self, trial: Trial) -> None:
        """Begin to write for a trial."""

    def log_trial_restore(self, trial: Trial) -> None:
        """Handle the continuation of a trial from a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """Take note of a checkpoint."""

    def log_trial_result(self, iteration: int, trial: Trial, result: Metrics) -> None:
        """Write a result."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Write no more for a trial."""

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: Metrics,
        **info: object,
    ) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_save(trial)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_end(trial, failed=True)


class LocalFolders:
    """Local folders of trials whose storage is remote; those of others are the trials' own."""

    def __init__(self) -> None:
        self._temporary: dict[str, str] = {}

    def of(self, trial: Trial) -> str:
        """Return the local folder to write to."""
        if trial.folder.is_local:
            path = trial.path
            os.makedirs(path, exist_ok=True)
            return path
        if trial.trial_id not in self._temporary:
            self._temporary[trial.trial_id] = tempfile.mkdtemp(prefix=f"{trial.trial_id}-")
        return self._temporary[trial.trial_id]

    def upload(self, trial: Trial) -> None:
        """Copy what was written to the storage, where that is remote."""
        local = self._temporary.get(trial.trial_id)
        if local is not None:
            trial.folder.create().receive(local)


#: Names of older Rays.
__getattr__ = names_of(__name__)
