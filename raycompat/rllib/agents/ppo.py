"""PPO as a trainer, the form of 2018 to 2022."""

from raycompat._surface.modules import names_of
from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers
from raycompat.rllib.algorithms.ppo import PPO, PPOConfig

#: The options, by the names of that time.
DEFAULT_CONFIG = defaults_of_trainers(PPOConfig())
PPOAgent = agent_class(PPO, "PPOAgent", __name__)
PPOTrainer = agent_class(PPO, "PPOTrainer", __name__)

__all__ = ["DEFAULT_CONFIG", "PPOAgent", "PPOTrainer"]

#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
