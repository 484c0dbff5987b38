"""Keras 3 in data parallel: several workers compute what one process does with the global batch."""

from __future__ import annotations

import os
import runpy
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import raycompat as ray
from raycompat import train
from raycompat.train.tensorflow import TensorflowTrainer
from raycompat.util import collective

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(300),  # on a busy machine the workers need a minute to import TensorFlow
    # Not importorskip: the workers need TensorFlow, this process does not.
    pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
]

ROWS, BATCH, EPOCHS = 240, 24, 3
#: Numbers of workers.
SIZES = [2, 4]
TUTORIALS = Path(__file__).parents[2] / "tutorials"


def data():
    """Return rows of which a linear classifier and a little more can be learned."""
    random = np.random.default_rng(3)
    x = random.normal(size=(ROWS, 8)).astype("float32")
    y = (x @ random.normal(size=(8, 3))).argmax(1)
    return x, y


def shard_of(rows, rank, size):
    """Return the rows of one worker: of each global batch, its part."""
    return rows.reshape(-1, size, BATCH // size, *rows.shape[1:])[:, rank].reshape(
        -1, *rows.shape[1:]
    )


def make_model(keras, seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.layers.Input((8,)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )


def compile_model(keras, model, optimizer, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, metrics=["accuracy"], **options)


def weights_of(model):
    return [np.array(each) for each in model.weights]


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, rank, size):
        os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
        self.rank, self.size = rank, size

    def join(self):
        collective.init_collective_group(self.size, self.rank, "gloo", gloo_timeout=120_000)

    def fit_alone(self):
        """Train on all rows in this process."""
        return self.fit(0, 1, lambda optimizer: optimizer, [])

    def fit_together(self):
        """Train on this worker's rows."""
        from raycompat.train.tensorflow.keras import DistributedOptimizer, SynchronizationCallback

        def average(optimizer):
            averaging = DistributedOptimizer(optimizer, group_name="default")
            assert averaging is optimizer
            return averaging

        return self.fit(self.rank, self.size, average, [SynchronizationCallback()])

    def fit(self, rank, size, average, callbacks):
        import keras

        # Each worker begins with other weights: those of rank 0 must win.
        model = make_model(keras, seed=1 + rank)
        compile_model(keras, model, average(keras.optimizers.Adam(0.01)))
        x, y = data()
        history = model.fit(
            shard_of(x, rank, size),
            shard_of(y, rank, size),
            batch_size=BATCH // size,
            epochs=EPOCHS,
            shuffle=False,
            verbose=0,
            callbacks=callbacks,
        )
        return history.history, weights_of(model)

    def call(self, function):
        return function(self.rank)


def normalize_and_load(rank):
    """Train with batch normalization; save the model, load it and go on."""
    import keras

    from raycompat.train.tensorflow.keras import DistributedOptimizer, SynchronizationCallback

    x, y = data()
    rows = shard_of(x, rank, 2), shard_of(y, rank, 2)
    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    )
    optimizer = DistributedOptimizer("sgd", group_name="default")
    compile_model(keras, model, optimizer, run_eagerly=True)
    model.fit(*rows, batch_size=40, epochs=1, verbose=0, callbacks=[SynchronizationCallback()])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
    assert type(loaded.optimizer) is keras.optimizers.SGD
    again = DistributedOptimizer(loaded.optimizer, group_name="default")
    assert again is loaded.optimizer
    assert DistributedOptimizer(again, group_name="default") is again
    assert int(again.iterations.numpy()) == 3
    return weights_of(model)


