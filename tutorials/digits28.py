"""Handwritten digits of 28 by 28 pixels: MNIST if Keras has it on this disk,
else a stand-in.

The stand-in is scikit-learn's set of 1,797 real digits of 8 by 8 pixels,
enlarged to 20 by 20 and centred, as MNIST's are. It is much smaller than MNIST
and easier to read.

``python -c "import keras; keras.datasets.mnist.load_data()"`` downloads MNIST
(11 MB), once.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: Digits of the stand-in that are held out; MNIST comes with 10,000 of them.
NUM_HELD_OUT = 500


class Digits(NamedTuple):
    """Images and their labels.

    Attributes
    ----------
    images : numpy.ndarray, shape (n, 784), float32
        Pixels row by row, from 0 (paper) to 1 (ink).
    labels : numpy.ndarray, shape (n, 10), float32
        1 at the digit that the image shows, 0 elsewhere.
    """

    images: np.ndarray
    labels: np.ndarray

    def batches(self, size, seed):
        """Yield `size` digits at a time, for ever: a fresh shuffle for each
        pass over all.
        """
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(len(self.images))
            for start in range(0, len(order) - size + 1, size):
                rows = order[start : start + size]
                yield Digits(self.images[rows], self.labels[rows])


def load_digits28():
    """Return the name of the set, digits to learn from, and digits held out."""
    keras_home = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"))
    if (keras_home / "datasets" / "mnist.npz").exists():
        from keras import datasets

        (images, labels), (held_out_images, held_out_labels) = (
            datasets.mnist.load_data()
        )
        images, held_out_images = images / 255, held_out_images / 255
        name = "MNIST"
    else:
        images, labels = _load_stand_in()
        held_out_images = images[:NUM_HELD_OUT]
        held_out_labels = labels[:NUM_HELD_OUT]
        images, labels = images[NUM_HELD_OUT:], labels[NUM_HELD_OUT:]
        name = "scikit-learn's digits"
    return name, _pack(images, labels), _pack(held_out_images, held_out_labels)


def _load_stand_in():
    from sklearn import datasets

    digits = datasets.load_digits()
    # Linear interpolation, first along rows and then along columns: one 20 by 8
    # matrix does it.
    enlarge = np.stack(
        [np.interp(np.linspace(0, 7, 20), range(8), row) for row in np.eye(8)],
        1,
    )
    images = enlarge @ (digits.images / 16) @ enlarge.T
    return np.pad(images, [(0, 0), (4, 4), (4, 4)]), digits.target


def _pack(images, labels):
    images = images.reshape(len(images), 784).astype(np.float32)
    return Digits(images, np.eye(10, dtype=np.float32)[labels])
