"""Fit a line in two actors: each builds its graph once, and only weights
travel.

The points lie on y = 0.1 x + 0.3. In every round both actors start from the
same weights, take one training step on their points, and return their weights;
the driver takes the mean.
"""

import os

# The actors inherit these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf

import raycompat as ray

NUM_ACTORS = 2
NUM_POINTS = 100
NUM_ROUNDS = 201


class Line:
    """A line of unknown slope and offset, with its own graph and session."""

    def __init__(self, seed):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            self.x = tf.placeholder(tf.float32, [NUM_POINTS])
            self.y = tf.placeholder(tf.float32, [NUM_POINTS])
            slope = tf.Variable(tf.random_uniform([], -1.0, 1.0), name="slope")
            offset = tf.Variable(0.0, name="offset")
            error = slope * self.x + offset - self.y
            loss = tf.reduce_mean(tf.square(error))
            self.step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            self.session = tf.Session()
            self.session.run(tf.global_variables_initializer())
            self.variables = ray.experimental.TensorFlowVariables(
                loss, self.session
            )
        # From here on TensorFlow refuses to add nodes.
        graph.finalize()

    def get_weights(self):
        """Return the weights as a dictionary of arrays by variable name."""
        return self.variables.get_weights()

    def train(self, weights, x, y):
        """Take one step from the given weights, and return the new ones."""
        self.variables.set_weights(weights)
        self.session.run(self.step, {self.x: x, self.y: y})
        return self.variables.get_weights()


def make_points(rng):
    x = rng.random(NUM_POINTS)
    return x, 0.1 * x + 0.3


def mean_weights(replies):
    return {
        name: np.mean([reply[name] for reply in replies], axis=0)
        for name in replies[0]
    }


def main():
    ray.init(num_cpus=NUM_ACTORS, include_dashboard=False)
    remote_line = ray.remote(Line)
    actors = [remote_line.remote(seed) for seed in range(NUM_ACTORS)]
    points = [
        make_points(np.random.default_rng(seed)) for seed in range(NUM_ACTORS)
    ]

    # All actors start from the first actor's weights.
    weights = ray.get(actors[0].get_weights.remote())
    for round_number in range(NUM_ROUNDS):
        if round_number % 20 == 0:
            print(
                f"{round_number:3}  {weights['slope']:6.3f}  "
                f"{weights['offset']:.3f}"
            )
        # Stored once, read by all actors.
        shared = ray.put(weights)
        replies = [
            actor.train.remote(shared, x, y)
            for actor, (x, y) in zip(actors, points, strict=True)
        ]
        weights = mean_weights(ray.get(replies))
    ray.shutdown()


if __name__ == "__main__":
    main()
