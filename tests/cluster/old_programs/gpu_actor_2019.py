"""A program as of 2019: a network in an actor that has a GPU, or what counts as one."""

import os

import numpy as np
import ray
import tensorflow.compat.v1 as tf

ray.init(num_gpus=2, redis_max_memory=10**8, driver_object_store_memory=10**8)


def construct_network():
    x = tf.placeholder(tf.float32, [None, 16])
    y_ = tf.placeholder(tf.float32, [None, 2])
    keep_prob = tf.placeholder(tf.float32)
    image = tf.reshape(x, [-1, 4, 4, 1])
    conv = tf.nn.relu(
        tf.nn.conv2d(
            image, tf.Variable(tf.truncated_normal([3, 3, 1, 4], stddev=0.1, seed=1)),
            strides=[1, 1, 1, 1], padding="SAME",
        )
    )
    flat = tf.nn.dropout(tf.reshape(conv, [-1, 64]), keep_prob)
    w = tf.Variable(tf.truncated_normal([64, 2], stddev=0.1, seed=2))
    b = tf.Variable(tf.constant(0.1, shape=[2]))
    y_conv = tf.nn.softmax(tf.matmul(flat, w) + b)
    loss = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y_conv + 1e-9), reduction_indices=[1]))
    train_step = tf.train.AdamOptimizer(1e-2).minimize(loss)
    correct = tf.equal(tf.argmax(y_conv, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    return x, y_, keep_prob, train_step, accuracy


@ray.remote(num_gpus=1)
class CNN_ON_RAY(object):
    def __init__(self, images, labels):
        gpus = ",".join(str(number) for number in ray.get_gpu_ids())
        assert os.environ["CUDA_VISIBLE_DEVICES"] == gpus, os.environ["CUDA_VISIBLE_DEVICES"]
        self.gpus = gpus
        self.images, self.labels = images, labels
        with tf.Graph().as_default():
            with tf.device("/gpu:0"):
                self.x, self.y_, self.keep_prob, self.train_step, self.accuracy = construct_network()
            # Without a GPU, what was put on one runs on the CPU.
            self.sess = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
            self.sess.run(tf.global_variables_initializer())

    def train(self, num_steps):
        feed = {self.x: self.images, self.y_: self.labels, self.keep_prob: 0.9}
        for _ in range(num_steps):
            self.sess.run(self.train_step, feed_dict=feed)

    def get_accuracy(self):
        feed = {self.x: self.images, self.y_: self.labels, self.keep_prob: 1.0}
        return float(self.sess.run(self.accuracy, feed_dict=feed))

    def get_gpus(self):
        return self.gpus


rng = np.random.RandomState(0)
images = rng.rand(200, 16).astype(np.float32)
labels = np.eye(2, dtype=np.float32)[(images[:, :8].sum(1) > images[:, 8:].sum(1)).astype(int)]
nets = [CNN_ON_RAY.remote(images, labels) for _ in range(2)]
print("GPUs:", sorted(ray.get([net.get_gpus.remote() for net in nets])))
[net.train.remote(100) for net in nets]
print("Accuracy over 0.8:", [a > 0.8 for a in ray.get([net.get_accuracy.remote() for net in nets])])
