"""The name that `RLlibCallback` had until 2024."""

from raycompat._surface.modules import names_of
from raycompat.rllib.callbacks.callbacks import RLlibCallback as DefaultCallbacks

__all__ = ["DefaultCallbacks"]


__getattr__ = names_of(__name__)
