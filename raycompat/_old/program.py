"""What the code of a program says about its time, before `raycompat run` executes it."""

from __future__ import annotations

from types import CodeType

from raycompat._old import tensorflow_1
from raycompat._old.train import keras_choice


def prepare_for(program: CodeType) -> None:
    """Choose the Keras and the TensorFlow that a program was written for."""
    keras_choice.choose_for(program)
    tensorflow_1.choose_for(program)
