"""Train a residual network on several GPU actors that average their weights;
another actor tests it.

Each actor takes some steps on its own pictures from the same weights. The
driver computes the mean of the new weights, and gives it to all. On a machine
without GPUs, ``num_gpus`` counts logical ones: the actors are placed in the
same way, and TensorFlow computes on CPUs.
"""

import argparse
import os

# The actors inherit this. It silences TensorFlow's greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from shapes32 import NAMES, SIZE, Shapes, draw_shapes

import raycompat as ray

NUM_ACTORS = 2
#: Pictures that each actor learns from, and pictures of the test.
NUM_PICTURES, NUM_TEST_PICTURES = 10_000, 1_000
#: Steps of an actor between two means, pictures of one step, and means between
#: two tests.
NUM_STEPS, BATCH_SIZE, MEANS_A_TEST = 10, 64, 10
NUM_MEANS = 80
#: Learning rate of the first step; it falls to 0 along a cosine.
RATE = 0.005


#: How slowly the layers of normalization forget earlier steps; Keras's 0.99 is
#: for longer trainings.
MOMENTUM = 0.9


def residual_block(x, num_filters, stride):
    """Return two convolutions of `x`, added to `x` (He et al. 2016,
    arXiv:1512.03385).
    """
    from keras import layers

    y = layers.Conv2D(num_filters, 3, stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization(momentum=MOMENTUM)(y))
    y = layers.Conv2D(num_filters, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization(momentum=MOMENTUM)(y)
    # Half the height and the width, and other filters: x is made as large.
    if stride > 1:
        x = layers.Conv2D(num_filters, 1, stride, use_bias=False)(x)
        x = layers.BatchNormalization(momentum=MOMENTUM)(x)
    return layers.ReLU()(x + y)


def build_model(num_means):
    """Return a network of eight layers, with random weights that are the same
    in each process.
    """
    import keras
    import tensorflow as tf
    from keras import layers

    # Several processes share the machine, so each computes in one thread.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    pictures = layers.Input((SIZE, SIZE, 3))
    x = layers.Rescaling(1 / 127.5, -1)(pictures)
    x = layers.Conv2D(16, 3, 2, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization(momentum=MOMENTUM)(x))
    for num_filters, stride in ((16, 1), (32, 2), (64, 2)):
        x = residual_block(x, num_filters, stride)
    scores = layers.Dense(len(NAMES))(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(pictures, scores)
    rate = keras.optimizers.schedules.CosineDecay(RATE, num_means * NUM_STEPS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    return model


@ray.remote(num_gpus=1)
class Trainer:
    """A copy of the network, and the pictures that it learns from. It has a GPU
    to itself.
    """

    def __init__(self, number, num_pictures, num_means):
        self.model = build_model(num_means)
        self.pictures = draw_shapes(num_pictures, seed=number + 1)
        self.random = np.random.default_rng(number)

    def get_weights(self):
        """Return the weights, and the number of the GPU."""
        return self.model.get_weights(), ray.get_gpu_ids()

    def take_steps(self, weights):
        """Take some steps from the given weights, and return the weights
        afterwards.
        """
        self.model.set_weights(weights)
        for _ in range(NUM_STEPS):
            rows = self.random.integers(
                len(self.pictures.labels), size=BATCH_SIZE
            )
            images = self.pictures.images[rows]
            if self.random.random() < 0.5:
                # In a mirror each shape is of the same class.
                images = images[:, :, ::-1]
            self.model.train_on_batch(images, self.pictures.labels[rows])
        return self.model.get_weights()


@ray.remote(num_cpus=0)
class Tester:
    """A copy of the network that is not trained, and pictures that no trainer
    has.
    """

    def __init__(self, num_means):
        self.model = build_model(num_means)
        self.pictures: Shapes = draw_shapes(NUM_TEST_PICTURES, seed=0)

    def accuracy(self, weights):
        """Return the share of the pictures whose shape the network names."""
        self.model.set_weights(weights)
        scores = self.model.predict(
            self.pictures.images, batch_size=250, verbose=0
        )
        return float((scores.argmax(axis=1) == self.pictures.labels).mean())


def train(num_means, num_pictures):
    """Yield the number of means and the accuracy that their weights have in the
    test.
    """
    trainers = [
        Trainer.remote(number, num_pictures, num_means)
        for number in range(NUM_ACTORS)
    ]
    tester = Tester.remote(num_means)
    replies = ray.get([trainer.get_weights.remote() for trainer in trainers])
    print("GPUs of the actors:", *(gpus for _, gpus in replies))
    weights = ray.put(replies[0][0])
    tested, accuracy = 0, tester.accuracy.remote(weights)
    for number in range(1, num_means + 1):
        replies = ray.get(
            [trainer.take_steps.remote(weights) for trainer in trainers]
        )
        # A list of arrays from each trainer: the mean of the first arrays, of
        # the second, and so on.
        weights = ray.put(
            [np.mean(arrays, axis=0) for arrays in zip(*replies, strict=True)]
        )
        if number % MEANS_A_TEST == 0:
            # The test of the weights of some means ago ran while the trainers
            # went on.
            yield tested, ray.get(accuracy)
            tested, accuracy = number, tester.accuracy.remote(weights)
    yield tested, ray.get(accuracy)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--means", type=int, default=NUM_MEANS)
    parser.add_argument("--pictures", type=int, default=NUM_PICTURES)
    options = parser.parse_args()

    ray.init(num_cpus=NUM_ACTORS, num_gpus=NUM_ACTORS, include_dashboard=False)
    for number, accuracy in train(options.means, options.pictures):
        print(
            f"{number:3} means: {accuracy:6.1%} of the test's shapes are named",
            flush=True,
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
