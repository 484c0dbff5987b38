"""DQN in the form of Ray 0.2 and 0.3: ``rllib.dqn.DQNAgent(config={...}, env="CartPole-v0")``."""

from raycompat.rllib.agents.trainers import agent_class
from raycompat.rllib.algorithms.dqn import DQN

#: The options, by the names of that time.
DEFAULT_CONFIG = {
    "dueling": True,
    "double_q": True,
    "hiddens": [256],
    "n_step": 1,
    "gamma": 0.99,
    "lr": 5e-4,
    "buffer_size": 50_000,
    "prioritized_replay": True,
    "prioritized_replay_alpha": 0.6,
    "prioritized_replay_beta0": 0.4,
    "prioritized_replay_eps": 1e-6,
    "schedule_max_timesteps": 100_000,
    "exploration_fraction": 0.1,
    "exploration_final_eps": 0.02,
    "learning_starts": 1000,
    "target_network_update_freq": 500,
    "timesteps_per_iteration": 1000,
    "train_batch_size": 32,
    "grad_norm_clipping": 10,
    "num_workers": 1,
}
DQNAgent = agent_class(DQN, "DQNAgent", __name__, DEFAULT_CONFIG)

__all__ = ["DEFAULT_CONFIG", "DQNAgent"]
