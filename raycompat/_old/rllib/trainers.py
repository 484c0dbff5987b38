"""Trainers of ``ray.rllib.agents`` for the algorithms that Ray has removed."""

from raycompat._old.rllib.algorithms import (
    PG,
    ApexDQN,
    ApexDQNConfig,
    PGConfig,
    SimpleQ,
    SimpleQConfig,
)
from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers

#: The options, by the names of that time.
APEX_DEFAULT_CONFIG = defaults_of_trainers(ApexDQNConfig())
PG_DEFAULT_CONFIG = defaults_of_trainers(PGConfig())
SIMPLE_Q_DEFAULT_CONFIG = defaults_of_trainers(SimpleQConfig())
ApexAgent = agent_class(ApexDQN, "ApexAgent", __name__)
ApexTrainer = agent_class(ApexDQN, "ApexTrainer", __name__)
PGAgent = agent_class(PG, "PGAgent", __name__)
PGTrainer = agent_class(PG, "PGTrainer", __name__)
SimpleQTrainer = agent_class(SimpleQ, "SimpleQTrainer", __name__)

__all__ = [
    "APEX_DEFAULT_CONFIG",
    "PG_DEFAULT_CONFIG",
    "SIMPLE_Q_DEFAULT_CONFIG",
    "ApexAgent",
    "ApexTrainer",
    "PGAgent",
    "PGTrainer",
    "SimpleQTrainer",
]
