"""A3C in the form of Ray 0.2 and 0.3: ``rllib.a3c.A3CAgent(config={...}, env="CartPole-v0")``."""

from raycompat.rllib.agents.trainers import agent_class
from raycompat.rllib.algorithms.a3c import A3C

#: The options, by the names of that time. The entropy's coefficient was negative until 2019.
DEFAULT_CONFIG = {
    "num_workers": 4,
    "batch_size": 10,
    "gamma": 0.99,
    "lambda": 1.0,
    "grad_clip": 40.0,
    "lr": 1e-4,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": -0.01,
    "use_lstm": False,
    "optimizer": {"grads_per_step": 100},
}
A3CAgent = agent_class(A3C, "A3CAgent", __name__, DEFAULT_CONFIG)

__all__ = ["DEFAULT_CONFIG", "A3CAgent"]
