"""Fit a line in two actors: each builds its Keras model once, and only weights
travel.

The points lie on y = 0.1 x + 0.3. In every round both actors start from the
same weights, take one training step on their points, and return their weights;
the driver takes the mean.
"""

import os

# The actors inherit these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np

import raycompat as ray

NUM_ACTORS = 2
NUM_POINTS = 100
NUM_ROUNDS = 201


class Line:
    """A line with an unknown slope and offset, and the points that this copy
    learns from.
    """

    def __init__(self, seed):
        self.model = keras.Sequential(
            [keras.layers.Input((1,)), keras.layers.Dense(1)]
        )
        self.model.compile(keras.optimizers.SGD(0.5), loss="mean_squared_error")
        x = np.random.default_rng(seed).random((NUM_POINTS, 1))
        self.points = x, 0.1 * x + 0.3

    def train(self, weights):
        """Take one step from the given weights, and return the new ones."""
        self.model.set_weights(weights)
        self.model.train_on_batch(*self.points)
        return self.model.get_weights()


def mean_weights(replies):
    return [np.mean(arrays, axis=0) for arrays in zip(*replies, strict=True)]


def main():
    ray.init(num_cpus=NUM_ACTORS, include_dashboard=False)
    remote_line = ray.remote(Line)
    actors = [remote_line.remote(seed) for seed in range(NUM_ACTORS)]

    weights = [np.array([[-0.96]]), np.array([0.0])]  # the slope and the offset
    for round_number in range(NUM_ROUNDS):
        if round_number % 20 == 0:
            print(
                f"{round_number:3}  {weights[0].item():6.3f}  "
                f"{weights[1].item():.3f}"
            )
        # Stored once, read by all actors.
        shared = ray.put(weights)
        weights = mean_weights(
            ray.get([actor.train.remote(shared) for actor in actors])
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
