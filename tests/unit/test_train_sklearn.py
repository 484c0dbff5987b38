"""`SklearnTrainer`: what its worker fits, scores and reports, without a worker."""

from __future__ import annotations

import math

import pandas
import pytest

from raycompat import train
from raycompat._old.train.sklearn import SklearnTrainer

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::raycompat.exceptions.OldFormWarning")

ROWS = [{"x": float(i), "y": int(i > 15)} for i in range(30)]
GROUPED = [{**row, "cv_groups": i % 3} for i, row in enumerate(ROWS)]


class Constant(BaseEstimator):
    """Predicts the weighted mean of the labels."""

    def __init__(self, thread_count=None):
        self.thread_count = thread_count

    def fit(self, rows, labels, weights):
        assert len(rows) == len(labels) == len(weights)
        self.mean = float((labels * weights).sum() / weights.sum())
        return self

    def score(self, rows, labels):
        return self.mean


@pytest.fixture
def fitted(monkeypatch):
    """Train in this process; return the metrics and the estimator."""

    def run(estimator, datasets, label_column="y", **options):
        made = []
        trainer = SklearnTrainer(
            estimator=estimator, datasets=datasets, label_column=label_column, **options
        )
        monkeypatch.setattr(train, "get_dataset_shard", datasets.__getitem__)
        monkeypatch.setattr(
            train,
            "report",
            lambda metrics, checkpoint: made.extend(
                [metrics, SklearnTrainer.get_model(checkpoint)]
            ),
        )
        trainer.train_loop_per_worker(trainer.train_loop_config)
        return made

    return run


def test_groups_are_for_cross_validation_and_no_feature(fitted):
    datasets = {"train": GROUPED, "valid": GROUPED}
    metrics, model = fitted(RidgeClassifier(), datasets, cv=GroupKFold(3))
    assert list(model.feature_names_in_) == ["x"]
    assert len(metrics["cv"]["test_score"]) == 3
    assert metrics["valid"]["test_score"] > 0.9


def test_fit_parameters_reach_cross_validation(fitted):
    weights = pandas.Series([1.0 - row["y"] for row in ROWS])
    metrics, model = fitted(Constant(), {"train": ROWS}, cv=3, weights=weights)
    assert model.mean == 0
    assert metrics["cv"]["test_score"].tolist() == [0, 0, 0]


def test_a_score_that_fails_is_nan_with_a_warning(fitted):
    datasets = {"train": ROWS, "valid": [{"x": math.nan, "y": 1}]}
    with pytest.warns(UserWarning, match="'f1' failed on the data set 'valid', and is NaN"):
        metrics, model = fitted(
            RidgeClassifier(),
            datasets,
            scoring={"f1": "f1", "rows": lambda estimator, rows, labels: len(rows)},
        )
    assert math.isnan(metrics["valid"]["test_f1"])
    assert metrics["valid"]["test_rows"] == 1
    assert model.coef_.shape[-1] == 1


def test_a_callable_can_return_several_scores(fitted):
    def scoring(estimator, rows, labels):
        return {"rows": len(rows), "ones": int(labels.sum())}

    metrics, _ = fitted(RidgeClassifier(), {"train": ROWS, "valid": ROWS}, scoring=scoring)
    del metrics["valid"]["score_time"]
    assert metrics["valid"] == {"test_rows": 30, "test_ones": 14}


def test_without_labels_nothing_is_scored(fitted):
    metrics, _ = fitted(DBSCAN(), {"train": ROWS, "valid": ROWS}, label_column=None, cv=3)
    assert list(metrics) == ["fit_time"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 2),
        ({"cv": 2, "parallelize_cv": True}, 1),
        ({"cv": 2, "parallelize_cv": False}, 2),
        ({"set_estimator_cpus": False}, 5),
    ],
)
def test_the_number_of_cpus_is_set_on_the_estimator(fitted, options, expected):
    scaling = train.ScalingConfig(trainer_resources={"CPU": 2})
    forest = make_pipeline(RandomForestClassifier(2, n_jobs=5))
    _, model = fitted(forest, {"train": ROWS}, scaling_config=scaling, **options)
    assert model[0].n_jobs == expected
    if "cv" not in options:
        options = {**options, "weights": pandas.Series([1.0] * 30), "scaling_config": scaling}
        assert fitted(Constant(5), {"train": ROWS}, **options)[1].thread_count == expected


def test_a_data_set_named_like_the_cross_validation_is_refused():
    with pytest.raises(KeyError, match="'cv'"):
        SklearnTrainer(estimator=DBSCAN(), datasets={"train": ROWS, "cv": ROWS})
