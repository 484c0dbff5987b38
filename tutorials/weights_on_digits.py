"""Train one network in several processes: the graphs stay, the weights travel.

Run it with ``python tutorials/weights_on_digits.py``. It learns to read 1,797
handwritten digits (8 by 8 pixels, from scikit-learn) and takes well under a
minute on a laptop.

A TensorFlow 1 program first describes its computation as a *graph* and then
runs parts of it in a *session*. Neither can be pickled, so neither can be sent
to another process. They need not be: what training changes is the values of the
variables, and those are a small dictionary of NumPy arrays.

So every process builds the same graph for itself, once, and keeps it. Here
these are the driver (this program) and two actors (processes that Ray starts,
each around one Python object). Then, for each step of the training:

1. the driver reads the weights of its network into a dictionary and stores it
   with ``ray.put``;
2. each actor gets the reference, loads the weights into its own network, and
   computes the gradients of the loss on its share of a shuffled minibatch;
3. the driver averages the gradients of all actors and applies them to its own
   network.

Why "once" matters: in TensorFlow 1 a line such as ``variable.assign(value)``
adds nodes to the graph. In a loop the graph grows with every step, and every
step is slower than the last. ``ray.experimental.TensorFlowVariables`` adds the
few nodes that reading and writing weights need when it is made. After that this
program finalizes its graphs: from then on TensorFlow itself refuses to add any.

Two names come from elsewhere than they once did. TensorFlow 2 keeps TensorFlow
1 in ``tensorflow.compat.v1``. And while this is a Ray program in every line but
the import, a recent Ray has ``TensorFlowVariables`` in
``ray.rllib.utils.tf_utils`` only.
"""

import argparse
import os
import sys
import time

# Actors inherit these from the driver. They only silence TensorFlow's
# greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import raycompat as ray

#: Images in each actor's share of a minibatch.
SHARE = 64
#: More actors would need more images than there are for one minibatch.
MAX_ACTORS = 22
#: Accuracy that the trained network must reach on digits that it has never
#: seen, as a fraction.
REQUIRED_ACCURACY = 0.95


class Network:
    """A small convolutional network with its own graph and session.

    The driver makes one as an ordinary object. Each actor makes one in its own
    process.

    Parameters
    ----------
    images : numpy.ndarray, shape (n, 8, 8, 1), float32
        Handwritten digits: row, column and one channel, each pixel from 0
        (paper) to 1 (ink).
    labels : numpy.ndarray, shape (n,), int64
        The digit that each image shows, 0 to 9.
    seed : int
        Seed of the initial weights.
    """

    def __init__(self, images, labels, seed):
        self.images = images
        self.labels = labels
        # One graph for each network: in a shared graph the second one's
        # variables would get other names than the first one's, and weights
        # could not move from one to the other.
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            self.image_input = tf.placeholder(tf.float32, [None, 8, 8, 1])
            self.label_input = tf.placeholder(tf.int64, [None])

            def weight(name, *shape):
                return tf.get_variable(
                    name, shape, initializer=tf.glorot_uniform_initializer()
                )

            def bias(name, size):
                return tf.get_variable(
                    name, [size], initializer=tf.zeros_initializer()
                )

            # 16 small filters look for strokes; max_pool halves both sides to 4
            # by 4.
            filters = weight("strokes/weight", 3, 3, 1, 16)
            strokes = tf.nn.conv2d(
                self.image_input, filters, strides=1, padding="SAME"
            )
            strokes = tf.nn.relu(strokes + bias("strokes/bias", 16))
            strokes = tf.nn.max_pool2d(
                strokes, ksize=2, strides=2, padding="SAME"
            )
            shapes = tf.reshape(strokes, [-1, 4 * 4 * 16])
            shapes = tf.nn.relu(
                shapes @ weight("shapes/weight", 256, 64)
                + bias("shapes/bias", 64)
            )
            scores = shapes @ weight("digits/weight", 64, 10) + bias(
                "digits/bias", 10
            )

            self.loss = tf.losses.sparse_softmax_cross_entropy(
                self.label_input, scores
            )
            hits = tf.equal(tf.argmax(scores, axis=1), self.label_input)
            self.accuracy_node = tf.reduce_mean(tf.cast(hits, tf.float32))

            optimizer = tf.train.AdamOptimizer(learning_rate=2e-3)
            pairs = optimizer.compute_gradients(self.loss)
            self.gradient_nodes = [gradient for gradient, _ in pairs]
            self.train_node = optimizer.apply_gradients(pairs)

            # Several processes share this machine, so each computes in one
            # thread.
            config = tf.ConfigProto(
                intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
            )
            self.session = tf.Session(config=config)
            self.session.run(tf.global_variables_initializer())
            self.variables = ray.experimental.TensorFlowVariables(
                self.loss, self.session
            )
        graph.finalize()

    def get_weights(self):
        """Return the weights as a dictionary of arrays by variable name."""
        return self.variables.get_weights()

    def compute_gradients(self, weights, rows):
        """Load weights, and return the loss on some images with its gradients:
        no training step.

        `rows` are positions in this network's images. The gradients are a list
        of arrays, one for each variable.
        """
        self.variables.set_weights(weights)
        feed = {
            self.image_input: self.images[rows],
            self.label_input: self.labels[rows],
        }
        return self.session.run(
            [self.loss, self.gradient_nodes], feed_dict=feed
        )

    def apply_gradients(self, gradients):
        """Take one training step with gradients that were computed elsewhere.

        The optimizer reads its gradients from nodes of the graph. Feeding those
        nodes puts the given arrays in their place, so that nothing is computed
        from images here.
        """
        feed = dict(zip(self.gradient_nodes, gradients, strict=True))
        self.session.run(self.train_node, feed_dict=feed)

    def accuracy(self):
        """Return the fraction of its images that this network reads well."""
        feed = {self.image_input: self.images, self.label_input: self.labels}
        return float(self.session.run(self.accuracy_node, feed_dict=feed))


