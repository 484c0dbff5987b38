"""Pictures of ten shapes, 32 by 32 pixels in colour, drawn by numpy: a stand-in
for CIFAR-10.

Place, size, rotation and both colours are random, and noise covers the picture.
So the shape alone tells the class: neither a colour nor any single pixel does.
"""

from typing import NamedTuple

import numpy as np

SIZE = 32
#: What is inside each shape, of points whose distance from the centre is at
#: most 1.
INSIDE = {
    "disk": lambda x, y: np.hypot(x, y) < 0.9,
    "ring": lambda x, y: abs(np.hypot(x, y) - 0.75) < 0.2,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) < 0.72,
    "frame": lambda x, y: abs(np.maximum(abs(x), abs(y)) - 0.58) < 0.17,
    "triangle": lambda x, y: (y < 0.5) & (y > np.sqrt(3) * abs(x) - 1),
    "plus": lambda x, y: (
        (np.maximum(abs(x), abs(y)) < 0.95)
        & (np.minimum(abs(x), abs(y)) < 0.25)
    ),
    "bar": lambda x, y: (abs(x) < 0.95) & (abs(y) < 0.28),
    "crescent": lambda x, y: (
        (np.hypot(x, y) < 0.95) & (np.hypot(x - 0.45, y) > 0.7)
    ),
    # The distance of the edge falls from 1 at each of five tips to 0.4 between
    # two of them.
    "star": lambda x, y: (
        np.hypot(x, y) < 0.4 + 0.6 * _nearness_of_tip(x, y) ** 1.5
    ),
    "half": lambda x, y: (np.hypot(x, y) < 0.95) & (x > 0.1),
}
NAMES = tuple(INSIDE)
#: Difference of brightness between a shape and what is behind it, at least, and
#: the noise's deviation.
CONTRAST, NOISE = 0.3, 0.05
#: Pictures that are drawn at a time; more would only take memory.
PART = 500


class Shapes(NamedTuple):
    """Pictures and their classes.

    Attributes
    ----------
    images : numpy.ndarray, shape (n, 32, 32, 3), uint8
        Row, column and colour: red, green, blue.
    labels : numpy.ndarray, shape (n,), int64
        The position in `NAMES` of the shape that is shown.
    """

    images: np.ndarray
    labels: np.ndarray


def draw_shapes(number, seed):
    """Return `number` pictures; the same seed draws the same ones."""
    random = np.random.default_rng(seed)
    labels = random.integers(len(NAMES), size=number)
    parts = [
        _draw(labels[start : start + PART], random)
        for start in range(0, number, PART)
    ]
    return Shapes(np.concatenate(parts), labels)


def _draw(labels, random):
    each = (len(labels), 1, 1)  # one number for each picture
    radius = random.uniform(7, 11, each)
    angle = random.uniform(0, 2 * np.pi, each)
    rows = np.arange(SIZE)[:, None] - random.uniform(radius, SIZE - 1 - radius)
    columns = np.arange(SIZE) - random.uniform(radius, SIZE - 1 - radius)
    # Turned, and so large that the shape fits into the circle of radius 1.
    x = (np.cos(angle) * columns + np.sin(angle) * rows) / radius
    y = (np.cos(angle) * rows - np.sin(angle) * columns) / radius
    inside = np.zeros(x.shape, bool)
    for label in range(len(NAMES)):
        chosen = labels == label
        inside[chosen] = INSIDE[NAMES[label]](x[chosen], y[chosen])

    behind = random.uniform(0.1, 0.9, (len(labels), 1, 1, 3))
    # As far from the colour behind it as the contrast asks, in each of the
    # three colours.
    away = random.uniform(CONTRAST, 0.6, behind.shape) * np.where(
        behind < 0.5, 1, -1
    )
    images = (
        behind
        + away * inside[..., None]
        + random.normal(0, NOISE, (*inside.shape, 3))
    )
    return (images.clip(0, 1) * 255).astype(np.uint8)


def _nearness_of_tip(x, y):
    """Return 1 in the direction of a tip of the star, 0 halfway between two of
    them.
    """
    return abs(np.arctan2(y, x) / (2 * np.pi) * 5 % 1 - 0.5) * 2
