"""PPO in the form of Ray 0.2 and 0.3: ``rllib.ppo.PPOAgent(config={...}, env="CartPole-v0")``."""

from raycompat.rllib.agents.trainers import agent_class
from raycompat.rllib.algorithms.ppo import PPO

#: The options, by the names of that time.
DEFAULT_CONFIG = {
    "gamma": 0.995,
    "lambda": 1.0,
    "horizon": 2000,
    "use_gae": True,
    "kl_coeff": 0.2,
    "kl_target": 0.01,
    "clip_param": 0.3,
    "vf_loss_coeff": 1.0,
    "vf_clip_param": 10_000.0,
    "entropy_coeff": 0.0,
    "num_sgd_iter": 30,
    "sgd_stepsize": 5e-5,
    "sgd_batchsize": 128,
    "timesteps_per_batch": 4000,
    "num_workers": 5,
    "observation_filter": "MeanStdFilter",
}
PPOAgent = agent_class(PPO, "PPOAgent", __name__, DEFAULT_CONFIG)

__all__ = ["DEFAULT_CONFIG", "PPOAgent"]
