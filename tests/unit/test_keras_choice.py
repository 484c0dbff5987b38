"""Which Keras a training function needs is known before it runs; ports are reserved once."""

import importlib.util
import os
import sys
import types

import pytest

from raycompat._old.train import keras_choice
from raycompat.train import _ports
from raycompat.train.tensorflow import _keras_choice, _keras_watch
from raycompat.train.tensorflow._keras_choice import VARIABLE, choose, names_of
from raycompat.train.tensorflow._keras_watch import watch_keras

tf = None  # what a program imports as tensorflow


@pytest.fixture(autouse=True)
def tf_keras_is_installed(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        _keras_choice.importlib.util,
        "find_spec",
        lambda name: object() if name == "tf_keras" else find(name),
    )


def build_model():
    return tf.keras.Sequential()


def with_strategy():
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = build_model()
    model.fit()


def by_other_functions():
    strategy = make_strategy()
    with strategy.scope():
        build_model().fit()


def make_strategy():
    return tf.distribute.experimental.MultiWorkerMirroredStrategy()


def without_strategy():
    build_model().fit()


def with_keras_3():
    import keras

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential()
    model.fit()


def with_keras_3_and_a_loop():
    import keras

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        return keras.Sequential()


def with_our_optimizer():
    import keras

    from raycompat.train.tensorflow.keras import DistributedOptimizer

    keras.Sequential().compile(optimizer=DistributedOptimizer(keras.optimizers.Adam()))


@pytest.mark.parametrize("function", [with_strategy, by_other_functions])
def test_a_strategy_of_many_workers_needs_keras_2(function):
    assert choose(function, {}) == {VARIABLE: "1"}


@pytest.mark.parametrize(
    "function", [without_strategy, with_our_optimizer, with_keras_3_and_a_loop]
)
def test_others_get_what_they_import(function):
    assert choose(function, {}) == {}


def test_a_function_within_a_function_counts():
    def loop():
        def inner():
            return tf.distribute.MultiWorkerMirroredStrategy()

        return inner()

    assert choose(loop, {}) == {VARIABLE: "1"}


def test_keras_3_under_the_strategy_is_refused_with_the_line_to_write():
    with pytest.raises(ValueError, match=r"imports keras.*DistributedOptimizer\(keras"):
        import re

        try:
            choose(with_keras_3, {})
        except ValueError as error:
            raise ValueError(re.sub(r"\s+", " ", str(error))) from error


def test_the_program_may_ask(monkeypatch):
    assert choose(without_strategy, {VARIABLE: "1"}) == {VARIABLE: "1"}
    monkeypatch.setenv(VARIABLE, "1")
    assert choose(without_strategy, {}) == {VARIABLE: "1"}
    with pytest.raises(ValueError, match="asks for Keras 3"):
        choose(with_strategy, {VARIABLE: "0"})


def test_keras_2_that_is_missing_is_told(monkeypatch):
    monkeypatch.setattr(_keras_choice.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install tf-keras"):
        choose(with_strategy, {})


def test_names_of_methods_count():
    class Program:
        def train(self):
            tf.distribute.MultiWorkerMirroredStrategy()

    assert "MultiWorkerMirroredStrategy" in names_of(Program().train)[0]


def test_a_port_is_reserved_once():
    ports = [_ports.reserve_port() for _ in range(5)]
    assert len(set(ports)) == 5
    assert all(20_000 <= port < 32_768 for port in ports)
    assert _ports._locked(ports[0]) is None
    while _ports._locks:
        _ports._locks.pop().close()
    lock = _ports._locked(ports[0])
    assert lock is not None
    lock.close()


@pytest.mark.parametrize("variable", [None, "1"])
@pytest.mark.parametrize("is_imported", [True, False])
def test_keras_3_under_the_strategy_is_said_in_the_worker_too(monkeypatch, variable, is_imported):
    """A model that comes with train_loop_config, from code that `choose` does not see."""

    class Model:
        def fit(self, data):
            return data

    class MultiWorkerMirroredStrategy:
        pass

    keras = types.ModuleType("keras")
    keras.__version__, keras.Model = "3.11.0", Model
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    if is_imported:
        monkeypatch.setitem(sys.modules, "keras", keras)
        watch_keras()
    else:
        monkeypatch.delitem(sys.modules, "keras", raising=False)
        monkeypatch.setattr(_keras_watch.importlib.util, "find_spec", lambda name: object())
        watch_keras()
        sys.meta_path[0]._then(keras)
    model = Model()
    assert model.fit(3) == 3
    model._distribute_strategy = MultiWorkerMirroredStrategy()
    with pytest.raises(RuntimeError, match="DistributedOptimizer"):
        model.fit(3)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(): tf.distribute.MultiWorkerMirroredStrategy()", "1"),
        ("def f(): tf.distribute.MirroredStrategy()", None),
        ("import keras.layers\ntf.distribute.MultiWorkerMirroredStrategy()", None),
    ],
)
def test_the_driver_has_the_keras_of_its_workers(source, found, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")  # so that what is chosen is undone
    monkeypatch.delenv(VARIABLE)
    keras_choice.choose_for(compile(source, "program.py", "exec"))
    assert os.environ.get(VARIABLE) == found
