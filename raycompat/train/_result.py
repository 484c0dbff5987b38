"""The result of a run: `TrialResult`, which Tune uses too, and Train's `Result`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raycompat import _storage
from raycompat._surface import forms
from raycompat._upper import upper
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._checkpoint_registry import lookup
from raycompat.train._run_state import STATE_FILE, RunState

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.fs

    from raycompat.train._types import Config, Metrics


@dataclass(repr=False)
class TrialResult:
    """The result of a run or a trial.

    Parameters
    ----------
    metrics : dict, optional
        The last metrics that were reported.
    checkpoint : Checkpoint, optional
        The last checkpoint.
    error : Exception, optional
        Why it failed.
    path : str
        Its folder, on `filesystem`.
    metrics_dataframe : pandas.DataFrame, optional
        Metrics of all reports, one row each.
    best_checkpoints : list of (Checkpoint, dict), optional
        The checkpoints that were kept, with their metrics, the best last.
    """

    metrics: Metrics | None
    checkpoint: Checkpoint | None
    error: Exception | None
    path: str | None
    metrics_dataframe: pd.DataFrame | None = None
    best_checkpoints: list[tuple[Checkpoint, Metrics]] | None = None
    _storage_filesystem: pyarrow.fs.FileSystem | None = None

    _items_to_repr: ClassVar[list[str]] = ["error", "metrics", "path", "filesystem", "checkpoint"]

    @property
    def config(self) -> Config | None:
        """The hyperparameters of the trial; None without metrics."""
        return self.metrics.get("config") if self.metrics else None

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], storage_filesystem: object = None
    ) -> TrialResult:
        """Read the result of a run of Train, or of a trial, from its folder.

        Parameters as in `raycompat.train.Result.from_path`.
        """
        folder = _storage.Folder(path, storage_filesystem)
        kind = Result if folder.exists(STATE_FILE) else upper("tune.result_grid").Result
        found: TrialResult = kind.from_path(path, storage_filesystem)
        return found

    @property
    def log_dir(self) -> Path | None:
        """`path`, as in Ray 2.0 to 2.6."""
        forms.used("ray.train.Result.log_dir", refusal=AttributeError)
        return None if self.path is None else Path(self.path)

    @property
    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The pyarrow file system of `path`.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import train
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> config = train.RunConfig(storage_path=tempfile.mkdtemp())
        >>> result = DataParallelTrainer(lambda: None, run_config=config).fit()
        >>> result.filesystem.type_name, result.path.startswith(config.storage_path)
        ('local', True)
        """
        return _storage.as_pyarrow(self._storage_filesystem or _storage.resolve("/")[0])

    def _shown(self) -> dict[str, Any]:
        """Return the fields of the repr, by name."""
        shown = {name: getattr(self, name) for name in self._items_to_repr}
        shown["filesystem"] = shown["filesystem"].type_name
        if self.error is None:
            del shown["error"]
        else:
            shown["error"] = type(self.error).__name__
        return shown

    def _repr(self, indent: int = 0) -> str:
        space = " " * indent
        lines = ",\n".join(f"{space}  {name}={value!r}" for name, value in self._shown().items())
        return f"{space}{type(self).__name__}(\n{lines}\n{space})"

    def __repr__(self) -> str:
        return self._repr()

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """Return the checkpoint with the highest or lowest value of a metric.

        Parameters
        ----------
        metric : str
            Name of the metric; ``outer/inner`` for one in nested dicts.
        mode : {"max", "min"}
            Whether high or low values are better.

        Raises
        ------
        RuntimeError
            When the run has no checkpoint, or none with the metric.
        ValueError
            When `mode` is not "max" or "min".

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import train
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> def save():
        ...     for loss in (0.5, 0.25, 0.75):
        ...         with tempfile.TemporaryDirectory() as folder:
        ...             checkpoint = train.Checkpoint(folder)
        ...             checkpoint.set_metadata({"loss": loss})
        ...             train.report({"loss": loss}, checkpoint=checkpoint)
        >>> run_config = train.RunConfig(storage_path=tempfile.mkdtemp())
        >>> result = DataParallelTrainer(save, run_config=run_config).fit()
        >>> result.get_best_checkpoint("loss", "min").get_metadata()
        {'loss': 0.25}
        """
        if not self.best_checkpoints:
            raise RuntimeError("The run has kept no checkpoint, so there is no best one.")
        if mode not in ("max", "min"):
            raise ValueError(f"mode={mode!r}: expected 'max' or 'min'.")
        scored = [
            (lookup(metric, metrics), checkpoint)
            for checkpoint, metrics in self.best_checkpoints
            if lookup(metric, metrics) is not None
        ]
        if not scored:
            names = sorted({name for _, metrics in self.best_checkpoints for name in metrics})
            raise RuntimeError(
                f"No checkpoint has the metric {metric!r}. Metrics of the checkpoints: {names}."
            )
        choose = max if mode == "max" else min
        return choose(scored, key=lambda pair: pair[0])[1]


