"""Two workers learn to read digits together, with Keras, and report to Train."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import raycompat as ray
from raycompat.train import RunConfig, ScalingConfig
from raycompat.train.tensorflow import TensorflowTrainer
from raycompat.train.tensorflow.keras import ReportCheckpointCallback


def train_digits(config: dict) -> None:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images.astype("float32") / 16, digits, test_size=360, random_state=0, stratify=digits
    )
    batch_size = config["batch_size_per_worker"] * strategy.num_replicas_in_sync
    tf.keras.utils.set_random_seed(0)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input(shape=(64,)),
                tf.keras.layers.Dense(128, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        model.compile(
            optimizer=tf.keras.optimizers.Adam(config["learning_rate"]),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(
        tf.data.Dataset.from_tensor_slices((train_x, train_y))
        .shuffle(1437, seed=0)
        .batch(batch_size),
        validation_data=tf.data.Dataset.from_tensor_slices((test_x, test_y)).batch(batch_size),
        epochs=config["epochs"],
        callbacks=[ReportCheckpointCallback()],
        verbose=0,
    )


def main() -> None:
    ray.init()
    trainer = TensorflowTrainer(
        train_digits,
        train_loop_config={"batch_size_per_worker": 32, "learning_rate": 0.003, "epochs": 15},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="train_digits"),
    )
    result = trainer.fit()
    print(f"accuracy on digits that it has not seen: {result.metrics['val_accuracy']:.3f}")
    print(f"the model: {result.checkpoint.path}/model.keras")
    ray.shutdown()


if __name__ == "__main__":
    main()
