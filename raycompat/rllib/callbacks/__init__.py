"""What is called as an algorithm trains."""

from raycompat.rllib.callbacks.callbacks import RLlibCallback

__all__ = ["RLlibCallback"]
