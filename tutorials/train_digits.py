"""Two workers learn to read digits with Keras, and report to Train."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import raycompat as ray
from raycompat import train
from raycompat.train import RunConfig, ScalingConfig
from raycompat.train.tensorflow import TensorflowTrainer


def train_digits(config: dict) -> None:
    import keras

    from raycompat.train.tensorflow.keras import (
        DistributedOptimizer,
        ReportCheckpointCallback,
        SynchronizationCallback,
    )

    context = train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    images, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images.astype("float32") / 16,
        digits,
        test_size=360,
        random_state=0,
        stratify=digits,
    )
    rows = len(train_x) // size * size  # each worker has equally many
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Input(shape=(64,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=DistributedOptimizer(
            keras.optimizers.Adam(config["learning_rate"])
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        train_x[rank:rows:size],
        train_y[rank:rows:size],
        batch_size=config["global_batch_size"] // size,
        validation_data=(test_x, test_y),
        epochs=config["epochs"],
        callbacks=[SynchronizationCallback(), ReportCheckpointCallback()],
        verbose=0,
    )


def main() -> None:
    ray.init()
    trainer = TensorflowTrainer(
        train_digits,
        train_loop_config={
            "global_batch_size": 64,
            "learning_rate": 0.003,
            "epochs": 15,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="train_digits"),
    )
    result = trainer.fit()
    print(
        "accuracy on digits that it has not seen: "
        f"{result.metrics['val_accuracy']:.3f}"
    )
    print(f"the model: {result.checkpoint.path}/model.keras")
    ray.shutdown()


if __name__ == "__main__":
    main()
