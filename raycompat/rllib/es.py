"""ES in the form of Ray 0.2 and 0.3: ``rllib.es.ESAgent(config={...}, env="CartPole-v0")``."""

from raycompat.rllib.agents.trainers import agent_class
from raycompat.rllib.algorithms.es import ES

#: The options, by the names of that time.
DEFAULT_CONFIG = {
    "l2_coeff": 0.005,
    "noise_stdev": 0.02,
    "episodes_per_batch": 1000,
    "timesteps_per_batch": 10_000,
    "eval_prob": 0.003,
    "stepsize": 0.01,
    "noise_size": 250_000_000,
    "num_workers": 10,
    "observation_filter": "MeanStdFilter",
}
ESAgent = agent_class(ES, "ESAgent", __name__, DEFAULT_CONFIG)

__all__ = ["DEFAULT_CONFIG", "ESAgent"]
