"""Preprocessors: their batches, errors, texts and serialized forms."""

import importlib
import pickle
from types import ModuleType

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def made(ray: ModuleType) -> ModuleType:
    return importlib.import_module(f"{ray.__name__}.data.preprocessors")


@pytest.fixture(scope="module")
def base(ray: ModuleType) -> type:
    return importlib.import_module(f"{ray.__name__}.data.preprocessor").Preprocessor


def encoder_of(kind, stats, **options):
    encoder = kind(columns=["a"], **options)
    encoder.stats_ = stats
    return encoder


NUMBERS = {"unique_values(a)": {"x": 0, "y": 1}}


@pytest.mark.parametrize("name", ["OrdinalEncoder", "OneHotEncoder", "MultiHotEncoder"])
def test_a_missing_value_has_no_number(made, name):
    encoder = encoder_of(getattr(made, name), NUMBERS)
    with pytest.raises(ValueError, match=r"\ba\b"):
        encoder.transform_batch(pd.DataFrame({"a": ["x", None]}))


def test_a_missing_label_has_no_number(made):
    encoder = made.LabelEncoder("a")
    encoder.stats_ = NUMBERS
    with pytest.raises(ValueError, match=r"\ba\b"):
        encoder.transform_batch(pd.DataFrame({"a": ["x", None]}))
    unknown = encoder.transform_batch(pd.DataFrame({"a": ["y", "z"]}))["a"]
    assert unknown[0] == 1
    assert np.isnan(unknown[1])


def test_a_constant_fills_a_column_that_is_not_there(made):
    imputer = made.SimpleImputer(columns=["z"], strategy="constant", fill_value=0)
    filled = imputer.transform_batch(pd.DataFrame({"a": [1, 2]}))
    assert filled["z"].tolist() == [0, 0]
    assert repr(imputer) == (
        "SimpleImputer(columns=['z'], strategy='constant', fill_value=0, output_columns=['z'])"
    )


def test_texts_of_preprocessors(made):
    texts = [
        repr(made.Concatenator(columns=["b"], dtype=np.float32)),
        repr(made.Concatenator(columns=["b"])),
        repr(made.RobustScaler(columns=["a"])),
        repr(made.Tokenizer(columns=["a"])),
        repr(made.CountVectorizer(columns=["a"], max_features=2)),
        repr(made.HashingVectorizer(columns=["a"], num_features=3)),
    ]
    assert texts == [
        "Concatenator(columns=['b'], dtype=<class 'numpy.float32'>)",
        "Concatenator(columns=['b'])",
        "RobustScaler(columns=['a'], quantile_range=(0.25, 0.75), output_columns=['a'])",
        "Tokenizer(columns=['a'], tokenization_fn=simple_split_tokenizer, output_columns=['a'])",
        (
            "CountVectorizer(columns=['a'], tokenization_fn=simple_split_tokenizer, max_features=2, "
            "output_columns=['a'])"
        ),
        (
            "HashingVectorizer(columns=['a'], num_features=3, "
            "tokenization_fn=simple_split_tokenizer, output_columns=['a'])"
        ),
    ]


def test_a_stored_preprocessor_has_what_it_learned(made):
    scaler = made.StandardScaler(columns=["a"])
    scaler.stats_ = {"mean(a)": 2.0, "std(a)": 1.0}
    stored = scaler.serialize()
    assert isinstance(stored, bytes)
    for again in (made.StandardScaler.deserialize(stored), pickle.loads(pickle.dumps(scaler))):
        assert again.stats_ == scaler.stats_
        assert again.transform_batch(pd.DataFrame({"a": [5.0]}))["a"].tolist() == [3.0]
    empty = made.StandardScaler.deserialize(made.StandardScaler(columns=["a"]).serialize())
    assert empty.fit_status().name == "NOT_FITTED"
    for other in ("garbage", b"garbage"):
        with pytest.raises(ValueError):  # noqa: PT011
            made.StandardScaler.deserialize(other)


def test_a_class_of_the_user_takes_arrays(base, cluster):
    class Doubled(base):
        _is_fittable = False

        def _transform_numpy(self, batch):
            return {"id": batch["id"] * 2, "other": batch["id"]}

    doubled = Doubled()
    rows = doubled.transform(cluster.data.range(3)).take_all()
    assert sorted(row["id"] for row in rows) == [0, 2, 4]
    batch = doubled.transform_batch({"id": np.array([1]), "other": np.array([1])})
    assert batch["id"].tolist() == [2]
    assert base.preferred_batch_format().name == "PANDAS"


def test_the_preferred_format_is_taken_where_both_are_there(base):
    class Both(base):
        _is_fittable = False

        def _transform_numpy(self, batch):
            return {"arrays": np.array([1])}

        def _transform_pandas(self, frame):
            return pd.DataFrame({"frame": [1]})

    assert list(Both().transform_batch(pd.DataFrame({"a": [1], "b": [2]})).columns) == ["frame"]


def test_a_class_without_a_transformation_is_refused(base):
    class Empty(base):
        _is_fittable = False

    with pytest.raises(NotImplementedError):
        Empty().transform_batch(pd.DataFrame({"a": [1]}))


def test_a_second_fit_warns(base, cluster):
    class Counted(base):
        def _fit(self, dataset):
            self.stats_ = {"rows": dataset.count()}
            return self

        def _transform_pandas(self, frame):
            return frame

    counted = Counted().fit(cluster.data.range(3))
    with pytest.warns(UserWarning, match="fit"):
        counted.fit(cluster.data.range(4))
    assert counted.stats_ == {"rows": 4}
