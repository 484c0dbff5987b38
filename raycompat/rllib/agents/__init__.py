"""Algorithms as trainers, the form of 2018 to 2022: ``agents.ppo.PPOTrainer``."""

import importlib
from typing import Any

_MODULES = ("a3c", "dqn", "es", "ppo")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"raycompat.rllib.agents.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