def split_digits(seed):
    """Return training images and labels, held-out images and labels: four
    fifths and one fifth.
    """
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    order = np.random.default_rng(seed).permutation(len(images))
    held_out, training = np.split(order, [len(order) // 5])
    return (
        images[training],
        digits.target[training],
        images[held_out],
        digits.target[held_out],
    )


def minibatches(num_images, size, seed):
    """Yield positions of `size` images, for ever: a fresh shuffle for each pass
    over all images.
    """
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(num_images)
        for start in range(0, num_images - size + 1, size):
            yield order[start : start + size]


def train(num_actors, num_steps, seed):
    """Train with `num_actors` actors, print the progress, and return the
    held-out accuracy.
    """
    images, labels, held_out_images, held_out_labels = split_digits(seed)
    print(
        f"Digits: {len(images):,} to learn from, {len(held_out_images):,} held "
        "out.\n"
        f"Actors: {num_actors} start now; each imports TensorFlow and builds "
        "its own graph.",
        flush=True,
    )
    # The training images are stored once. The actors read them where they are;
    # only weights, row numbers and gradients travel later.
    images_ref, labels_ref = ray.put(images), ray.put(labels)
    remote_network = ray.remote(Network)
    actors = [
        remote_network.remote(images_ref, labels_ref, seed)
        for _ in range(num_actors)
    ]

    # The driver's network takes the training steps and is the one that is
    # examined.
    network = Network(held_out_images, held_out_labels, seed)
    ray.get([actor.get_weights.remote() for actor in actors])
    count = network.variables.get_flat_size()
    print(
        f"Graphs: all built. From now on {count:,} weights travel in each "
        "step.",
        flush=True,
    )

    batches = minibatches(len(images), SHARE * num_actors, seed)
    report_every = max(1, num_steps // 10)
    reported, started = 0, time.perf_counter()
    for step in range(1, num_steps + 1):
        # One reference for all actors: the weights are stored once, however
        # many read them.
        weights = ray.put(network.get_weights())
        shares = np.split(next(batches), num_actors)
        replies = ray.get(
            [
                actor.compute_gradients.remote(weights, rows)
                for actor, rows in zip(actors, shares, strict=True)
            ]
        )
        losses, gradients = zip(*replies, strict=True)
        # Every share has the same size, so the mean over actors is the mean
        # over the minibatch.
        network.apply_gradients(
            [np.mean(g, axis=0) for g in zip(*gradients, strict=True)]
        )

        if step % report_every == 0 or step == num_steps:
            seconds = time.perf_counter() - started
            rate = (step - reported) * SHARE * num_actors / seconds
            print(
                f"step {step:5,}   loss {np.mean(losses):.4f}   "
                f"held-out accuracy {network.accuracy():6.1%}   {rate:8,.0f} "
                "images/s",
                flush=True,
            )
            reported, started = step, time.perf_counter()
    return network.accuracy()


def main(arguments=None):
    """Read the command line, train, and return the exit status: 0 if the
    network reads well.
    """
    parser = argparse.ArgumentParser(
        description="Learn handwritten digits in several processes."
    )
    parser.add_argument(
        "--actors", type=int, default=2, help="processes that compute gradients"
    )
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of split, shuffles, initial weights",
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.actors <= MAX_ACTORS:
        parser.error(
            f"--actors is {options.actors}; expected 1 to {MAX_ACTORS}"
        )
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}; expected at least 1")

    ray.init()
    try:
        accuracy = train(options.actors, options.steps, options.seed)
    finally:
        ray.shutdown()
    print(f"Final accuracy on held-out digits: {accuracy:.1%}")
    if accuracy < REQUIRED_ACCURACY:
        print(
            f"That is less than the expected {REQUIRED_ACCURACY:.0%}.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
