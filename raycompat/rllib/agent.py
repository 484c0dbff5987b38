"""`get_agent_class` where Ray 0.3 to 0.4 had it."""

import importlib

from raycompat.rllib.agents.trainers import Agent
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.registry import ALGORITHMS, get_algorithm_class

__all__ = ["Agent", "get_agent_class"]


def get_agent_class(alg: str) -> type[Algorithm]:
    """Return the agent of an algorithm: of "PPO" `raycompat.rllib.ppo.PPOAgent`.

    Parameters
    ----------
    alg : str
        "A3C", "DQN", "ES" or "PPO".

    Raises
    ------
    ValueError
        When there is none of that name.

    Notes
    -----
    Ray source: ``ray.rllib.agent.get_agent_class``, 0.3.1. No known difference.
    """
    algorithm: type[Algorithm] = get_algorithm_class(alg)
    module = importlib.import_module(f"raycompat.rllib.{ALGORITHMS.get(alg, 'a3c')}")
    found: type[Algorithm] = getattr(module, f"{alg}Agent", algorithm)
    return found
