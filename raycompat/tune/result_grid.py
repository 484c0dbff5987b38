"""`ResultGrid`: the results of all trials, as `Tuner.fit` returns them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from raycompat.train._result import TrialResult
from raycompat.tune.analysis.experiment_analysis import no_best
from raycompat.tune.result import ADDED_KEYS

if TYPE_CHECKING:
    import os

    import pandas as pd
    import pyarrow.fs

    from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis
    from raycompat.tune.experiment.trial import Trial


class Result(TrialResult):
    """The result of a trial; its table is read at its first use.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def cost(config):
    ...     return {"cost": (config["x"] - 3) ** 2}
    >>> tuner = tune.Tuner(
    ...     cost,
    ...     param_space={"x": 5},
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... )
    >>> result = tuner.fit()[0]
    >>> result.config, result.metrics["cost"], result.error
    ({'x': 5}, 4, None)
    >>> tune.Result.from_path(result.path).metrics["cost"]
    4
    >>> result.metrics_dataframe["cost"].tolist()
    [4]
    """

    _analysis: ExperimentAnalysis | None = None
    _trial: Any = None
    _dataframe: pd.DataFrame | None = None

    @property
    def metrics_dataframe(self) -> pd.DataFrame | None:
        """All results of the trial, one a row."""
        if self._dataframe is None and self._analysis is not None:
            self._dataframe = self._analysis.dataframe_of(self._trial)
        return self._dataframe

    @metrics_dataframe.setter
    def metrics_dataframe(self, value: pd.DataFrame) -> None:
        self._dataframe = value

    def _shown(self) -> dict[str, Any]:
        shown = super()._shown()
        metrics = self.metrics or {}
        shown["metrics"] = {k: v for k, v in metrics.items() if k not in ADDED_KEYS}
        return shown

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], storage_filesystem: pyarrow.fs.FileSystem | None = None
    ) -> Result:
        """Read the result of a trial from its folder.

        Raises
        ------
        RuntimeError
            When the folder is not that of a trial.
        """
        import os

        from raycompat._storage import Folder
        from raycompat.tune.analysis.experiment_analysis import ExperimentAnalysis
        from raycompat.tune.error import TuneError

        folder = Folder(path, storage_filesystem)
        try:
            analysis = ExperimentAnalysis(
                os.path.dirname(folder.path), storage_filesystem=folder.filesystem
            )
            trial = next(t for t in analysis.trials if t.path == folder.path)
        except (TuneError, StopIteration):
            raise RuntimeError(f"{folder.path} is not the folder of a trial.") from None
        return result_of(trial, analysis)


Result.__module__ = "raycompat.tune"


def result_of(trial: Trial, analysis: ExperimentAnalysis) -> Result:
    """Return the result of a trial."""
    result = Result(
        metrics=dict(trial.last_result),
        checkpoint=trial.checkpoint,
        error=trial.get_error(),  # type: ignore[arg-type]
        path=trial.path,
        best_checkpoints=[(e.checkpoint, e.metrics) for e in trial.checkpoints.best],
        _storage_filesystem=trial.experiment_folder.filesystem,
    )
    result._analysis, result._trial = analysis, trial
    return result


class ResultGrid:
    """The results of an experiment's trials.

    Parameters
    ----------
    experiment_analysis : ExperimentAnalysis

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import tune
    >>> def invert(config):
    ...     return {"inverse": 1 / config["x"]}
    >>> results = tune.Tuner(
    ...     invert,
    ...     param_space={"x": tune.grid_search([0, 2, 4])},
    ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
    ... ).fit()
    >>> len(results), results.num_terminated, results.num_errors
    (3, 2, 1)
    >>> [result.metrics["inverse"] for result in results if not result.error]
    [0.5, 0.25]
    >>> type(results.errors[0]).__name__
    'RayTaskError(ZeroDivisionError)'
    >>> results[1].path.startswith(results.experiment_path)
    True
    >>> results.filesystem.type_name
    'local'
    """

    def __init__(self, experiment_analysis: ExperimentAnalysis) -> None:
        self._experiment_analysis = experiment_analysis
        self._results = [
            result_of(trial, experiment_analysis) for trial in experiment_analysis.trials
        ]

    @property
    def experiment_path(self) -> str:
        """The path of the experiment's folder."""
        return self._experiment_analysis.experiment_path

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The pyarrow file system of `experiment_path`."""
        from raycompat._storage import as_pyarrow

        return as_pyarrow(self._experiment_analysis._folder.filesystem)

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """Return the result of the best trial; of the only one when there is one.

        Parameters
        ----------
        metric, mode : str, optional
            By default those of TuneConfig.
        scope : {"last", "all", "avg", "last-5-avg", "last-10-avg"}, default "last"
            Which of a trial's scores counts; "all" is its best.
        filter_nan_and_inf : bool, default True
            Whether scores that are not finite are left out.

        Raises
        ------
        ValueError
            When the metric or mode is missing.
        RuntimeError
            When no trial has such a score.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import tune
        >>> def cost(config):
        ...     return {"loss": (config["x"] - 2) ** 2}
        >>> results = tune.Tuner(
        ...     cost,
        ...     param_space={"x": tune.grid_search([1, 2, 4])},
        ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
        ... ).fit()
        >>> results.get_best_result(metric="loss", mode="min").config
        {'x': 2}
        """
        analysis = self._experiment_analysis
        if len(analysis.trials) == 1:
            return self._results[0]
        best = analysis.get_best_trial(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            why = no_best(analysis.trials, metric or analysis.default_metric)
            raise RuntimeError(
                f"{why} To take NaN and infinite values as scores, pass filter_nan_and_inf=False."
                if any(trial.num_results for trial in analysis.trials)
                else why
            )
        return self._results[analysis.trials.index(best)]

    def get_dataframe(
        self, filter_metric: str | None = None, filter_mode: str | None = None
    ) -> Any:
        """Return a table with a row for each trial: its last result, or its best.

        The best is by `filter_metric` and `filter_mode`, "min" or "max".

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import tune
        >>> def cost(config):
        ...     return {"loss": (config["x"] - 2) ** 2}
        >>> results = tune.Tuner(
        ...     cost,
        ...     param_space={"x": tune.grid_search([1, 2])},
        ...     run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0),
        ... ).fit()
        >>> frame = results.get_dataframe()
        >>> frame[["config/x", "loss"]].values.tolist()
        [[1, 1], [2, 0]]
        """
        return self._experiment_analysis.dataframe(filter_metric, filter_mode)

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: int) -> Result:
        return self._results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @property
    def errors(self) -> list[BaseException]:
        """The errors of the trials that have failed."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """Number of trials that have failed."""
        return sum(t.status == "ERROR" for t in self._experiment_analysis.trials)

    @property
    def num_terminated(self) -> int:
        """Number of trials that have ended without failing."""
        return sum(t.status == "TERMINATED" for t in self._experiment_analysis.trials)

    def __repr__(self) -> str:
        inner = ",\n".join(result._repr(indent=2) for result in self._results)
        return f"ResultGrid<[\n{inner}\n]>"
