"""Pictures of ten shapes, 32 by 32 pixels in colour, drawn by numpy: a stand-in for CIFAR-10.

Place, size, rotation and both colours are random, and noise covers the picture. So the shape alone
tells the class: neither a colour nor any single pixel does.
"""

from typing import NamedTuple

import numpy as np

SIZE = 32
NAMES = ("disk", "ring", "square", "frame", "triangle", "plus", "bar", "crescent", "star", "half")
#: Difference of brightness between a shape and what is behind it, at least, and the noise's deviation.
CONTRAST, NOISE = 0.25, 0.08
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
    parts = [_draw(labels[start : start + PART], random) for start in range(0, number, PART)]
    return Shapes(np.concatenate(parts), labels)


def _draw(labels, random):
    radius, angle = random.uniform(6, 11, len(labels)), random.uniform(0, 2 * np.pi, len(labels))
    centre = random.uniform(radius, SIZE - 1 - radius, (2, len(labels)))
    rows, columns = np.arange(SIZE)[:, None] - centre[0][:, None, None], (
        np.arange(SIZE) - centre[1][:, None, None]
    )
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    scale = radius[:, None, None]
    x, y = (cos * columns + sin * rows) / scale, (cos * rows - sin * columns) / scale
    inside = np.zeros(x.shape, bool)
    for label in range(len(NAMES)):
        chosen = labels == label
        inside[chosen] = _is_inside(NAMES[label], x[chosen], y[chosen])

    behind = random.uniform(0.1, 0.9, (len(labels), 1, 1, 3))
    # As far from the colour behind it as the contrast asks, in each of the three colours.
    away = random.uniform(CONTRAST, 0.6, behind.shape) * np.where(behind < 0.5, 1, -1)
    images = behind + away * inside[..., None] + random.normal(0, NOISE, (*inside.shape, 3))
    return (images.clip(0, 1) * 255).astype(np.uint8)


def _is_inside(name, x, y):
    """Say for each point whether it is in the shape, which fits into the circle of radius 1."""
    distance, nearer, farther = (
        np.hypot(x, y),
        np.minimum(abs(x), abs(y)),
        np.maximum(abs(x), abs(y)),
    )
    match name:
        case "disk":
            return distance < 0.9
        case "ring":
            return (0.55 < distance) & (distance < 0.95)
        case "square":
            return farther < 0.72
        case "frame":
            return (0.42 < farther) & (farther < 0.75)
        case "triangle":
            return (y < 0.5) & (y > np.sqrt(3) * abs(x) - 1)
        case "plus":
            return (farther < 0.95) & (nearer < 0.25)
        case "bar":
            return (abs(x) < 0.95) & (abs(y) < 0.28)
        case "crescent":
            return (distance < 0.95) & (np.hypot(x - 0.45, y) > 0.7)
        case "star":
            # The radius falls from 1 at a tip to 0.4 between two of the five tips.
            turn = abs(np.arctan2(y, x) / (2 * np.pi) * 5 % 1 - 0.5) * 2
            return distance < 0.4 + 0.6 * turn**1.5
        case "half":
            return (distance < 0.95) & (x > 0.1)
    raise ValueError(name)
