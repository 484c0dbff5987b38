"""The name that `RLlibCallback` had until 2024."""

from raycompat.rllib.callbacks.callbacks import RLlibCallback as DefaultCallbacks

__all__ = ["DefaultCallbacks"]