TrialResult.__name__ = TrialResult.__qualname__ = "Result"
TrialResult.__module__ = "raycompat.air"


@dataclass
class Result(TrialResult):
    """The result of `fit`.

    Parameters
    ----------
    metrics : dict or None
        The metrics of rank 0 with the last checkpoint; without checkpoints, its last metrics.
    checkpoint : Checkpoint or None
        The last checkpoint.
    error : TrainingFailedError or None
        Why the run failed.
    path : str
        The run's folder, on `filesystem`.
    metrics_dataframe : pandas.DataFrame, optional
        The metrics of `best_checkpoints`, one row each; without checkpoints, those of all reports.
    best_checkpoints : list of (Checkpoint, dict), optional
        The kept checkpoints with their metrics; the best is last, if there is a score.
    return_value : object, optional
        The result of the training function of rank 0.

    Examples
    --------
    >>> import tempfile
    >>> from raycompat import train
    >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
    >>> def learn():
    ...     train.report({"loss": 0.5})
    ...     return "learned"
    >>> result = DataParallelTrainer(
    ...     learn, run_config=train.RunConfig(storage_path=tempfile.mkdtemp())
    ... ).fit()
    >>> result.metrics["loss"], result.checkpoint, result.return_value
    (0.5, None, 'learned')

    Notes
    -----
    Ray source: ``ray.train.Result``, 2.60.0. Differs: without any checkpoint Ray has no metrics.
    """

    return_value: Any = None

    def __post_init__(self) -> None:
        rows = self.metrics_dataframe
        if isinstance(
            rows, list
        ):  # becomes a table when it is looked at: pandas takes long to import
            del self.__dict__["metrics_dataframe"]
            self._rows = rows

    def __getattribute__(self, name: str) -> Any:
        if name == "metrics_dataframe" and "_rows" in self.__dict__:
            self.__dict__["metrics_dataframe"] = _frame(self.__dict__.pop("_rows"))
        return super().__getattribute__(name)

    @property
    def config(self) -> Config | None:
        """Not supported, because a run of Train has no hyperparameters.

        Examples
        --------
        >>> from raycompat import train
        >>> result = train.Result({"loss": 0.5}, checkpoint=None, error=None, path=".")
        >>> result.config
        Traceback (most recent call last):
        DeprecationWarning: ... results of Tune have it. Keep the train_loop_config ...
        """
        raise DeprecationWarning(
            "Result.config: Ray has removed this from Train; results of Tune have it. Keep the "
            "train_loop_config that you have passed."
        )

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], storage_filesystem: pyarrow.fs.FileSystem | None = None
    ) -> Result:
        """Read the result of a run, of this or another process.

        Parameters
        ----------
        path : str or path-like
            The run's folder, a `Result.path`, or its URI.
        storage_filesystem : pyarrow or fsspec file system, optional
            Where the folder is.

        Raises
        ------
        RuntimeError
            When the folder does not exist, or does not belong to a run of Train.

        Examples
        --------
        >>> import tempfile
        >>> from raycompat import train
        >>> from raycompat.train.data_parallel_trainer import DataParallelTrainer
        >>> def save():
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         train.report({"loss": 0.5}, checkpoint=train.Checkpoint(folder))
        >>> run_config = train.RunConfig(storage_path=tempfile.mkdtemp())
        >>> path = DataParallelTrainer(save, run_config=run_config).fit().path
        >>> train.Result.from_path(path).metrics  # in another process, or a week later
        {'loss': 0.5}
        """
        folder = _storage.Folder(path, storage_filesystem)
        if not folder.exists():
            raise RuntimeError(f"{folder.uri} does not exist: expected the folder of a run.")
        return Result(**RunState.load(folder).result_fields())


def _frame(rows: list[Metrics]) -> pd.DataFrame:
    """Return a table of metrics; None when there are none."""
    if not rows:
        return None
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "Result.metrics_dataframe is a table of pandas, which is not installed: pip install pandas."
        ) from error
    return pd.DataFrame(rows)


Result.__module__ = "raycompat.train"
