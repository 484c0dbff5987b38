"""Two workers save their model after each epoch, fail once, go on, and the driver loads the best model."""

import json
import os
import tempfile

import numpy as np
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer


def build_model():
    import tensorflow as tf

    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(4, activation="tanh", input_shape=(1,)), tf.keras.layers.Dense(1)]
    )
    model.compile(optimizer=tf.keras.optimizers.Adam(0.05), loss="mse")
    return model


def fit_square(config):
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = build_model()
    start = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            model.load_weights(os.path.join(folder, "square.weights.h5"))
            start = checkpoint.get_metadata()["epoch"] + 1
    x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
    for epoch in range(start, config["epochs"]):
        history = model.fit(x, x**2, batch_size=16, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            # All ranks save, because TensorFlow adds up what they have; one reports it.
            model.save_weights(os.path.join(folder, "square.weights.h5"))
            saved = None
            if train.get_context().get_world_rank() == 0:
                saved = Checkpoint.from_directory(folder)
                saved.set_metadata({"epoch": epoch})
            train.report({"epoch": epoch, "loss": history.history["loss"][0]}, checkpoint=saved)
        if epoch == 2 and start == 0:
            raise RuntimeError("fails once")


ray.init(num_cpus=3, include_dashboard=False)
with tempfile.TemporaryDirectory() as folder:
    trainer = TensorflowTrainer(
        fit_square,
        train_loop_config={"epochs": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="square", storage_path=folder, failure_config=FailureConfig(max_failures=1)
        ),
    )
    result = trainer.fit()
    print("Epochs:", [metrics["epoch"] for _, metrics in result.best_checkpoints])
    best = result.get_best_checkpoint("loss", mode="min")
    print("The last is the best:", best.path == result.checkpoint.path)
    with best.as_directory() as found:
        print("Files:", json.dumps(sorted(os.listdir(found))))
        print("Metadata:", best.get_metadata())
    print("Restored:", train.Result.from_path(result.path).metrics["epoch"])
ray.shutdown()
