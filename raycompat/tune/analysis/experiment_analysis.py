"""`ExperimentAnalysis`: the best trial, its config and checkpoint, and tables of all results."""

from __future__ import annotations

import io
import json
import math
import os
from typing import TYPE_CHECKING

from raycompat._old_forms.packages import require
from raycompat._old_forms.tune import modes
from raycompat._old_forms.tune.analysis import OldForms, as_of_the_time
from raycompat._storage import Folder
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.tune.error import TuneError
from raycompat.tune.execution.experiment_state import JOURNAL, load_trials
from raycompat.tune.result import EXPR_RESULT_FILE, TRAINING_ITERATION
from raycompat.tune.trainable.nested import flatten_dict

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.fs

    from raycompat.train import Checkpoint
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Config, Metrics


def no_best(trials: list[Trial], metric: str | None) -> str:
    """Return why no trial is the best one: all have failed, or none has reported the metric."""
    errors = [trial for trial in trials if trial.status == "ERROR"]
    if errors and len(errors) == len(trials):
        first = errors[0]
        return (
            f"All {len(trials)} trials failed. The first, {first}, failed with: {first.error!r}. Its "
            f"whole traceback is in {first.error_file}."
        )
    known = sorted({name for trial in trials for name in trial.metric_analysis})
    failed = f" {len(errors)} of {len(trials)} trials failed." if errors else ""
    return f"No trial has a finite {metric!r}. The trials reported {known}.{failed}"


#: How `scope` names the numbers of `Trial.metric_analysis`.
SCOPES = ("last", "avg", "last-5-avg", "last-10-avg", "all")


