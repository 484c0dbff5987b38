"""A program as of 2017: networks are environment variables, remote functions train them.

Two lines differ from what TensorFlow 1 and the first Ray ran: TensorFlow's import, and none other.
"""

import numpy as np
import ray
import tensorflow.compat.v1 as tf

BATCHES, STEPS = 4, 121

ray.init(num_workers=2)


def net_vars_initializer():
    with tf.Graph().as_default():
        x_data = tf.placeholder(tf.float32, shape=[None])
        y_data = tf.placeholder(tf.float32, shape=[None])
        w = tf.Variable(tf.constant([-0.5]))
        b = tf.Variable(tf.zeros([1]))
        loss = tf.reduce_mean(tf.square(w * x_data + b - y_data))
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        train = optimizer.minimize(loss)
        init = tf.global_variables_initializer()
        sess = tf.Session()
        sess.run(init)
        variables = ray.experimental.TensorFlowVariables(loss, sess)
    return variables, sess, train, loss, x_data, y_data, init


def net_vars_reinitializer(net_vars):
    variables, sess, train, loss, x_data, y_data, init = net_vars
    sess.run(init)
    return net_vars


ray.env.net_vars = ray.EnvironmentVariable(net_vars_initializer, net_vars_reinitializer)


@ray.remote(num_return_vals=2)
def generate_fake_x_y_data(num_data, seed):
    np.random.seed(seed)
    x = np.random.rand(num_data)
    y = x * 0.1 + 0.3
    return x, y


@ray.remote
def step(weights, x, y):
    variables, sess, train, _, x_data, y_data, _ = ray.env.net_vars
    variables.set_weights(weights)
    sess.run(train, feed_dict={x_data: x, y_data: y})
    return variables.get_weights()


@ray.remote
def fresh_weights():
    return ray.env.net_vars[0].get_flat()


@ray.remote
def num_nodes():
    return len(ray.env.net_vars[1].graph.get_operations())


variables, sess, train, loss, x_data, y_data, init = ray.env.net_vars
batches = [generate_fake_x_y_data.remote(100, i) for i in range(BATCHES)]
x_test, y_test = ray.get(generate_fake_x_y_data.remote(100, BATCHES))
weights = variables.get_weights()
nodes_before = set(ray.get([num_nodes.remote() for _ in range(8)]))
for iteration in range(STEPS):
    weights_id = ray.put(weights)
    new_weights_ids = [step.remote(weights_id, x, y) for x, y in batches]
    new_weights = ray.get(new_weights_ids)
    weights = {name: sum(one[name] for one in new_weights) / BATCHES for name in weights}
    variables.set_weights(weights)
    if iteration % 40 == 0:
        print(f"Iteration {iteration}: weights are {variables.get_flat().astype(float).round(3).tolist()}")
nodes_after = set(ray.get([num_nodes.remote() for _ in range(8)]))
print("Loss below 1e-6:", sess.run(loss, feed_dict={x_data: x_test, y_data: y_test}) < 1e-6)
print("The graphs have grown:", nodes_before != nodes_after)
print("Put right after each task:", ray.get(fresh_weights.remote()).tolist())
