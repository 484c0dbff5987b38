"""Two workers fit a line under a strategy of TensorFlow, from a data set, and keep the best checkpoints."""

import os
import tempfile

import ray
from ray import train
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer, prepare_dataset_shard
from ray.train.tensorflow.keras import ReportCheckpointCallback


def fit_line(config: dict) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.InputLayer(input_shape=()),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(1),
            ]
        )
        model.compile(
            optimizer=tf.keras.optimizers.Adam(learning_rate=config["learning_rate"]),
            loss=tf.keras.losses.mean_squared_error,
            metrics=[tf.keras.metrics.mean_squared_error],
        )
    shard = train.get_dataset_shard("train")
    for _ in range(config["epochs"]):
        batches = shard.to_tf(
            feature_columns="x", label_columns="y", batch_size=config["batch_size"]
        )
        model.fit(prepare_dataset_shard(batches), callbacks=[ReportCheckpointCallback()], verbose=0)


ray.init(num_cpus=3, include_dashboard=False)
points = ray.data.from_items([{"x": x / 100, "y": 2 * x / 100} for x in range(100)])
with tempfile.TemporaryDirectory() as folder:
    trainer = TensorflowTrainer(
        fit_line,
        train_loop_config={"learning_rate": 0.2, "batch_size": 10, "epochs": 8},
        datasets={"train": points},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(
            name="line",
            storage_path=folder,
            checkpoint_config=CheckpointConfig(
                num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min"
            ),
        ),
    )
    result = trainer.fit()
    print("Loss below 0.05:", result.metrics["loss"] < 0.05)
    print("Metrics:", sorted(result.metrics))
    print("Kept:", len(result.best_checkpoints))
    print("Files:", sorted(os.listdir(result.checkpoint.path)))
ray.shutdown()