@forms.takes_old_options_in_constructor("ray.tune.ExperimentAnalysis")
class ExperimentAnalysis(OldForms):
    """The results of an experiment.

    Parameters
    ----------
    experiment_checkpoint_path : str
        The experiment's folder, or a file in it.
    storage_filesystem : optional
        Its file system.
    trials : list of Trial, optional
        By default those of the folder.
    default_metric, default_mode : str, optional
        For the methods that are given none.

    Raises
    ------
    TuneError
        When the folder is not that of an experiment.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def learn(config):
    ...     for step in range(3):
    ...         tune.report({"loss": config["x"] / (step + 1)})
    >>> analysis = tune.run(
    ...     learn,
    ...     name="learn",
    ...     config={"x": tune.grid_search([3, 6])},
    ...     metric="loss",
    ...     mode="min",
    ...     storage_path=tempfile.mkdtemp(),
    ...     verbose=0,
    ... )
    >>> analysis.best_config, analysis.best_result["loss"]
    ({'x': 3}, 1.0)
    >>> analysis.get_best_config(metric="loss", mode="max")
    {'x': 6}
    >>> best = analysis.get_best_trial()
    >>> best is analysis.best_trial, analysis.best_checkpoint is None
    (True, True)
    >>> analysis.best_dataframe["loss"].tolist()
    [3.0, 1.5, 1.0]
    >>> analysis.best_result_df["loss"].tolist()
    [1.0]
    >>> sorted(result["loss"] for result in analysis.results.values())
    [1.0, 2.0]
    >>> sorted(analysis.results_df["loss"])
    [1.0, 2.0]
    >>> analysis.trial_dataframes[best.trial_id]["loss"].tolist()
    [3.0, 1.5, 1.0]
    >>> analysis.get_best_checkpoint(best), analysis.get_last_checkpoint(best)
    (None, None)
    >>> sorted(analysis.dataframe()["loss"])
    [1.0, 2.0]
    >>> sorted(config["x"] for config in analysis.get_all_configs().values())
    [3, 6]
    >>> again = tune.ExperimentAnalysis(analysis.experiment_path)
    >>> again.get_best_config("loss", "min")
    {'x': 3}

    Programs of older Rays find these, too:

    >>> analysis.stats()
    {'num_trials': 2, 'TERMINATED': 2}
    >>> analysis.runner_data() == analysis.stats()
    True
    >>> analysis.get_best_logdir() == best.path
    True
    >>> analysis.best_logdir == best.path
    True
    >>> analysis.get_trial_checkpoints_paths(best)
    []
    >>> tables = analysis.fetch_trial_dataframes()
    >>> tables[best.path]["loss"].tolist()
    [3.0, 1.5, 1.0]

    Notes
    -----
    Ray source: ``ray.tune.ExperimentAnalysis``, 2.60.0. Experiments of Ray itself cannot be read.
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | os.PathLike[str],
        *,
        storage_filesystem: pyarrow.fs.FileSystem | None = None,
        trials: list[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
    ) -> None:
        path = os.fspath(experiment_checkpoint_path)
        if os.path.basename(path) == JOURNAL:
            path = os.path.dirname(path)
        self._folder = Folder(path, storage_filesystem)
        self.trials: list[Trial] = load_trials(self._folder) if trials is None else trials
        if default_mode is not None and default_mode not in ("min", "max"):
            raise ValueError(f"default_mode={default_mode!r}: expected 'min' or 'max'.")
        self.default_metric, self.default_mode = default_metric, default_mode
        self._dataframes: dict[str, pd.DataFrame] = {}

    @property
    def experiment_path(self) -> str:
        """The path of the experiment's folder."""
        return self._folder.path

    @property
    def trial_dataframes(self) -> dict[str, pd.DataFrame]:
        """All results of each trial, by its id."""
        return {trial.trial_id: self.dataframe_of(trial) for trial in self.trials}

    def dataframe_of(self, trial: Trial) -> pd.DataFrame:
        """Return the results of a trial, one a row; read once."""
        if trial.trial_id not in self._dataframes:
            self._dataframes[trial.trial_id] = self._read_dataframe(trial)
        return self._dataframes[trial.trial_id]

    def _read_dataframe(self, trial: Trial) -> pd.DataFrame:
        pandas = require("pandas", "ExperimentAnalysis")
        if not trial.folder.exists(EXPR_RESULT_FILE):
            return pandas.DataFrame()
        lines = io.BytesIO(trial.folder.read(EXPR_RESULT_FILE))
        rows = [flatten_dict(json.loads(line)) for line in lines if line.endswith(b"\n")]
        return pandas.json_normalize(rows, sep="/") if rows else pandas.DataFrame()

    def _metric_and_mode(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        metric, mode = modes.completed(metric or self.default_metric, mode or self.default_mode)
        if not metric or not mode:
            raise ValueError(
                f"metric={metric!r}, mode={mode!r}: pass both here, or to TuneConfig or tune.run."
            )
        if mode not in ("min", "max"):
            raise ValueError(f"mode={mode!r}: expected 'min' or 'max'.")
        return metric, mode

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Trial | None:
        """Return the trial with the best score; None when none has one.

        If the experiment has only one trial, that one is the best.

        Parameters
        ----------
        metric, mode : str, optional
            By default those of the experiment.
        scope : {"last", "all", "avg", "last-5-avg", "last-10-avg"}, default "last"
            Which of a trial's scores counts; "all" is its best.
        filter_nan_and_inf : bool, default True
            Whether scores that are not finite are left out.

        Raises
        ------
        ValueError
            When the metric or mode is missing, or the scope is unknown.
        """
        if len(self.trials) == 1:
            return self.trials[0]
        metric, mode = self._metric_and_mode(metric, mode)
        if scope not in SCOPES:
            raise ValueError(f"scope={scope!r}: expected one of {SCOPES}.")
        field = mode if scope == "all" else scope
        scored = [
            (trial.metric_analysis[metric][field], trial)
            for trial in self.trials
            if metric in trial.metric_analysis
        ]
        if filter_nan_and_inf:
            scored = [entry for entry in scored if math.isfinite(entry[0])]
        pick = max if mode == "max" else min
        return pick(scored, key=lambda entry: entry[0])[1] if scored else None

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> Config | None:
        """Return the config of the best trial; None when there is none."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint of a trial whose result is the best; None when it has none.

        Without a metric, the last one.
        """
        metric = metric or self.default_metric or TRAINING_ITERATION
        metric, mode = self._metric_and_mode(metric, mode)
        scored = [
            (flatten_dict(entry.metrics)[metric], entry.checkpoint)
            for entry in trial.checkpoints.ranked
            if metric in flatten_dict(entry.metrics)
        ]
        pick = max if mode == "max" else min
        found = pick(scored, key=lambda entry: entry[0])[1] if scored else None
        kept: Checkpoint | None = as_of_the_time(found)
        return kept

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = TRAINING_ITERATION, mode: str = "max"
    ) -> Checkpoint | None:
        """Return the last checkpoint of a trial; by default of the one that trained longest."""
        trial = trial or self.get_best_trial(metric, mode)
        kept: Checkpoint | None = as_of_the_time(None if trial is None else trial.checkpoint)
        return kept

    def _best(self) -> Trial:
        metric, mode = self._metric_and_mode(None, None)
        best = self.get_best_trial(metric, mode)
        if best is None:
            raise TuneError(no_best(self.trials, metric))
        return best

    @property
    def best_trial(self) -> Trial:
        """The best trial, by the experiment's metric and mode."""
        return self._best()

    @property
    def best_config(self) -> Config:
        """The config of the best trial."""
        return self._best().config

    @property
    def best_result(self) -> Metrics:
        """The last result of the best trial."""
        return self._best().last_result

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best checkpoint of the best trial."""
        return self.get_best_checkpoint(self._best())

    @property
    def best_dataframe(self) -> pd.DataFrame:
        """All results of the best trial."""
        return self.dataframe_of(self._best())

    @property
    def best_result_df(self) -> pd.DataFrame:
        """The last result of the best trial, as a table of one row."""
        return require("pandas", "ExperimentAnalysis").DataFrame.from_records(
            [flatten_dict(self.best_result)], index="trial_id"
        )

    @property
    def results(self) -> dict[str, Metrics]:
        """The last result of each trial, by its id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> pd.DataFrame:
        """The last results of all trials, one a row."""
        rows = [flatten_dict({"trial_id": k, **result}) for k, result in self.results.items()]
        return require("pandas", "ExperimentAnalysis").DataFrame.from_records(
            rows, index="trial_id"
        )

    def get_all_configs(self, prefix: bool = False) -> dict[str, Config]:
        """Return the config of each trial, by its id; with `prefix` the names begin with
        ``config/``.
        """
        return {
            trial.trial_id: {f"config/{k}": v for k, v in trial.config.items()}
            if prefix
            else trial.config
            for trial in self.trials
        }

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pd.DataFrame:
        """Return one result of each trial, with its config and folder.

        Parameters
        ----------
        metric, mode : str, optional
            The result with the best value. Without `mode` the last one.
        """
        if mode not in (None, "min", "max") or (mode is not None and metric is None):
            raise ValueError(
                f"metric={metric!r}, mode={mode!r}: expected a metric and mode 'min' or 'max', or no "
                "mode for the last results."
            )
        pandas = require("pandas", "ExperimentAnalysis")
        rows = [self._chosen_row(trial, mode and metric, mode) for trial in self.trials]
        return pandas.DataFrame.from_records([row for row in rows if row])

    def _chosen_row(self, trial: Trial, metric: str | None, mode: str | None) -> Metrics:
        result = trial.last_result
        if metric is not None:
            rows = self.dataframe_of(trial)
            if metric not in rows:
                return {}
            values = rows[metric]
            result = rows.iloc[values.idxmax() if mode == "max" else values.idxmin()].to_dict()
        if not result:
            return {}
        row = {
            name: v for name, v in flatten_dict(result).items() if not name.startswith("config/")
        }
        row.update({f"config/{name}": v for name, v in flatten_dict(trial.config).items()})
        row["logdir"] = trial.path
        row.pop("config", None)
        return row


#: Names of older Rays.
__getattr__ = names_of(__name__)
