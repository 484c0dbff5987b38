"""Train a Keras model in several processes: each actor has a model, and only
weights travel.

Run it with ``python tutorials/digits_with_keras.py``. It learns to read 1,797
handwritten digits (8 by 8 pixels, from scikit-learn) and takes about half a
minute on two cores.

Each actor is a process that Ray starts around one Python object. Here the
object has a Keras model and its share of the images. In each round

1. the driver, which is this program, stores the weights of its model with
   ``ray.put``;
2. each actor loads them, calls ``model.fit`` on its share, and returns its new
   weights;
3. the driver takes the mean of the weights, and examines the model on digits
   that no actor has seen.
"""

import argparse
import os
import sys
import time

# Actors inherit these from the driver. They only silence TensorFlow's
# greetings.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np
from sklearn.datasets import load_digits

import raycompat as ray

#: Accuracy that the trained model must reach on digits that it has never seen,
#: as a fraction.
REQUIRED_ACCURACY = 0.95
#: More actors would have fewer images than one batch each.
MAX_ACTORS = 22
BATCH_SIZE = 64


def make_model(seed):
    """Return a small convolutional network for images of 8 by 8 pixels."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3), loss=loss, metrics=["accuracy"]
    )
    return model


@ray.remote
class Reader:
    """A model in its own process, with its share of the images."""

    def __init__(self, images, labels, seed):
        self.images, self.labels = images, labels
        self.model = make_model(seed)

    def train(self, weights):
        """Return the weights and the loss after one pass over the share."""
        self.model.set_weights(weights)
        history = self.model.fit(
            self.images, self.labels, batch_size=BATCH_SIZE, epochs=1, verbose=0
        )
        return self.model.get_weights(), history.history["loss"][0]


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


def train(num_actors, num_rounds, seed):
    """Train, print loss and accuracy, and return the latter."""
    images, labels, held_out_images, held_out_labels = split_digits(seed)
    print(
        f"Digits: {len(images):,} to learn from, {len(held_out_images):,} held "
        "out."
    )
    print(
        f"Actors: {num_actors} start now; each imports TensorFlow and makes a "
        "model."
    )
    readers = [
        Reader.remote(images[rank::num_actors], labels[rank::num_actors], seed)
        for rank in range(num_actors)
    ]
    model = make_model(seed)
    print(
        f"Model:  {model.count_params():,} weights, which travel in each round."
    )
    every, accuracy = max(1, num_rounds // 10), 0.0
    started = time.perf_counter()
    for number in range(1, num_rounds + 1):
        # One reference for all actors: the weights are stored once.
        weights = ray.put(model.get_weights())
        replies = ray.get([reader.train.remote(weights) for reader in readers])
        ends, losses = zip(*replies, strict=True)
        model.set_weights(
            [np.mean(each, axis=0) for each in zip(*ends, strict=True)]
        )
        if number in (1, num_rounds) or number % every == 0:
            accuracy = model.evaluate(
                held_out_images, held_out_labels, verbose=0
            )[1]
            print(
                f"round {number:3}   loss {np.mean(losses):.4f}"
                f"   held-out accuracy {accuracy:6.1%}"
                f"   {time.perf_counter() - started:5.1f} s"
            )
    return accuracy


def main(arguments=None):
    """Read the command line, train, and return the exit status: 0 if the model
    reads well.
    """
    parser = argparse.ArgumentParser(
        description="Learn handwritten digits in several processes."
    )
    parser.add_argument(
        "--actors", type=int, default=2, help="processes that train"
    )
    parser.add_argument(
        "--rounds", type=int, default=20, help="passes over the images"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of split, shuffles, initial weights",
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="keep the cluster until Enter is pressed",
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.actors <= MAX_ACTORS:
        parser.error(
            f"--actors is {options.actors}; expected 1 to {MAX_ACTORS}"
        )
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected at least 1")

    # Each line shows at once, also in a pipe.
    sys.stdout.reconfigure(line_buffering=True)
    with ray.init(configure_logging=False) as context:
        print(
            f"Watch:  http://{context.dashboard_url} (the page Ray, while the "
            "program runs)"
        )
        accuracy = train(options.actors, options.rounds, options.seed)
        print(f"Final accuracy on held-out digits: {accuracy:.1%}")
        if options.stay:
            input("Press Enter to end the cluster. ")
    print("Next:   tutorials/weights_on_digits.rst explains this program;")
    print(
        "        --stay keeps the dashboard open, --actors 3 trains with "
        "another process."
    )
    if accuracy < REQUIRED_ACCURACY:
        print(
            f"That is less than the expected {REQUIRED_ACCURACY:.0%}.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
