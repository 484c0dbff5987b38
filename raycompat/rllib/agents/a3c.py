"""A3C as a trainer, the form of 2018 to 2022."""

from raycompat._surface.modules import names_of
from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers
from raycompat.rllib.algorithms.a3c import A2C, A3C, A3CConfig

#: The options, by the names of that time.
DEFAULT_CONFIG = defaults_of_trainers(A3CConfig())
A3CAgent = agent_class(A3C, "A3CAgent", __name__)
A3CTrainer = agent_class(A3C, "A3CTrainer", __name__)
A2CAgent = agent_class(A2C, "A2CAgent", __name__)
A2CTrainer = agent_class(A2C, "A2CTrainer", __name__)

__all__ = ["DEFAULT_CONFIG", "A2CAgent", "A2CTrainer", "A3CAgent", "A3CTrainer"]

#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
