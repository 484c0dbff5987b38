"""`SklearnTrainer`, `SklearnCheckpoint` and `SklearnPredictor` of 2.0 to 2.9."""

from __future__ import annotations

import inspect
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import cloudpickle

from raycompat import train
from raycompat._old.train.predictors import OfColumns, preprocessor_of
from raycompat._old.train.tables import table
from raycompat._old_forms.packages import require
from raycompat._old_forms.train.options import preprocessor as preprocess
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._framework_checkpoint import FrameworkCheckpoint
from raycompat.train.data_parallel_trainer import DataParallelTrainer

__all__ = ["SklearnCheckpoint", "SklearnPredictor", "SklearnTrainer"]

#: The name of the scores of a cross-validation in the results.
_CV = "cv"

#: The column of the rows' groups for a cross-validation; no feature of the model.
_GROUPS = "cv_groups"

#: Parameters of estimators that say how many CPUs they use.
_CPUS = ("n_jobs", "thread_count")


class SklearnCheckpoint(FrameworkCheckpoint):
    """A checkpoint that is an estimator of scikit-learn."""

    MODEL_FILENAME = "model.pkl"

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, path: str | os.PathLike[str] | None = None, preprocessor: Any = None
    ) -> Self:
        """Save an estimator, in a folder that exists; by default in a new temporary folder."""
        folder = Path(path or tempfile.mkdtemp(prefix="checkpoint-"))
        (folder / cls.MODEL_FILENAME).write_bytes(cloudpickle.dumps(estimator))
        checkpoint = cls(str(folder))
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint

    def get_estimator(self) -> Any:
        """Return the estimator. Loading can run code that is in the checkpoint."""
        with self.as_directory() as folder:
            return cloudpickle.loads((Path(folder) / self.MODEL_FILENAME).read_bytes())

    get_model = get_estimator


class SklearnPredictor(OfColumns):
    """Predicts with an estimator of scikit-learn."""

    def __init__(self, estimator: Any, preprocessor: Any = None) -> None:
        super().__init__(estimator, preprocessor)
        self.estimator = estimator

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Self:
        """Make the predictor of a checkpoint of `SklearnTrainer`."""
        found = SklearnCheckpoint(checkpoint.path, checkpoint.filesystem)
        return cls(found.get_estimator(), preprocessor_of(checkpoint))

    def call_model(self, frame: Any, num_estimator_cpus: int | None = None, **kwargs: Any) -> Any:
        """Return the predictions for columns."""
        if num_estimator_cpus is not None:
            _use_cpus(self.estimator, num_estimator_cpus)
        return self.estimator.predict(frame, **kwargs)


class SklearnTrainer(DataParallelTrainer):
    """Fits an estimator of scikit-learn in one process, and evaluates it on the other data sets.

    Parameters
    ----------
    estimator : sklearn.base.BaseEstimator
        Is cloned by its pickle: the program's own object stays as it is.
    datasets : dict
        Data sets by name; ``"train"`` is fitted. A column ``"cv_groups"`` is not a feature: it has the
        groups of rows for cross-validation. The name ``"cv"`` is refused.
    label_column : str, optional
        The column that is predicted. None for an estimator without labels: nothing is scored then.
    params : dict, optional
        Set on the estimator.
    scoring : str, callable, list or dict, optional
        As scikit-learn's functions take it. By default the estimator's own score. A score that fails on
        a data set is NaN, with a warning.
    cv : int or splitter, optional
        Cross-validates on the data set ``"train"``, too.
    return_train_score_cv : bool, default False
        Whether cross-validation scores the rows that were fitted, too.
    parallelize_cv : bool, optional
        Whether the CPUs are used by cross-validation, and not by the estimator. By default they are if
        the estimator has no ``n_jobs`` and no ``thread_count``.
    set_estimator_cpus : bool, default True
        Whether ``n_jobs`` and ``thread_count`` of the estimator are the number of CPUs.
    scaling_config : ScalingConfig, optional
        ``trainer_resources`` are the resources of the process.
    run_config : RunConfig, optional
    preprocessor : Preprocessor, optional
        Fitted on ``"train"``; transforms all data sets.
    **fit_params
        Keywords of ``estimator.fit``, also in cross-validation.
    """

    _also_searched: ClassVar[dict[str, str]] = {"params": "train_loop_config"}

    def __init__(
        self,
        *,
        estimator: Any,
        datasets: dict[str, Any],
        label_column: str | None = None,
        params: dict[str, Any] | None = None,
        scoring: Any = None,
        cv: Any = None,
        return_train_score_cv: bool = False,
        parallelize_cv: bool | None = None,
        set_estimator_cpus: bool = True,
        scaling_config: Any = None,
        run_config: Any = None,
        preprocessor: Any = None,
        metadata: dict[str, Any] | None = None,
        **fit_params: Any,
    ) -> None:
        require("sklearn", "SklearnTrainer")
        if train.TRAIN_DATASET_KEY not in datasets:
            raise KeyError(
                f"datasets= of SklearnTrainer has the names {list(datasets)}: expected one of the "
                "name 'train'."
            )
        if _CV in datasets:
            raise KeyError(
                "datasets= of SklearnTrainer has the name 'cv': expected another one, because the "
                "results of cross-validation have it."
            )
        given: dict[str, Any] = {"datasets": datasets, "run_config": run_config}
        preprocess(given, preprocessor)
        resources = dict(getattr(scaling_config, "trainer_resources", None) or {"CPU": 1})
        function = FitsEstimator(
            estimator=cloudpickle.dumps(estimator),
            names=tuple(datasets),
            label_column=label_column,
            scoring=scoring,
            cv=cv,
            return_train_score=return_train_score_cv,
            parallelize_cv=parallelize_cv,
            num_cpus=max(int(resources.get("CPU", 1)), 1),
            set_estimator_cpus=set_estimator_cpus,
            fit_params=fit_params,
        )
        super().__init__(
            function,
            train_loop_config=dict(params or {}),
            scaling_config=train.ScalingConfig(num_workers=1, resources_per_worker=resources),
            metadata=metadata,
            **given,
        )

    @classmethod
    def _from_arguments(cls, arguments: dict[str, Any]) -> Any:
        return DataParallelTrainer(**arguments)  # its function has all else

    @staticmethod
    def get_model(checkpoint: Checkpoint) -> Any:
        """Return the estimator of a checkpoint."""
        return SklearnCheckpoint(checkpoint.path, checkpoint.filesystem).get_estimator()


