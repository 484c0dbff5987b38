"""Train a Keras model on digits that lie in several actors, with eager
gradients.

The actors keep their share of the digits, load the driver's weights into their
models and return gradients. The driver averages them and gives them to its
optimizer.
"""

import os

# The actors inherit these. They silence TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import raycompat as ray

NUM_ACTORS = 2
NUM_STEPS = 100
#: Digits in each actor's part of a minibatch.
BATCH_SIZE = 64
NUM_HELD_OUT = 357


def build_model():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.layers.Input([64]),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


class Learner:
    """A model, and the digits that it learns from."""

    def __init__(self, images, labels):
        self.model = build_model()
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.images, self.labels = images, labels
        self.rng = np.random.default_rng(0)
        # Traced into a graph at the first call; the graph is used again while
        # shapes stay.
        self.compute = tf.function(self._compute)

    def compute_gradients(self, weights):
        """Return the gradients at the given weights on some of the digits, as
        arrays.
        """
        self.model.set_weights(weights)
        rows = self.rng.choice(len(self.images), BATCH_SIZE, replace=False)
        gradients = self.compute(
            tf.constant(self.images[rows]), tf.constant(self.labels[rows])
        )
        return [gradient.numpy() for gradient in gradients]

    def _compute(self, images, labels):
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(images))
        return tape.gradient(loss, self.model.trainable_variables)


def main():
    ray.init(num_cpus=NUM_ACTORS, include_dashboard=False)
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    held_out = images[:NUM_HELD_OUT]
    held_out_labels = digits.target[:NUM_HELD_OUT]
    images, labels = images[NUM_HELD_OUT:], digits.target[NUM_HELD_OUT:]

    remote_learner = ray.remote(Learner)
    shares = zip(
        np.split(images, NUM_ACTORS), np.split(labels, NUM_ACTORS), strict=True
    )
    actors = [remote_learner.remote(*share) for share in shares]

    model = build_model()
    optimizer = keras.optimizers.Adam(5e-3)
    for step in range(NUM_STEPS + 1):
        if step % 100 == 0:
            scores = model(held_out).numpy()
            accuracy = np.mean(scores.argmax(axis=1) == held_out_labels)
            print(f"step {step:3}: more than 85 % read: {accuracy > 0.85}")
        weights = ray.put(model.get_weights())
        replies = ray.get(
            [actor.compute_gradients.remote(weights) for actor in actors]
        )
        gradients = [
            np.mean(parts, axis=0) for parts in zip(*replies, strict=True)
        ]
        optimizer.apply(gradients, model.trainable_variables)
    ray.shutdown()


if __name__ == "__main__":
    main()
