"""In the style of Ray 2.0 to 2.8: trainers of trees and of scikit-learn by parameters, and their predictors."""

import os

import numpy
import ray
from ray import tune
from ray.air import Checkpoint, session
from ray.air.config import CheckpointConfig, RunConfig, ScalingConfig
from ray.data.preprocessors import (
    CountVectorizer,
    FeatureHasher,
    HashingVectorizer,
    OneHotEncoder,
    StandardScaler,
)
from ray.train.batch_predictor import BatchPredictor
from ray.train.data_parallel_trainer import DataParallelTrainer
from ray.train.lightgbm import LightGBMPredictor, LightGBMTrainer
from ray.train.sklearn import SklearnCheckpoint, SklearnPredictor, SklearnTrainer
from ray.train.trainer import BaseTrainer
from ray.train.xgboost import XGBoostPredictor, XGBoostTrainer
from ray.tune import TuneConfig, Tuner

RUNS = RunConfig(
    storage_path=os.path.abspath("results"),
    checkpoint_config=CheckpointConfig(checkpoint_frequency=4, num_to_keep=1),
    verbose=0,
)


def rows():
    made = [{"x": float(i % 10), "noise": float(i % 3), "y": 3.0 * (i % 10)} for i in range(120)]
    return ray.data.from_items(made).train_test_split(0.25)


def linear(train, valid):
    from sklearn.linear_model import Ridge

    trainer = SklearnTrainer(
        estimator=Ridge(alpha=100.0),
        params={"alpha": 1e-6},
        label_column="y",
        datasets={"train": train, "valid": valid},
        scoring=["r2", "neg_mean_absolute_error"],
        cv=2,
        scaling_config=ScalingConfig(trainer_resources={"CPU": 1}),
        run_config=RUNS,
        preprocessor=StandardScaler(["x"]),
    )
    result = trainer.fit()
    found = result.metrics
    print("Scores:", round(found["valid"]["test_r2"], 3), round(found["cv"]["test_r2_mean"], 3))
    print("Times:", found["fit_time"] >= 0, found["valid"]["score_time"] >= 0)
    print("Estimator:", SklearnTrainer.get_model(result.checkpoint).alpha)
    predictor = SklearnPredictor.from_checkpoint(result.checkpoint)
    raw = ray.data.from_items([{"x": 2.0, "noise": 0.0}]).to_pandas()
    print("Predicted:", [round(each) for each in predictor.predict(raw)["predictions"]])
    plain = SklearnPredictor(Ridge(alpha=1e-6).fit([[0.0], [1.0]], [0.0, 2.0]))
    print("Of arrays:", plain.predict(numpy.array([[3.0], [4.0]])).round(3).tolist())
    checkpoint = SklearnCheckpoint.from_estimator(predictor.estimator)
    print("By hand:", checkpoint.get_estimator().alpha, checkpoint.get_preprocessor())
    results = Tuner(
        trainer,
        param_space={"params": {"alpha": tune.grid_search([1e-6, 1e6])}},
        tune_config=TuneConfig(metric="valid/test_r2", mode="max"),
        run_config=RunConfig(storage_path=RUNS.storage_path, verbose=0),
    ).fit()
    print("Best:", results.get_best_result().config["params"])
    kept = [each.checkpoint.get_preprocessor() for each in (result, *results)]
    print("Kept:", [type(each).__name__ for each in kept])


def encoded():
    texts = ray.data.from_items([{"color": "red", "text": "a b"}, {"color": "blue", "text": "b"}])
    for encoder in (
        OneHotEncoder(["color"]),
        CountVectorizer(["text"]),
        HashingVectorizer(["text"], num_features=2),
    ):
        print(
            "Encoded:",
            encoder.fit_transform(texts)
            .to_pandas()
            .drop(columns=["text"], errors="ignore")
            .to_dict("records")[0],
        )
    counts = ray.data.from_items([{"I": 1, "like": 0, "dislike": 1, "Python": 1}])
    hasher = FeatureHasher(["I", "like", "dislike", "Python"], num_features=8)
    print("Hashed:", list(hasher.transform(counts).take(1)[0].values()))


