"""TensorFlow's MultiWorkerMirroredStrategy by Train: equal to one process, and resumed after a loss.

Each run starts processes that import TensorFlow, so `make nightly` has these.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import raycompat as ray
from raycompat import train
from raycompat.train.tensorflow import TensorflowTrainer
from raycompat.train.tensorflow.keras import ReportCheckpointCallback

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(300),  # on a busy machine the workers need a minute to import TensorFlow
    pytest.mark.skipif(find_spec("tf_keras") is None, reason="legacy Keras is not installed"),
]

#: Rows, and those of a batch of all workers; both are whole for one to four workers.
ROWS, BATCH, EPOCHS = 96, 24, 3


def learn(config):
    """Train by `model.fit`, and then by a loop; save what has come of it on this rank."""
    import tensorflow as tf

    rank = train.get_context().get_world_rank()
    strategy = (
        tf.distribute.MultiWorkerMirroredStrategy()
        if config["in_strategy"]
        else tf.distribute.get_strategy()
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, 4)).astype("float32")
    y = (x @ np.array([[1.0], [-2.0], [3.0], [0.5]], "float32")) ** 2
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(8, "tanh", input_shape=(4,)), tf.keras.layers.Dense(1)]
        )
        model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="mse")
        slope = tf.Variable(np.zeros((4, 1), "float32"))
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)

    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    batches = strategy.experimental_distribute_dataset(rows)

    @tf.function
    def step(batch):
        def on_replica(features, targets):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((features @ slope - targets) ** 2) / BATCH
            gradient = tape.gradient(loss, slope)
            total = tf.distribute.get_replica_context().all_reduce("sum", gradient)
            slope.assign_sub(0.01 * total)
            return loss

        losses = strategy.run(on_replica, args=batch)
        return strategy.reduce("sum", losses, axis=None)

    losses = [float(step(batch)) for batch in batches]
    weights = np.concatenate([each.ravel() for each in (*model.get_weights(), slope.numpy())])
    np.save(Path(config["folder"], f"{rank}.npy"), weights)
    train.report({"loss": history.history["loss"], "losses": losses})


def run(folder, num_workers, in_strategy=True):
    folder.mkdir()
    result = TensorflowTrainer(
        learn,
        train_loop_config={"folder": str(folder), "in_strategy": in_strategy},
        scaling_config=train.ScalingConfig(num_workers=num_workers),
        run_config=train.RunConfig(storage_path=str(folder / "runs")),
    ).fit()
    weights = [np.load(folder / f"{rank}.npy") for rank in range(num_workers)]
    return result.metrics, weights


@pytest.fixture(scope="module")
def four_cpus():
    ray.shutdown()
    with ray.init(num_cpus=4, include_dashboard=False, configure_logging=False):
        yield


@pytest.fixture(scope="module")
def alone(four_cpus, tmp_path_factory):
    return run(tmp_path_factory.mktemp("alone") / "run", 1, in_strategy=False)


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
def test_workers_compute_what_one_process_does(alone, tmp_path, num_workers):
    metrics, weights = run(tmp_path / "run", num_workers)
    expected, (expected_weights,) = alone
    assert expected["loss"][-1] < expected["loss"][0]
    assert metrics["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert metrics["losses"] == pytest.approx(expected["losses"], rel=1e-5)
    for each in weights:
        np.testing.assert_array_equal(each, weights[0])
        np.testing.assert_allclose(each, expected_weights, atol=1e-5)


def learn_and_lose_one(config):
    """Train five epochs from the last checkpoint; once, kill rank 1 in the middle of the third."""
    import tensorflow as tf

    rank = train.get_context().get_world_rank()
    x = np.linspace(0, 1, ROWS, dtype="float32")[:, None]
    tf.keras.utils.set_random_seed(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    start, checkpoint = 0, train.get_checkpoint()
    with strategy.scope():
        if checkpoint is None:
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
            model.compile(optimizer=tf.keras.optimizers.Adam(0.1), loss="mse")
        else:
            with checkpoint.as_directory() as folder:
                model = tf.keras.models.load_model(os.path.join(folder, "model.keras"))
            start = int(model.optimizer.iterations.numpy()) // (ROWS // BATCH)

    class Kill(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_train_batch_end(self, batch, logs=None):
            if config["dies"] and checkpoint is None and (rank, self.epoch, batch) == (1, 2, 1):
                os.kill(os.getpid(), signal.SIGKILL)

    model.fit(
        x,
        3 * x,
        batch_size=BATCH,
        initial_epoch=start,
        epochs=5,
        shuffle=False,
        verbose=0,
        callbacks=[ReportCheckpointCallback(), Kill()],
    )
    return start


def run_to_the_end(storage, name, dies=False, resume_from=None):
    return TensorflowTrainer(
        learn_and_lose_one,
        train_loop_config={"dies": dies},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(
            name=name,
            storage_path=str(storage),
            failure_config=train.FailureConfig(max_failures=1),
        ),
        resume_from_checkpoint=resume_from,
    ).fit()


@pytest.fixture(scope="module")
def whole(four_cpus, tmp_path_factory):
    """A run that nothing has disturbed."""
    result = run_to_the_end(tmp_path_factory.mktemp("whole"), "whole")
    assert result.return_value == 0
    assert len(losses_of(result)) == 5
    return result


def losses_of(result):
    return [float(metrics["loss"]) for _, metrics in result.best_checkpoints]


def test_a_rank_that_dies_in_mid_epoch_changes_nothing(whole, tmp_path):
    resumed = run_to_the_end(tmp_path, "dies", dies=True)
    assert resumed.return_value == 2
    assert losses_of(resumed) == pytest.approx(losses_of(whole), rel=1e-4)


def test_another_process_goes_on_from_a_checkpoint(whole, tmp_path):
    after_two = whole.best_checkpoints[1][0]
    found = subprocess.run(
        [sys.executable, __file__, after_two.path, tmp_path], stdout=subprocess.PIPE, check=True
    )
    resumed = train.Result.from_path(tmp_path / "elsewhere")
    assert json.loads(found.stdout.splitlines()[-1]) == {
        "start": 2,
        "path": resumed.checkpoint.path,
    }
    assert losses_of(resumed) == pytest.approx(losses_of(whole)[2:], rel=1e-4)


if __name__ == "__main__":  # the other process
    with ray.init(num_cpus=2, include_dashboard=False, configure_logging=False):
        checkpoint = train.Checkpoint(sys.argv[1])
        result = run_to_the_end(sys.argv[2], "elsewhere", resume_from=checkpoint)
    print(json.dumps({"start": result.return_value, "path": result.checkpoint.path}))
