"""Train a convolutional network in an actor that owns a GPU, and read the
accuracy it prints.

On a machine without a GPU, ``num_gpus=1`` below makes a logical one: Ray counts
it and hands it out, and TensorFlow computes on the CPU.
"""

import os

# The actor inherits these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow.compat.v1 as tf
from digits28 import load_digits28

import raycompat as ray

NUM_STEPS = 50
BATCH_SIZE = 100


class Network:
    """Two convolutions and two dense layers that read digits, with their own
    graph.

    Parameters
    ----------
    seed : int
        Seed of the initial weights and of dropout.
    num_threads : int
        Threads that TensorFlow computes in; 0 is as many as there are cores.
    """

    def __init__(self, seed=0, num_threads=0):
        with tf.Graph().as_default() as graph, tf.device("/gpu:0"):
            tf.set_random_seed(seed)
            self.image = tf.placeholder(tf.float32, [None, 784])
            self.label = tf.placeholder(tf.float32, [None, 10])
            self.drop = tf.placeholder(tf.float32, [])
            scores = self._build_scores()
            loss = tf.losses.softmax_cross_entropy(self.label, scores)
            optimizer = tf.train.AdamOptimizer(1e-3)
            pairs = optimizer.compute_gradients(loss)
            self.gradients = [gradient for gradient, _ in pairs]
            self.step = optimizer.apply_gradients(pairs)
            hits = tf.equal(tf.argmax(scores, 1), tf.argmax(self.label, 1))
            self.hits = tf.reduce_mean(tf.cast(hits, tf.float32))
            # The graph says /gpu:0; where that does not exist, the session may
            # take the CPU.
            config = tf.ConfigProto(
                allow_soft_placement=True,
                intra_op_parallelism_threads=num_threads,
                inter_op_parallelism_threads=num_threads,
            )
            self.session = tf.Session(config=config)
            self.session.run(tf.global_variables_initializer())
            self.variables = ray.experimental.TensorFlowVariables(
                loss, self.session
            )
        graph.finalize()

    def _build_scores(self):
        image = tf.reshape(self.image, [-1, 28, 28, 1])
        small = self._convolve(image, 1, 32)
        smaller = self._convolve(small, 32, 64)
        features = tf.reshape(smaller, [-1, 7 * 7 * 64])
        hidden = tf.nn.relu(self._connect(features, 7 * 7 * 64, 1024))
        return self._connect(tf.nn.dropout(hidden, rate=self.drop), 1024, 10)

    def _convolve(self, image, num_in, num_out):
        """Look for `num_out` patterns of 5 by 5 pixels, and halve the image's
        sides.
        """
        filters = self._make_weights([5, 5, num_in, num_out])
        patterns = tf.nn.conv2d(image, filters, strides=1, padding="SAME")
        patterns = tf.nn.relu(patterns + self._make_biases(num_out))
        return tf.nn.max_pool2d(patterns, ksize=2, strides=2, padding="SAME")

    def _connect(self, features, num_in, num_out):
        return features @ self._make_weights(
            [num_in, num_out]
        ) + self._make_biases(num_out)

    def _make_weights(self, shape):
        return tf.Variable(tf.truncated_normal(shape, stddev=0.1))

    def _make_biases(self, size):
        return tf.Variable(tf.constant(0.1, shape=[size]))

    def train(self, digits):
        """Take one step."""
        feed = {
            self.image: digits.images,
            self.label: digits.labels,
            self.drop: 0.5,
        }
        self.session.run(self.step, feed)

    def compute_gradients(self, digits):
        """Return gradients as arrays; no step is taken."""
        feed = {
            self.image: digits.images,
            self.label: digits.labels,
            self.drop: 0.5,
        }
        return self.session.run(self.gradients, feed)

    def apply_gradients(self, gradients):
        """Take one step with gradients that were computed elsewhere."""
        self.session.run(
            self.step, dict(zip(self.gradients, gradients, strict=True))
        )

    def accuracy(self, digits):
        """Return the fraction of digits that are read correctly."""
        feed = {
            self.image: digits.images,
            self.label: digits.labels,
            self.drop: 0.0,
        }
        return float(self.session.run(self.hits, feed))


@ray.remote(num_gpus=1)
class DigitReader:
    """A network in its own process, with its own GPU."""

    def __init__(self, digits, held_out):
        self.network = Network()
        self.batches = digits.batches(BATCH_SIZE, seed=0)
        self.held_out = held_out

    def train(self, num_steps):
        """Train, and return the accuracy on held-out digits, which is also
        printed on the way.
        """
        print(
            f"GPU {ray.get_gpu_ids()}, "
            f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']}"
        )
        for step in range(num_steps + 1):
            if step % 25 == 0:
                accuracy = self.network.accuracy(self.held_out)
                print(
                    f"step {step:2}: {accuracy:.1%} of the held-out digits are "
                    "read"
                )
            self.network.train(next(self.batches))
        return accuracy


def main():
    ray.init(num_cpus=1, num_gpus=1, include_dashboard=False)
    name, digits, held_out = load_digits28()
    print(f"{name}: {len(digits.images):,} digits to learn from", flush=True)
    reader = DigitReader.remote(digits, held_out)
    accuracy = ray.get(reader.train.remote(NUM_STEPS))
    print(f"more than 80 %: {accuracy > 0.8}")
    ray.shutdown()


if __name__ == "__main__":
    main()
