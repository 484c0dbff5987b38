"""Algorithms of reinforcement learning, one module each."""

import importlib
from typing import Any

#: Where classes are that programs import from here.
_WHERE = {
    "A2C": "a3c",
    "A2CConfig": "a3c",
    "A3C": "a3c",
    "A3CConfig": "a3c",
    "Algorithm": "algorithm",
    "AlgorithmConfig": "algorithm_config",
    "DQN": "dqn",
    "DQNConfig": "dqn",
    "ES": "es",
    "ESConfig": "es",
    "PPO": "ppo",
    "PPOConfig": "ppo",
}

__all__ = [*sorted(_WHERE)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        module = importlib.import_module(f"raycompat.rllib.algorithms.{_WHERE[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
