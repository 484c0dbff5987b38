"""DQN as a trainer, the form of 2018 to 2022."""

from raycompat._surface.modules import names_of
from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers
from raycompat.rllib.algorithms.dqn import DQN, DQNConfig

#: The options, by the names of that time.
DEFAULT_CONFIG = defaults_of_trainers(DQNConfig())
DQNAgent = agent_class(DQN, "DQNAgent", __name__)
DQNTrainer = agent_class(DQN, "DQNTrainer", __name__)

__all__ = ["DEFAULT_CONFIG", "DQNAgent", "DQNTrainer"]

#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
