"""PPO as a trainer, the form of 2018 to 2022."""

from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers
from raycompat.rllib.algorithms.ppo import PPO, PPOConfig

#: The options, by the names of that time.
DEFAULT_CONFIG = defaults_of_trainers(PPOConfig())
PPOAgent = agent_class(PPO, "PPOAgent", __name__)
PPOTrainer = agent_class(PPO, "PPOTrainer", __name__)

__all__ = ["DEFAULT_CONFIG", "PPOAgent", "PPOTrainer"]
