"""Names of ``ray.rllib.agents.agent``, ``.registry`` and ``.trainer``: agents by their names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from raycompat.rllib.agents.trainers import Agent, defaults_of_trainers
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.registry import ALGORITHMS, get_algorithm_class

Trainer = Agent

#: The options that all trainers have, by the names of their time.
COMMON_CONFIG = defaults_of_trainers(AlgorithmConfig())


def with_common_config(extra_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of all trainers, and those given.

    Parameters
    ----------
    extra_config : mapping
        Options in place of, or beside, those of all trainers.
    """
    return {**COMMON_CONFIG, **extra_config}


def get_agent_class(alg: str) -> type[Any]:
    """Return the agent of an algorithm, such as ``ray.rllib.agents.ppo.PPOAgent``.

    Parameters
    ----------
    alg : str
        "A2C", "A3C", "APEX", "APPO", "DQN", "ES", "IMPALA", "PG" or "PPO".

    Raises
    ------
    ValueError
        When there is none of that name.
    """
    return _in_its_old_form(alg, "Agent")


def get_trainer_class(alg: str, return_config: bool = False) -> Any:
    """Return the trainer of an algorithm, such as ``ray.rllib.agents.ppo.PPOTrainer``.

    Parameters
    ----------
    alg : str
        "A2C", "A3C", "APEX", "APPO", "DQN", "ES", "IMPALA", "PG", "PPO" or "SimpleQ".
    return_config : bool, default False
        Whether to return a tuple of the trainer and its default options, a dict.

    Raises
    ------
    ValueError
        When there is none of that name.
    """
    trainer = _in_its_old_form(alg, "Trainer")
    return (trainer, trainer.get_default_config().to_dict()) if return_config else trainer


#: Algorithms that have a module in `raycompat.rllib.agents`, and the names of others' classes.
_WITH_A_MODULE = ("A2C", "A3C", "DQN", "ES", "PPO")
_STEMS = {"APEX": "Apex", "IMPALA": "Impala"}


def _in_its_old_form(name: str, form: str) -> type[Any]:
    if name in _WITH_A_MODULE:
        module, stem = f"raycompat.rllib.agents.{ALGORITHMS[name]}", name
    else:
        get_algorithm_class(name)  # raises for what is no algorithm, and warns of removed ones
        module, stem = "raycompat._old.rllib.trainers", _STEMS.get(name, name)
    found: type[Any] = getattr(importlib.import_module(module), f"{stem}{form}")
    return found


__all__ = [
    "COMMON_CONFIG",
    "Agent",
    "Trainer",
    "get_agent_class",
    "get_trainer_class",
    "with_common_config",
]
