"""Trainables: classes and functions that train."""

from raycompat.tune.trainable.function_trainable import FunctionTrainable, wrap_function
from raycompat.tune.trainable.trainable import Trainable

__all__ = ["FunctionTrainable", "Trainable", "wrap_function"]
