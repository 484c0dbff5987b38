"""Experiments of Tune in MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raycompat._old_forms.packages import require
from raycompat.tune.logger import LoggerCallback
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial

__all__ = ["MLflowLoggerCallback", "setup_mlflow"]


def _numbers(result: dict[str, Any]) -> dict[str, float]:
    flat = flatten_dict({name: value for name, value in result.items() if name != "config"})
    return {
        name: float(value)
        for name, value in flat.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


class MLflowLoggerCallback(LoggerCallback):
    """Log each trial as a run of MLflow: its config, the numbers of its results, and its files.

    Parameters
    ----------
    tracking_uri, registry_uri : str, optional
        As in MLflow.
    experiment_name : str, optional
        The experiment. By default the name of Tune's.
    tags : dict, optional
        Tags of each run.
    tracking_token : str, optional
        The token for the server.
    save_artifact : bool, default False
        Whether the trial's folder is logged at its end.
    log_params_on_trial_end : bool, default False
        Whether the config is logged at the end, not at the start.

    Raises
    ------
    ImportError
        When MLflow is not installed.

    Notes
    -----
    Ray source: ``ray.air.integrations.mlflow.MLflowLoggerCallback``, 2.60.0.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        mlflow = require("mlflow", "MLflowLoggerCallback")
        if tracking_token:
            import os

            os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
        self._client = mlflow.MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri)
        self._experiment_name, self._tags = experiment_name, tags or {}
        self._saves, self._params_at_end = save_artifact, log_params_on_trial_end
        self._runs: dict[str, str] = {}

    def _experiment_id(self, trial: Trial) -> str:
        name = self._experiment_name or trial.experiment_dir_name
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found else self._client.create_experiment(name))

    def log_trial_start(self, trial: Trial) -> None:
        """Begin a run, or go on with that of a trial which starts again."""
        if trial.trial_id in self._runs:
            return
        tags = {**self._tags, "trial_name": str(trial)}
        run = self._client.create_run(self._experiment_id(trial), tags=tags, run_name=str(trial))
        self._runs[trial.trial_id] = run.info.run_id
        if not self._params_at_end:
            self._log_params(trial)

    def _log_params(self, trial: Trial) -> None:
        for name, value in flatten_dict(trial.config).items():
            self._client.log_param(self._runs[trial.trial_id], name, value)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Log the numbers of a result."""
        step = result.get("timesteps_total") or result["training_iteration"]
        for name, value in _numbers(result).items():
            self._client.log_metric(self._runs[trial.trial_id], name, value, step=step)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """End the run."""
        run = self._runs.get(trial.trial_id)
        if run is None:
            return
        if self._params_at_end:
            self._log_params(trial)
        if self._saves:
            self._client.log_artifacts(run, trial.path)
        self._client.set_terminated(run, status="FAILED" if failed else "FINISHED")


def setup_mlflow(
    config: dict[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,
    tags: dict[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> Any:
    """Start a run of MLflow in the function of a trial or a worker, and return the module ``mlflow``.

    Parameters
    ----------
    config : dict, optional
        Logged as parameters.
    rank_zero_only : bool, default True
        Whether only rank 0 logs.

    Other parameters are MLflow's.

    Raises
    ------
    ImportError
        When MLflow is not installed.

    Notes
    -----
    Ray source: ``ray.air.integrations.mlflow.setup_mlflow``, 2.60.0. Differs from Ray: other ranks
    than 0 get the module without a run.
    """
    import os

    from raycompat._old.train.session import world_rank
    from raycompat.tune.trainable import session

    mlflow = require("mlflow", "setup_mlflow")
    if rank_zero_only and world_rank() != 0:
        return mlflow
    if tracking_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
    if tracking_uri:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri:
        mlflow.set_registry_uri(registry_uri)
    name = experiment_name
    if session.is_in_trial():
        context = session.get_context()
        name, run_name = name or context.get_experiment_name(), run_name or context.get_trial_name()
    mlflow.set_experiment(
        experiment_id=experiment_id, experiment_name=None if experiment_id else name
    )
    mlflow.start_run(run_name=run_name, tags=tags, nested=True)
    if config:
        mlflow.log_params(flatten_dict({k: v for k, v in config.items() if k != "mlflow"}))
    return mlflow
