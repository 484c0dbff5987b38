"""The digits of the guides: MNIST where Keras has it, a stand-in elsewhere, by one call."""

import os
import subprocess
import sys
from pathlib import Path

TUTORIALS = Path(__file__).parents[2] / "tutorials"
PROGRAM = """
from digits28 import load_digits28

name, digits, held_out = load_digits28()
assert digits.images.dtype == "float32" and digits.images.shape == (len(digits.labels), 784)
assert digits.images.min() == 0 and digits.images.max() == 1
assert (digits.labels.sum(axis=1) == 1).all() and digits.labels.shape[1] == 10
print(name, len(digits.images), len(held_out.images), sep=", ")
"""
#: Keras refuses a cached file that is not MNIST's own, so what it would read from it is made here.
SMALL_MNIST = """
import sys
from types import SimpleNamespace

import numpy as np

rng = np.random.default_rng(0)

def make_digits(number):
    images = rng.integers(0, 256, (number, 28, 28), dtype=np.uint8)
    images[0, 0, :2] = 0, 255
    return images, rng.integers(0, 10, number, dtype=np.uint8)

mnist = SimpleNamespace(load_data=lambda: (make_digits(60), make_digits(10)))
sys.modules["keras"] = SimpleNamespace(datasets=SimpleNamespace(mnist=mnist))
"""


def run(program: str, keras_home: Path) -> str:
    environment = os.environ | {"KERAS_HOME": str(keras_home)}
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, cwd=TUTORIALS, env=environment, text=True).strip()


def test_mnist_is_used_where_keras_has_it(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mnist.npz").touch()
    assert run(SMALL_MNIST + PROGRAM, tmp_path) == "MNIST, 60, 10"


def test_the_stand_in_is_used_elsewhere(tmp_path: Path) -> None:
    assert run(SMALL_MNIST + PROGRAM, tmp_path) == "scikit-learn's digits, 1297, 500"
