"""Algorithms of reinforcement learning, one module each."""

import importlib
from typing import Any

from raycompat._surface.modules import names_of

_of_older_rays = names_of(__name__)

#: Where classes are that programs import from here.
_WHERE = {
    "A2C": "a3c",
    "A2CConfig": "a3c",
    "A3C": "a3c",
    "A3CConfig": "a3c",
    "APPO": "appo",
    "APPOConfig": "appo",
    "Algorithm": "algorithm",
    "AlgorithmConfig": "algorithm_config",
    "BC": "bc",
    "BCConfig": "bc",
    "CQL": "cql",
    "CQLConfig": "cql",
    "DQN": "dqn",
    "DQNConfig": "dqn",
    "ES": "es",
    "ESConfig": "es",
    "IMPALA": "impala",
    "IMPALAConfig": "impala",
    "MARWIL": "marwil",
    "MARWILConfig": "marwil",
    "PPO": "ppo",
    "PPOConfig": "ppo",
    "SAC": "sac",
    "SACConfig": "sac",
}

__all__ = [*sorted(_WHERE)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        module = importlib.import_module(f"raycompat.rllib.algorithms.{_WHERE[name]}")
        return getattr(module, name)
    return _of_older_rays(name)
