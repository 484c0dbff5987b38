"""Trainers of XGBoost and LightGBM by parameters, without a function, as from 1.12 to 2.48."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from raycompat import train
from raycompat._old.train.tables import table
from raycompat._old_forms.packages import require
from raycompat._surface import table as surface
from raycompat.train._round_reports import MakesCheckpoints

#: Rounds, where the program does not say how many.
_ROUNDS = 10


@dataclass(frozen=True)
class Plan:
    """What the function of a worker does."""

    label_column: str
    num_boost_round: int
    #: The data sets' names.
    names: tuple[str, ...]
    #: More keywords for the library's ``train``.
    keywords: dict[str, Any]
    #: Keywords of ``DMatrix`` by data set.
    matrices: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: The options of the callback that reports.
    reports: dict[str, Any] = field(
        default_factory=lambda: {"frequency": 0, "checkpoint_at_end": True}
    )

    def table(self, name: str) -> tuple[Any, Any]:
        """Return this worker's columns of a data set, and the column that is predicted."""
        return table(name, self.label_column)

    @property
    def others(self) -> list[str]:
        """The data sets that the model is only evaluated on."""
        return [name for name in self.names if name != train.TRAIN_DATASET_KEY]

    def resumed(
        self, load: Callable[[Any], Any], num_rounds_of: Callable[[Any], int]
    ) -> tuple[Any, int]:
        """Return the model of the last checkpoint, or None, and the number of rounds that are left."""
        checkpoint = train.get_checkpoint()
        if checkpoint is None:
            return None, self.num_boost_round
        model = load(checkpoint)
        return model, self.num_boost_round - num_rounds_of(model)

    def callbacks(self, cls: Callable[..., Any]) -> list[Any]:
        """Return the program's callbacks, and one that reports if none of them does."""
        given = list(self.keywords.get("callbacks") or ())
        if any(isinstance(each, cls) for each in given if isinstance(cls, type)):
            return given
        return [*given, cls(**self.reports)]


@dataclass(frozen=True)
class TrainsTrees(MakesCheckpoints):
    """The function of a worker."""

    library: Callable[[dict[str, Any], Plan], None]
    plan: Plan

    def __call__(self, params: dict[str, Any], /) -> None:
        self.library(params, self.plan)

    def with_checkpoints(self, config: Any) -> Self:
        reports = dict(self.plan.reports)
        frequency = getattr(config, "checkpoint_frequency", None)
        at_end = getattr(config, "checkpoint_at_end", None)
        if isinstance(frequency, int) and frequency > 0:
            reports["frequency"] = frequency
        if isinstance(at_end, bool):
            reports["checkpoint_at_end"] = at_end
        return replace(self, plan=replace(self.plan, reports=reports))


def train_xgboost(params: dict[str, Any], plan: Plan) -> None:
    """Train with XGBoost, in a worker; go on from a checkpoint."""
    xgboost = require("xgboost", "XGBoostTrainer")
    from raycompat.train.xgboost import RayTrainReportCallback

    def matrix(name: str) -> Any:
        rows, labels = plan.table(name)
        return xgboost.DMatrix(rows, label=labels, **plan.matrices.get(name, {}))

    model, rounds = plan.resumed(
        RayTrainReportCallback.get_model, lambda model: model.num_boosted_rounds()
    )
    if rounds <= 0:  # all are in the checkpoint
        return
    rows = matrix(train.TRAIN_DATASET_KEY)
    xgboost.train(
        params,
        rows,
        num_boost_round=rounds,
        xgb_model=model,
        **{
            **plan.keywords,
            "evals": [
                (rows, train.TRAIN_DATASET_KEY),
                *((matrix(name), name) for name in plan.others),
            ],
            "callbacks": plan.callbacks(RayTrainReportCallback),
        },
    )


def train_lightgbm(params: dict[str, Any], plan: Plan) -> None:
    """Train with LightGBM, in a worker; go on from a checkpoint."""
    lightgbm = require("lightgbm", "LightGBMTrainer")
    from raycompat.train.lightgbm import (
        RayTrainReportCallback,
        get_network_params,
        normalize_pandas_for_lightgbm,
    )

    def rows_of(name: str) -> Any:
        rows, labels = plan.table(name)
        label = normalize_pandas_for_lightgbm(labels.to_frame())[plan.label_column]
        return lightgbm.Dataset(normalize_pandas_for_lightgbm(rows), label=label)

    model, rounds = plan.resumed(
        RayTrainReportCallback.get_model, lambda model: model.current_iteration()
    )
    if rounds <= 0:  # all are in the checkpoint
        return
    rows = rows_of(train.TRAIN_DATASET_KEY)
    together: dict[str, Any] = {}
    if (
        train.get_context().get_world_size() > 1
    ):  # or else each worker builds trees from its own rows
        together = {"tree_learner": "data_parallel", "pre_partition": True}
    lightgbm.train(
        {**together, **params, **get_network_params()},
        rows,
        num_boost_round=rounds,
        init_model=model,
        **{
            **plan.keywords,
            "valid_sets": [rows, *(rows_of(name) for name in plan.others)],
            "valid_names": [train.TRAIN_DATASET_KEY, *plan.others],
            "callbacks": plan.callbacks(RayTrainReportCallback),
        },
    )


def with_function(of: str, init: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return a trainer's keywords with a function, in place of the library's parameters.

    Parameters
    ----------
    of : str
        The trainer's dotted name in Ray.
    init : callable
        Its constructor. Keywords that it does not know go to the library's ``train``.
    given : dict
        The program's keywords.

    Raises
    ------
    KeyError
        When there is no data set with the name ``"train"``.
    TypeError
        When there is no `label_column`.
    """
    known = {*inspect.signature(init).parameters, *surface.options(of)}
    passed = {name: value for name, value in given.items() if name in known}
    label, params = passed.pop("label_column", None), passed.pop("params")
    if label is None:
        raise TypeError(f"{of} needs label_column=, the name of the column that is predicted.")
    datasets = passed.get("datasets") or {}
    if train.TRAIN_DATASET_KEY not in datasets:
        raise KeyError(
            f"datasets= of {of} has the names {list(datasets)}: expected one with the name 'train'."
        )
    plan = Plan(
        label_column=label,
        num_boost_round=passed.pop("num_boost_round", None) or _ROUNDS,
        names=tuple(datasets),
        keywords={
            name: value
            for name, value in given.items()
            if name not in known and name != "dmatrix_params"
        },
        matrices=given.get("dmatrix_params") or {},
    )
    function = TrainsTrees(train_xgboost if "xgboost" in of else train_lightgbm, plan)
    checkpoints = getattr(passed.get("run_config"), "checkpoint_config", None)
    return {
        **passed,
        "train_loop_per_worker": function.with_checkpoints(checkpoints),
        "train_loop_config": dict(params),
    }
