"""`get_agent_class` where Ray 0.3 to 0.4 had it."""

from raycompat.rllib.agents.trainers import Agent
from raycompat.rllib.algorithms.registry import get_algorithm_class as get_agent_class

__all__ = ["Agent", "get_agent_class"]