def in_a_worker():
    folder = session.get_trial_dir()
    name = session.get_trial_name()
    session.report({"same": os.path.basename(folder) == name == session.get_trial_id()})


class Summing(BaseTrainer):
    """Its loop runs once, and has the whole data sets."""

    def __init__(self, factor, **options):
        super().__init__(**options)
        self.factor = factor

    def setup(self):
        self.start = self.starting_checkpoint.to_dict()["total"] if self.starting_checkpoint else 0

    def training_loop(self):
        total = self.start + self.factor * self.datasets["train"].sum("x")
        checkpoint = Checkpoint.from_dict({"total": total})
        session.report(
            {"total": total, "rows": self.datasets["train"].count()}, checkpoint=checkpoint
        )


def loops(train):
    trainer = Summing(2, datasets={"train": train}, scaling_config=ScalingConfig(num_workers=2))
    print("Base:", isinstance(trainer, BaseTrainer), issubclass(XGBoostTrainer, BaseTrainer))
    result = trainer.fit()
    print("Looped:", result.metrics["rows"], result.metrics["total"] == 2 * train.sum("x"))
    options = {"datasets": {"train": train}, "preprocessor": StandardScaler(["noise"])}
    again = Summing(1, resume_from_checkpoint=result.checkpoint, **options).fit()
    print("Resumed:", again.metrics["total"] == 3 * train.sum("x"))
    tuned = Tuner(trainer, run_config=RunConfig(storage_path=RUNS.storage_path, verbose=0)).fit()
    print("As a trial:", tuned[0].metrics["rows"])


def trees(trainer_cls, predictor_cls, train, valid, **params):
    """Train on two workers where the library is installed; or else the error says how to install it."""
    name = trainer_cls.__name__.removesuffix("Trainer").lower()
    options = {
        "label_column": "y",
        "params": params,
        "num_boost_round": 8,
        "datasets": {"train": train, "valid": valid},
        "scaling_config": ScalingConfig(num_workers=2),
        "run_config": RUNS,
    }
    try:
        result = trainer_cls(**options, preprocessor=StandardScaler(["noise"])).fit()
    except ImportError as error:
        return f"pip install {name}" in str(error)
    loss = next(value for key, value in result.metrics.items() if key.startswith("valid-"))
    options["num_boost_round"] = 10
    again = trainer_cls(**options, resume_from_checkpoint=result.checkpoint).fit()
    predictor = BatchPredictor.from_checkpoint(result.checkpoint, predictor_cls)
    predicted = predictor.predict(valid, feature_columns=["x", "noise"]).take_all()
    model = trainer_cls.get_model(again.checkpoint)
    rounds = getattr(model, "num_boosted_rounds", None) or model.current_iteration
    return loss < 30 and len(predicted) == 30 and rounds() == 10


def main():
    ray.init(num_cpus=2)
    train, valid = rows()
    linear(train, valid)
    loops(train)
    encoded()
    trial = DataParallelTrainer(in_a_worker, run_config=RUNS).fit()
    print("Each run is a trial:", trial.metrics["same"])
    print("XGBoost:", trees(XGBoostTrainer, XGBoostPredictor, train, valid, eta=0.5))
    lightgbm = {"metric": "l2", "min_data_in_leaf": 2, "verbosity": -1, "learning_rate": 0.5}
    print("LightGBM:", trees(LightGBMTrainer, LightGBMPredictor, train, valid, **lightgbm))
    try:
        XGBoostTrainer(params={}, datasets={"train": train})
    except TypeError as error:
        print("No label:", "label_column" in str(error))
    try:
        LightGBMTrainer(params={}, label_column="y", datasets={"valid": valid})
    except KeyError as error:
        print("No data:", "train" in str(error))


if __name__ == "__main__":
    main()
