"""Experiments of Tune in Weights & Biases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from raycompat._old.tune.logger import Logger
from raycompat._old_forms.packages import require
from raycompat.tune.logger import LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

#: The variable in which W&B looks for its key.
WANDB_ENV_VAR = "WANDB_API_KEY"

#: The key of a config with the settings of W&B for `WandbLogger`.
_SETTINGS = "wandb"

__all__ = ["WANDB_ENV_VAR", "WandbLogger", "WandbLoggerCallback", "setup_wandb"]


def _set_key(api_key: str | None, api_key_file: str | None) -> None:
    if api_key is None and api_key_file is not None:
        with open(os.path.expanduser(api_key_file)) as file:
            api_key = file.readline().strip()
    if api_key is not None:
        os.environ[WANDB_ENV_VAR] = api_key


class WandbLoggerCallback(LoggerCallback):
    """Log each trial as a run of Weights & Biases.

    Parameters
    ----------
    project, group : str, optional
        As in ``wandb.init``. By default the name of the experiment.
    api_key, api_key_file : str, optional
        The key, or the file with it.
    excludes : list of str, optional
        Names of results that are not logged.
    log_config : bool, default False
        Whether the config of each result is logged.
    upload_checkpoints : bool, default False
        Whether checkpoints are logged as artifacts.
    **kwargs
        Further arguments of ``wandb.init``.

    Raises
    ------
    ImportError
        When wandb is not installed.

    Notes
    -----
    Ray source: ``ray.air.integrations.wandb.WandbLoggerCallback``, 2.60.0. Differs from Ray: all runs
    are logged from the driver's process.
    """

    #: Keys of a config that a run does not show.
    _hidden: ClassVar[frozenset[str]] = frozenset({"callbacks"})

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        **kwargs: Any,
    ) -> None:
        self._wandb = require("wandb", "WandbLoggerCallback")
        _set_key(api_key, api_key_file)
        self._settings = {**kwargs, "project": project, "group": group}
        self._excludes = {"done", "should_checkpoint", *(excludes or ())}
        self._log_config, self._uploads = log_config, upload_checkpoints
        self._runs: dict[str, Any] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Begin a run, or go on with that of a trial which starts again."""
        if trial.trial_id in self._runs:
            return
        given = {name: value for name, value in self._settings.items() if value is not None}
        names = {"project": trial.experiment_dir_name, "group": trial.experiment_dir_name}
        self._runs[trial.trial_id] = self._wandb.init(
            **{
                "id": trial.trial_id,
                "name": str(trial),
                "config": {k: v for k, v in trial.config.items() if k not in self._hidden},
                "reinit": "create_new",
                "resume": "allow",
                **names,
                **given,
            }
        )

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        flat = flatten_dict(result if self._log_config else {**result, "config": {}}, delimiter="/")
        numbers = {
            name: value
            for name, value in flat.items()
            if isinstance(value, int | float) and name not in self._excludes
        }
        self._runs[trial.trial_id].log(numbers)

    def log_trial_save(self, trial: Trial) -> None:
        """Log a checkpoint as an artifact, where that was asked for."""
        if self._uploads and trial.checkpoint is not None:
            artifact = self._wandb.Artifact(f"checkpoint_{trial.trial_id}", "model")
            with trial.checkpoint.as_directory() as folder:
                artifact.add_dir(folder)
            self._runs[trial.trial_id].log_artifact(artifact)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """End the run."""
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.finish(exit_code=int(failed))


def setup_wandb(
    config: dict[str, Any] | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,
    **kwargs: Any,
) -> Any:
    """Start a run of Weights & Biases in the function of a trial or a worker, and return it.

    Parameters
    ----------
    config : dict, optional
        Logged as the run's config.
    rank_zero_only : bool, default True
        Whether only rank 0 logs; others get a run that is disabled.
    **kwargs
        Further arguments of ``wandb.init``.

    Raises
    ------
    ImportError
        When wandb is not installed.

    Notes
    -----
    Ray source: ``ray.air.integrations.wandb.setup_wandb``, 2.60.0.
    """
    from raycompat._old.train.session import world_rank
    from raycompat.tune.trainable import session

    wandb = require("wandb", "setup_wandb")
    if rank_zero_only and world_rank() != 0:
        return wandb.init(mode="disabled")
    _set_key(api_key, api_key_file)
    if session.is_in_trial():
        context = session.get_context()
        kwargs.setdefault("id", context.get_trial_id())
        kwargs.setdefault("name", context.get_trial_name())
        kwargs.setdefault("group", context.get_experiment_name())
    return wandb.init(config=config, **{"resume": "allow", **kwargs})


class _WithSettings(WandbLoggerCallback):
    """Log trials that have the settings in their configs."""

    _hidden = WandbLoggerCallback._hidden | {_SETTINGS}


class WandbLogger(Logger):
    """Log a trial as a run of Weights & Biases, by the settings in its config.

    They are the value of ``wandb``, in the config or in its ``logger_config``: options of
    `WandbLoggerCallback`.

    Raises
    ------
    ValueError
        When there are no settings.

    Notes
    -----
    Ray source: ``ray.tune.integration.wandb.WandbLogger``, 1.12.1. No known difference.
    """

    def _init(self) -> None:
        settings = {**self.config.get("logger_config", {}), **self.config}.get(_SETTINGS)
        if not isinstance(settings, dict):
            raise ValueError(
                f"WandbLogger: the config has {_SETTINGS!r}: {settings!r}. Expected a dict, such as "
                "config={'wandb': {'project': 'mine'}}."
            )
        self._callback = _WithSettings(**settings)
        assert self.trial is not None
        self._callback.log_trial_start(self.trial)

    def on_result(self, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        assert self.trial is not None
        self._callback.log_trial_result(result["training_iteration"], self.trial, result)

    def close(self) -> None:
        """End the run."""
        assert self.trial is not None
        self._callback.log_trial_end(self.trial)
