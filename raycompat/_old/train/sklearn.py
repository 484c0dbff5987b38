"""`SklearnTrainer`, `SklearnCheckpoint` and `SklearnPredictor` of 2.0 to 2.9."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import cloudpickle

from raycompat import train
from raycompat._old.train.predictors import OfColumns
from raycompat._old_forms.packages import require
from raycompat._old_forms.train.options import preprocessor as preprocess
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._framework_checkpoint import FrameworkCheckpoint
from raycompat.train.data_parallel_trainer import DataParallelTrainer

__all__ = ["SklearnCheckpoint", "SklearnPredictor", "SklearnTrainer"]


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
        return cls(found.get_estimator(), found.get_preprocessor())

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
        Data sets by name; ``"train"`` is fitted.
    label_column : str, optional
        The column that is predicted. None for an estimator without labels.
    params : dict, optional
        Set on the estimator.
    scoring : str, callable, list or dict, optional
        As scikit-learn's functions take it. By default the estimator's own score.
    cv : int or splitter, optional
        Cross-validates on the data set ``"train"``, too.
    return_train_score_cv : bool, default False
        Whether cross-validation scores the rows that were fitted, too.
    parallelize_cv : bool, optional
        Whether the CPUs are used by cross-validation, and not by the estimator. By default they are if
        the estimator has no ``n_jobs``.
    set_estimator_cpus : bool, default True
        Whether ``n_jobs`` of the estimator is the number of CPUs.
    scaling_config : ScalingConfig, optional
        ``trainer_resources`` are the resources of the process.
    run_config : RunConfig, optional
    preprocessor : Preprocessor, optional
        Fitted on ``"train"``; transforms all data sets.
    **fit_params
        Keywords of ``estimator.fit``.
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
        given: dict[str, Any] = {"datasets": datasets}
        preprocess(given, preprocessor)
        resources = dict(getattr(scaling_config, "trainer_resources", None) or {"CPU": 1})
        work = {
            "estimator": cloudpickle.dumps(estimator),
            "names": list(datasets),
            "label_column": label_column,
            "scoring": scoring,
            "cv": cv,
            "train_scores": return_train_score_cv,
            "parallelize_cv": parallelize_cv,
            "num_cpus": max(int(resources.get("CPU", 1)), 1) if set_estimator_cpus else None,
            "preprocessor": preprocessor,
            "fit_params": fit_params,
        }
        super().__init__(
            functools.partial(_fit, work=work),
            train_loop_config=dict(params or {}),
            scaling_config=train.ScalingConfig(num_workers=1, resources_per_worker=resources),
            run_config=run_config,
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


def _use_cpus(estimator: Any, number: int) -> bool:
    """Set each ``n_jobs`` of an estimator and its parts; return whether there is one."""
    names = [
        name for name in estimator.get_params() if name == "n_jobs" or name.endswith("__n_jobs")
    ]
    estimator.set_params(**dict.fromkeys(names, number))
    return bool(names)


def _columns(name: str, label: str | None) -> tuple[Any, Any]:
    shard = train.get_dataset_shard(name)
    assert shard is not None
    rows = shard.materialize().to_pandas()
    return (rows, None) if label is None else (rows.drop(columns=label), rows[label])


def _fit(params: dict[str, Any], work: dict[str, Any]) -> None:
    """Fit, evaluate, and report both with the estimator as a checkpoint: in the worker."""
    metrics = require("sklearn.metrics", "SklearnTrainer")
    model_selection = require("sklearn.model_selection", "SklearnTrainer")
    estimator = cloudpickle.loads(work["estimator"]).set_params(**params)
    jobs = None
    if work["num_cpus"] is not None and work["parallelize_cv"] is not True:
        in_estimator = _use_cpus(estimator, work["num_cpus"])
        jobs = None if in_estimator else work["num_cpus"]
    elif work["num_cpus"] is not None:
        jobs = work["num_cpus"]
    tables = {name: _columns(name, work["label_column"]) for name in work["names"]}
    rows, labels = tables.pop(train.TRAIN_DATASET_KEY)
    results: dict[str, Any] = {}
    if work["cv"]:
        found = model_selection.cross_validate(
            estimator,
            rows,
            labels,
            scoring=work["scoring"],
            cv=work["cv"],
            n_jobs=jobs,
            return_train_score=work["train_scores"],
        )
        results["cv"] = _summarized(found)
    begin = time.monotonic()
    estimator.fit(rows, labels, **work["fit_params"])
    results["fit_time"] = time.monotonic() - begin
    scorers = {
        f"test_{name}": metrics.check_scoring(estimator, each)
        for name, each in _named(work["scoring"]).items()
    }
    for name, table in tables.items():
        begin = time.monotonic()
        scores = {key: scorer(estimator, *table) for key, scorer in scorers.items()}
        results[name] = {**scores, "score_time": time.monotonic() - begin}
    checkpoint = SklearnCheckpoint.from_estimator(estimator, preprocessor=work["preprocessor"])
    train.report(results, checkpoint=checkpoint)


def _named(scoring: Any) -> dict[str, Any]:
    """Return the ways to score by name; one alone has the name ``"score"``."""
    if isinstance(scoring, Mapping):
        return dict(scoring)
    if isinstance(scoring, list | tuple | set):
        return {name: name for name in scoring}
    return {"score": scoring}


def _summarized(found: dict[str, Any]) -> dict[str, Any]:
    """Add mean and deviation to the arrays of a cross-validation."""
    return {
        **found,
        **{f"{name}_mean": values.mean() for name, values in found.items()},
        **{f"{name}_std": values.std() for name, values in found.items()},
    }
