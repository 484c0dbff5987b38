"""Fit a line on points that lie in several actors: they return gradients, the
driver takes steps.

Every actor keeps its share of the points and computes gradients on it, as
arrays of numbers. The driver averages them, and feeds the average into its own
graph in place of the gradients that TensorFlow would compute there.
"""

import os

# The actors inherit these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf

import raycompat as ray

NUM_ACTORS = 2
NUM_POINTS = 200
NUM_STEPS = 201


class Line:
    """A line with an unknown slope and offset, and the points that this copy
    sees.
    """

    def __init__(self, x, y):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(0)
            slope = tf.Variable(tf.random_uniform([], -1.0, 1.0), name="slope")
            offset = tf.Variable(0.0, name="offset")
            x = tf.constant(x, tf.float32)
            y = tf.constant(y, tf.float32)
            self.loss = tf.reduce_mean(tf.square(slope * x + offset - y))
            optimizer = tf.train.GradientDescentOptimizer(0.5)
            pairs = optimizer.compute_gradients(self.loss)
            # The symbolic gradients: nodes of the graph, in the order of the
            # variables.
            self.gradients = [gradient for gradient, _ in pairs]
            self.step = optimizer.apply_gradients(pairs)
            self.session = tf.Session()
            self.session.run(tf.global_variables_initializer())
            self.variables = ray.experimental.TensorFlowVariables(
                self.loss, self.session
            )
        graph.finalize()

    def get_weights(self):
        """Return the weights as a dictionary of arrays by variable name."""
        return self.variables.get_weights()

    def compute_gradients(self, weights):
        """Return the numerical gradients at the given weights: arrays, no step
        taken.
        """
        self.variables.set_weights(weights)
        return self.session.run(self.gradients)

    def apply_gradients(self, gradients):
        """Take a step with gradients that were computed elsewhere."""
        self.session.run(
            self.step, dict(zip(self.gradients, gradients, strict=True))
        )


def main():
    ray.init(num_cpus=NUM_ACTORS, include_dashboard=False)
    x = np.random.default_rng(0).random(NUM_POINTS)
    y = 0.1 * x + 0.3

    remote_line = ray.remote(Line)
    shares = zip(np.split(x, NUM_ACTORS), np.split(y, NUM_ACTORS), strict=True)
    actors = [remote_line.remote(*share) for share in shares]
    line = Line(x, y)
    for step in range(NUM_STEPS):
        weights = line.get_weights()
        if step % 20 == 0:
            print(f"{step:3}  {weights['slope']:6.3f}  {weights['offset']:.3f}")
        shared = ray.put(weights)
        replies = ray.get(
            [actor.compute_gradients.remote(shared) for actor in actors]
        )
        # One list per actor becomes one tuple per variable. Equal shares: a
        # plain mean.
        line.apply_gradients(
            [np.mean(parts, axis=0) for parts in zip(*replies, strict=True)]
        )

    # The same without actors: the driver's own symbolic gradients, on all
    # points.
    alone = Line(x, y)
    for _ in range(NUM_STEPS):
        alone.session.run(alone.step)
    difference = np.abs(
        alone.variables.get_flat() - line.variables.get_flat()
    ).max()
    print(f"as in one process: {difference < 1e-6}")
    ray.shutdown()


if __name__ == "__main__":
    main()
