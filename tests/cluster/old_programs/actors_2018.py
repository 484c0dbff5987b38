"""A program as of 2018: actors hold graphs, and gradients are averaged in the driver.

It changes TensorFlow's mode at its top, for itself and, without a word more, for its actors.
"""

import numpy as np
import ray
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

ray.init(num_cpus=2, include_webui=False)

BATCH_SIZE = 100
NUM_BATCHES = 2
NUM_ITERS = 121


class Network(object):
    def __init__(self, x, y):
        x_data = tf.constant(x, dtype=tf.float32)
        y_data = tf.constant(y, dtype=tf.float32)
        w = tf.Variable(tf.constant([-0.5]))
        b = tf.Variable(tf.zeros([1]))
        y = w * x_data + b
        self.loss = tf.reduce_mean(tf.square(y - y_data))
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        grads = optimizer.compute_gradients(self.loss)
        self.train = optimizer.apply_gradients(grads)
        self.actual_grads = [grad for grad, variable in grads]
        init = tf.global_variables_initializer()
        self.sess = tf.Session()
        self.variables = ray.experimental.tf_utils.TensorFlowVariables(self.loss, self.sess)
        self.sess.run(init)

    def step(self, weights):
        self.variables.set_weights(weights)
        return self.sess.run([self.actual_grads, self.loss])

    @ray.method(num_return_vals=2)
    def kinds(self):
        kinds = {variable.op.type for variable in self.variables.variables.values()}
        return tf.executing_eagerly(), sorted(kinds)

    def get_weights(self):
        return self.variables.get_weights()

    def num_nodes(self):
        return len(self.sess.graph.get_operations())


def generate_fake_x_y_data(num_data, seed=0):
    np.random.seed(seed)
    x = np.random.rand(num_data)
    y = x * 0.1 + 0.3
    return x, y


remote_network = ray.remote(Network)
actor_list = [
    remote_network.remote(*generate_fake_x_y_data(BATCH_SIZE, seed=i)) for i in range(NUM_BATCHES)
]
local_network = Network(*generate_fake_x_y_data(BATCH_SIZE, seed=NUM_BATCHES))
print("An actor's mode:", ray.get(actor_list[0].kinds.remote()))
print("This program's:", list(local_network.kinds()))
nodes_before = ray.get([actor.num_nodes.remote() for actor in actor_list])

weights = local_network.get_weights()
for iteration in range(NUM_ITERS):
    weights_id = ray.put(weights)
    answers = ray.get([actor.step.remote(weights_id) for actor in actor_list])
    gradients = [answer[0] for answer in answers]
    mean_grads = [sum(grad) / NUM_BATCHES for grad in zip(*gradients)]
    feed_dict = dict(zip(local_network.actual_grads, mean_grads))
    local_network.sess.run(local_network.train, feed_dict=feed_dict)
    weights = local_network.get_weights()
    if iteration % 40 == 0:
        flat = local_network.variables.get_flat()
        print(f"Iteration {iteration}: weights are {flat.astype(float).round(3).tolist()}")
nodes_after = ray.get([actor.num_nodes.remote() for actor in actor_list])
print("The graphs have grown:", nodes_before != nodes_after)
