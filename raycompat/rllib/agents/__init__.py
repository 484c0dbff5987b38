"""Algorithms as trainers, the form of 2018 to 2022: ``agents.ppo.PPOTrainer``."""

import importlib
from typing import Any

from raycompat._surface.modules import names_of

_of_older_rays = names_of(__name__)

_MODULES = ("a3c", "dqn", "es", "ppo")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"raycompat.rllib.agents.{name}")
    return _of_older_rays(name)
