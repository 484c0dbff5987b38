"""Trainers of ``ray.rllib.agents`` for algorithms that have no module there."""

from raycompat._old.rllib.algorithms import (
    PG,
    ApexDQN,
    ApexDQNConfig,
    PGConfig,
    SimpleQ,
    SimpleQConfig,
)
from raycompat.rllib.agents.trainers import agent_class, defaults_of_trainers
from raycompat.rllib.algorithms.appo import APPO, APPOConfig
from raycompat.rllib.algorithms.bc import BC, BCConfig
from raycompat.rllib.algorithms.cql import CQL, CQLConfig
from raycompat.rllib.algorithms.impala import IMPALA, IMPALAConfig
from raycompat.rllib.algorithms.marwil import MARWIL, MARWILConfig
from raycompat.rllib.algorithms.sac import SAC, SACConfig

#: The options, by the names of that time.
APEX_DEFAULT_CONFIG = defaults_of_trainers(ApexDQNConfig())
APPO_DEFAULT_CONFIG = defaults_of_trainers(APPOConfig())
BC_DEFAULT_CONFIG = defaults_of_trainers(BCConfig())
CQL_DEFAULT_CONFIG = defaults_of_trainers(CQLConfig())
IMPALA_DEFAULT_CONFIG = defaults_of_trainers(IMPALAConfig())
MARWIL_DEFAULT_CONFIG = defaults_of_trainers(MARWILConfig())
PG_DEFAULT_CONFIG = defaults_of_trainers(PGConfig())
SAC_DEFAULT_CONFIG = defaults_of_trainers(SACConfig())
SIMPLE_Q_DEFAULT_CONFIG = defaults_of_trainers(SimpleQConfig())
ApexAgent = agent_class(ApexDQN, "ApexAgent", __name__)
ApexTrainer = agent_class(ApexDQN, "ApexTrainer", __name__)
APPOAgent = agent_class(APPO, "APPOAgent", __name__)
APPOTrainer = agent_class(APPO, "APPOTrainer", __name__)
ImpalaAgent = agent_class(IMPALA, "ImpalaAgent", __name__)
ImpalaTrainer = agent_class(IMPALA, "ImpalaTrainer", __name__)
PGAgent = agent_class(PG, "PGAgent", __name__)
PGTrainer = agent_class(PG, "PGTrainer", __name__)
BCTrainer = agent_class(BC, "BCTrainer", __name__)
CQLTrainer = agent_class(CQL, "CQLTrainer", __name__)
MARWILTrainer = agent_class(MARWIL, "MARWILTrainer", __name__)
SACTrainer = agent_class(SAC, "SACTrainer", __name__)
SimpleQTrainer = agent_class(SimpleQ, "SimpleQTrainer", __name__)

__all__ = [
    "APEX_DEFAULT_CONFIG",
    "APPO_DEFAULT_CONFIG",
    "BC_DEFAULT_CONFIG",
    "CQL_DEFAULT_CONFIG",
    "IMPALA_DEFAULT_CONFIG",
    "MARWIL_DEFAULT_CONFIG",
    "PG_DEFAULT_CONFIG",
    "SAC_DEFAULT_CONFIG",
    "SIMPLE_Q_DEFAULT_CONFIG",
    "APPOAgent",
    "APPOTrainer",
    "ApexAgent",
    "ApexTrainer",
    "BCTrainer",
    "CQLTrainer",
    "ImpalaAgent",
    "ImpalaTrainer",
    "MARWILTrainer",
    "PGAgent",
    "PGTrainer",
    "SACTrainer",
    "SimpleQTrainer",
]
