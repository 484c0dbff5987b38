"""Fit a line by tasks: each process builds its graph once, at first use, and
only weights travel.

This is the form of 2017, when Ray had no actors. ``ray.env.line`` is the
process's own object: the first task that reads it there builds it, later tasks
find it, and after each task that has used it the second function puts it back
into its initial state. The driver has one too.
"""

import os

# The executors inherit these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf

import raycompat as ray

NUM_TASKS = 2
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
            self.initialize = tf.global_variables_initializer()
            self.session = tf.Session()
            self.session.run(self.initialize)
            self.variables = ray.experimental.TensorFlowVariables(
                loss, self.session
            )
        graph.finalize()


def build_line():
    """Make what this process keeps."""
    return Line(seed=0)


def reset_line(line):
    """Undo what a task has done: the next one in this process finds the initial
    weights.
    """
    line.session.run(line.initialize)
    return line


ray.env.line = ray.EnvironmentVariable(build_line, reset_line)


@ray.remote
def train(weights, x, y):
    """Take one step from the given weights; return the new ones and where that
    happened.
    """
    line = ray.env.line
    line.variables.set_weights(weights)
    line.session.run(line.step, {line.x: x, line.y: y})
    return line.variables.get_weights(), (os.getpid(), id(line))


def make_points(rng):
    x = rng.random(NUM_POINTS)
    return x, 0.1 * x + 0.3


def mean_weights(replies):
    return {
        name: np.mean([reply[name] for reply in replies], axis=0)
        for name in replies[0]
    }


def main():
    ray.init(num_cpus=NUM_TASKS, include_dashboard=False)
    points = [
        make_points(np.random.default_rng(seed)) for seed in range(NUM_TASKS)
    ]
    weights = ray.env.line.variables.get_weights()
    used = []
    for round_number in range(NUM_ROUNDS):
        if round_number % 20 == 0:
            print(
                f"{round_number:3}  {weights['slope']:6.3f}  "
                f"{weights['offset']:.3f}"
            )
        shared = ray.put(weights)
        replies = ray.get([train.remote(shared, x, y) for x, y in points])
        weights = mean_weights([reply for reply, _ in replies])
        used += [line for _, line in replies]
    processes = {process for process, _ in used}
    print(
        f"{len(used)} tasks, one graph in each process: "
        f"{len(set(used)) == len(processes)}"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