def step_with_sparse_gradients(rank):
    """An embedding has sparse gradients; a variable that is not used has none."""
    import keras
    import tensorflow as tf

    from raycompat.train.tensorflow.keras import DistributedOptimizer

    embedding = keras.layers.Embedding(5, 2)
    unused = keras.Variable(np.ones(2, "float32"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(embedding(tf.constant([rank, 3])))
    variables = [embedding.embeddings, unused]
    optimizer = DistributedOptimizer(keras.optimizers.SGD(1.0), group_name="default")
    optimizer.build(variables)
    before = np.array(embedding.embeddings)
    gradients = tape.gradient(loss, [each.value for each in variables])
    optimizer.apply(gradients, variables)
    np.testing.assert_array_equal(np.array(unused), 1)
    return before - np.array(embedding.embeddings)


def step_that_is_not_finite(rank):
    """Return weight and scale of the loss, after a step and after one that is infinite on rank 0."""
    import keras
    import tensorflow as tf

    from raycompat.train.tensorflow.keras import DistributedOptimizer

    weight = keras.Variable(np.zeros(1, "float32"))
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)
    optimizer = DistributedOptimizer(scaled, group_name="default")
    optimizer.build([weight])
    for gradient in (8.0 * rank, 8.0 if rank else np.inf):
        optimizer.apply([tf.constant([gradient])], [weight])
    return float(weight.numpy()[0]), float(scaled.dynamic_scale.numpy())


def fit_with_errors(rank):
    """Return the errors of wrong uses, by name."""
    import keras
    import tensorflow as tf

    from raycompat.train.tensorflow.keras import DistributedOptimizer, SynchronizationCallback

    def average(optimizer="adam"):
        return DistributedOptimizer(optimizer, group_name="default")

    def fit(optimizer, count=ROWS, callbacks=(), **options):
        model = make_model(keras, 1)
        compile_model(keras, model, optimizer, **options)
        x, y = data()
        model.fit(x[:count], y[:count], batch_size=48, verbose=0, callbacks=list(callbacks))

    def within_strategy():
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            average()

    calls = {
        "no optimizer": lambda: DistributedOptimizer(object()),
        "not averaging": lambda: fit("adam", callbacks=[SynchronizationCallback()]),
        "scaled": lambda: fit(
            keras.optimizers.LossScaleOptimizer(average()), callbacks=[SynchronizationCallback()]
        ),
        "strategy": within_strategy,
        "outside": lambda: DistributedOptimizer("adam"),
        "no callback": lambda: fit(average(), jit_compile=True),
        # Last, because it ends the group: rank 0 has five steps, rank 1 four.
        "steps": lambda: fit(average(), ROWS - 48 * rank, [SynchronizationCallback()]),
    }
    errors = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {error}"
    return errors


def join(size):
    """Return workers that are a group."""
    workers = [Worker.remote(rank, size) for rank in range(size)]
    ray.get([each.join.remote() for each in workers])
    return workers


@pytest.fixture(scope="module")
def found(cluster):
    """Return what two workers find, by rank: TensorFlow takes long to import, so they are started once."""
    workers = join(2)

    def on_both(function):
        return ray.get([each.call.remote(function) for each in workers])

    return {
        "alone": ray.get(workers[0].fit_alone.remote()),
        "together": ray.get([each.fit_together.remote() for each in workers]),
        "normalized": on_both(normalize_and_load),
        "sparse": on_both(step_with_sparse_gradients),
        "not finite": on_both(step_that_is_not_finite),
        "errors": on_both(fit_with_errors),  # the last one, because it ends the group
    }


@pytest.mark.parametrize("size", SIZES)
def test_workers_compute_what_one_process_does(found, size):
    together = found["together"]
    if size != 2:
        together = ray.get([each.fit_together.remote() for each in join(size)])
    history, weights = found["alone"]
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    for other_history, other_weights in together:
        np.testing.assert_allclose(other_history["loss"], history["loss"], atol=1e-5)
        np.testing.assert_allclose(other_history["accuracy"], history["accuracy"], atol=1e-6)
        for mine, theirs in zip(weights, other_weights, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
        for first, mine in zip(together[0][1], other_weights, strict=True):
            np.testing.assert_array_equal(first, mine)


def test_moving_averages_are_equal_and_models_are_saved_as_of_keras(found):
    for mine, theirs in zip(*found["normalized"], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_sparse_gradients(found):
    for change in found["sparse"]:
        expected = [[0.5, 0.5], [0.5, 0.5], [0, 0], [1, 1], [0, 0]]
        np.testing.assert_allclose(change, expected, atol=1e-6)


def test_all_workers_leave_a_step_out_that_is_not_finite_on_one(found):
    assert found["not finite"] == [(-0.5, 4.0)] * 2


def test_wrong_uses_are_errors(found):
    for errors in found["errors"]:
        assert "ptimizer" in errors["no optimizer"]
        assert errors["not averaging"].startswith("TypeError: ")
        assert "Compile it with DistributedOptimizer" in errors["not averaging"]
        assert "DistributedOptimizer(keras.optimizers.LossScaleOptimizer" in errors["scaled"]
        assert errors["strategy"].startswith("UnsupportedRayFeatureError")
        assert "outside of the strategy's scope" in errors["strategy"]
        assert errors["outside"].startswith("RuntimeError")
        assert "SynchronizationCallback" in errors["no callback"]
        assert "CollectiveError" in errors["steps"]


@pytest.mark.parametrize("size", SIZES)
def test_digits_are_learned_by_a_trainer(cluster, tmp_path, size):
    result = TensorflowTrainer(
        runpy.run_path(str(TUTORIALS / "train_digits.py"))["train_digits"],
        train_loop_config={"global_batch_size": 64, "learning_rate": 0.003, "epochs": 15},
        scaling_config=train.ScalingConfig(
            num_workers=size, resources_per_worker={"CPU": 2 / size}
        ),
        run_config=train.RunConfig(name="digits", storage_path=str(tmp_path)),
    ).fit()
    assert result.metrics["val_accuracy"] >= 0.96
    assert (Path(result.checkpoint.path) / "model.keras").is_file()


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_actors_with_other_backends_exchange_weights(cluster):
    @ray.remote
    class Line:
        def __init__(self):
            import keras

            self.model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
            self.model.compile(keras.optimizers.SGD(0.5), loss="mean_squared_error")

        def backend(self):
            import keras

            return keras.backend.backend()

        def fit(self, x, y):
            history = self.model.fit(x, y, batch_size=100, epochs=50, verbose=0)
            return history.history["loss"][-1]

        def get_weights(self):
            return self.model.get_weights()

        def set_weights(self, weights):
            self.model.set_weights(weights)

    backends = ["torch", "tensorflow"]
    first, second = (
        Line.options(runtime_env={"env_vars": {"KERAS_BACKEND": each}}).remote()
        for each in backends
    )
    x = np.linspace(0, 1, 100, dtype="float32")[:, None]
    assert ray.get([each.backend.remote() for each in (first, second)]) == backends
    for learner, other in [(first, second), (second, first)]:
        assert ray.get(learner.fit.remote(x, 0.1 * x + 0.3)) < 0.01
        weights = ray.get(learner.get_weights.remote())
        ray.get(other.set_weights.remote(weights))
        np.testing.assert_array_equal(ray.get(other.get_weights.remote())[0], weights[0])
