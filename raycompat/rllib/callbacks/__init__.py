"""Callbacks of the training of an algorithm."""

from raycompat.rllib.callbacks.callbacks import RLlibCallback

__all__ = ["RLlibCallback"]
