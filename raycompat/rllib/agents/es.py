"""ES as a trainer, the form of 2018 to 2022."""

from raycompat._surface.modules import names_of
from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers
from raycompat.rllib.algorithms.es import ES, ESConfig

#: The options, by the names of that time.
DEFAULT_CONFIG = defaults_of_trainers(ESConfig())
ESAgent = agent_class(ES, "ESAgent", __name__)
ESTrainer = agent_class(ES, "ESTrainer", __name__)

__all__ = ["DEFAULT_CONFIG", "ESAgent", "ESTrainer"]

#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