@dataclass(frozen=True)
class FitsEstimator:
    """The function of the worker: fits, evaluates, and reports both with the estimator."""

    #: Pickled.
    estimator: bytes
    #: The data sets' names.
    names: tuple[str, ...]
    label_column: str | None
    scoring: Any
    cv: Any
    return_train_score: bool
    parallelize_cv: bool | None
    num_cpus: int
    set_estimator_cpus: bool
    fit_params: dict[str, Any]

    def __call__(self, params: dict[str, Any]) -> None:
        estimator = cloudpickle.loads(self.estimator).set_params(**params)
        is_scored = self.label_column is not None
        is_parallel = is_scored and self._parallelizes_cv(estimator)
        if self.set_estimator_cpus:
            _use_cpus(estimator, 1 if is_parallel else self.num_cpus)
        tables = {name: table(name, self.label_column) for name in self.names}
        groups = {name: rows.pop(_GROUPS) for name, (rows, _) in tables.items() if _GROUPS in rows}
        trained = tables.pop(train.TRAIN_DATASET_KEY)
        scorers = self._scorers(estimator) if is_scored and tables else {}
        results: dict[str, Any] = {}
        if is_scored and self.cv:
            results[_CV] = self._cross_validated(
                estimator,
                *trained,
                groups=groups.get(train.TRAIN_DATASET_KEY),
                n_jobs=self.num_cpus if is_parallel else 1,
            )
        begin = time.monotonic()
        estimator.fit(*trained, **self.fit_params)
        results["fit_time"] = time.monotonic() - begin
        for name in tables if is_scored else ():
            begin = time.monotonic()
            scores = _scores(scorers, estimator, name, *tables[name])
            results[name] = {**scores, "score_time": time.monotonic() - begin}
        train.report(results, checkpoint=SklearnCheckpoint.from_estimator(estimator))

    def _parallelizes_cv(self, estimator: Any) -> bool:
        if self.parallelize_cv is None:
            return bool(self.cv) and not _cpu_parameters(estimator)
        return bool(self.cv) and self.parallelize_cv

    def _scorers(self, estimator: Any) -> dict[str, Callable[..., Any]]:
        check = require("sklearn.metrics", "SklearnTrainer").check_scoring
        return {name: check(estimator, each) for name, each in _named(self.scoring).items()}

    def _cross_validated(self, estimator: Any, *trained: Any, **options: Any) -> dict[str, Any]:
        validate = require("sklearn.model_selection", "SklearnTrainer").cross_validate
        # scikit-learn 1.4 renamed it.
        keywords = "params" if "params" in inspect.signature(validate).parameters else "fit_params"
        found = validate(
            estimator,
            *trained,
            scoring=self.scoring,
            cv=self.cv,
            return_train_score=self.return_train_score,
            **{keywords: self.fit_params or None},
            **options,
        )
        return _summarized(found)


def _cpu_parameters(estimator: Any) -> list[str]:
    """Return the names of an estimator's parameters, and its parts', that are numbers of CPUs."""
    return [name for name in estimator.get_params() if name.rpartition("__")[2] in _CPUS]


def _use_cpus(estimator: Any, number: int) -> None:
    """Set the number of CPUs of an estimator and its parts."""
    estimator.set_params(**dict.fromkeys(_cpu_parameters(estimator), number))


def _scores(
    scorers: dict[str, Callable[..., Any]], estimator: Any, name: str, rows: Any, labels: Any
) -> dict[str, Any]:
    """Return the scores on a data set; NaN for one that fails."""
    found: dict[str, Any] = {}
    for key, scorer in scorers.items():
        try:
            score = scorer(estimator, rows, labels)
        except Exception:
            warnings.warn(
                f"The score {key!r} failed on the data set {name!r}, and is NaN: "
                f"{traceback.format_exc()}",
                UserWarning,
                stacklevel=2,
            )
            score = float("nan")
        found.update(score if isinstance(score, Mapping) else {key: score})
    return {f"test_{key}": score for key, score in found.items()}


def _named(scoring: Any) -> dict[str, Any]:
    """Return the ways to score by name; one alone has the name ``"score"``."""
    if isinstance(scoring, Mapping):
        return dict(scoring)
    if isinstance(scoring, list | tuple | set):
        return {name: name for name in scoring}
    return {"score": scoring}


def _summarized(found: dict[str, Any]) -> dict[str, Any]:
    """Add mean and deviation to the arrays of a cross-validation, without parts that failed."""
    numpy = require("numpy", "SklearnTrainer")
    return {
        **found,
        **{f"{name}_mean": numpy.nanmean(values) for name, values in found.items()},
        **{f"{name}_std": numpy.nanstd(values) for name, values in found.items()},
    }
