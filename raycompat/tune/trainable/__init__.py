"""Trainables: classes and functions that train."""

from raycompat._surface.modules import names_of
from raycompat.tune.trainable.function_trainable import FunctionTrainable, wrap_function
from raycompat.tune.trainable.trainable import Trainable

#: Names of older Rays.
__getattr__ = names_of(__name__)

__all__ = ["FunctionTrainable", "Trainable", "wrap_function"]
