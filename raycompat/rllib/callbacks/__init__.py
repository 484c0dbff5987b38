"""What is called as an algorithm trains."""

from raycompat.rllib.callbacks.callbacks import HOOKS, RLlibCallback

__all__ = ["HOOKS", "RLlibCallback"]
