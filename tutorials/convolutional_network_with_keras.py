"""Train a Keras network in an actor that owns a GPU, and read the accuracy it
prints.

On a machine without a GPU, ``num_gpus=1`` below makes a logical one: Ray counts
it and hands it out, and TensorFlow computes on the CPU. With the argument
``auto`` the actor runs in a cluster that you have started.
"""

import os
import sys
import time

# The actor inherits these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
from digits28 import load_digits28

import raycompat as ray

NUM_STEPS = 50
BATCH_SIZE = 100


def start():
    """Return how weights of a layer begin: as in the program with a graph."""
    return {
        "kernel_initializer": keras.initializers.TruncatedNormal(stddev=0.1),
        "bias_initializer": keras.initializers.Constant(0.1),
    }


def build_network(seed=0):
    """Return two convolutions and two dense layers that read digits, ready to
    train.
    """
    keras.utils.set_random_seed(seed)
    network = keras.Sequential(
        [
            keras.layers.Input([784]),
            keras.layers.Reshape([28, 28, 1]),
            keras.layers.Conv2D(
                32, kernel_size=5, padding="same", activation="relu", **start()
            ),
            keras.layers.MaxPooling2D(pool_size=2),
            keras.layers.Conv2D(
                64, kernel_size=5, padding="same", activation="relu", **start()
            ),
            keras.layers.MaxPooling2D(pool_size=2),
            keras.layers.Flatten(),
            keras.layers.Dense(1024, activation="relu", **start()),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, **start()),
        ]
    )
    network.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.CategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return network


def accuracy(network, digits):
    """Return the fraction of digits that are read correctly."""
    return network.evaluate(
        *digits, batch_size=500, verbose=0, return_dict=True
    )["accuracy"]


class DigitReader:
    """A network, and the digits that it learns from."""

    def __init__(self, digits, held_out):
        self.network = build_network()
        self.batches = digits.batches(BATCH_SIZE, seed=0)
        self.held_out = held_out

    def train(self, num_steps):
        """Train, and return the accuracy on held-out digits and the seconds
        that the steps took.
        """
        print(
            f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}"
        )
        seconds = 0.0
        for step in range(num_steps + 1):
            if step % 25 == 0:
                score = accuracy(self.network, self.held_out)
                print(
                    f"step {step:2}: {score:.1%} of the held-out digits are "
                    "read"
                )
            start = time.perf_counter()
            self.network.train_on_batch(*next(self.batches))
            # The first step is not counted: TensorFlow traces the network in
            # it.
            seconds += time.perf_counter() - start if step else 0
        return score, seconds


def main():
    # With "auto" as argument, a cluster that you have started; else a new one.
    if sys.argv[1:]:
        ray.init(sys.argv[1])
    else:
        ray.init(num_cpus=1, num_gpus=1, include_dashboard=False)
    name, digits, held_out = load_digits28()
    print(f"{name}: {len(digits.images):,} digits to learn from", flush=True)
    # The class itself stays an ordinary one, which also works without Ray.
    reader = ray.remote(num_gpus=1)(DigitReader).remote(digits, held_out)
    score, seconds = ray.get(reader.train.remote(NUM_STEPS))
    print(f"{NUM_STEPS} steps: {seconds:.1f} s, more than 80 %: {score > 0.8}")
    ray.shutdown()


if __name__ == "__main__":
    main()
