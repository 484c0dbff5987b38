"""Algorithms that Ray has removed, where one of today learns in the same way with other options."""

from __future__ import annotations

from typing import Any, ClassVar

from raycompat.rllib.algorithms.a3c import A2C, A2CConfig
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.dqn import DQN, DQNConfig


class PGConfig(A2CConfig):
    """Options of PG: those of `A2CConfig`.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.pg.PGConfig``, 2.7.2; Ray has removed it since.
    """

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or PG)
        self.lr = 4e-4
        self.entropy_coeff = 0.0
        self.min_updates_per_iteration = 1


class PG(A2C):
    """Policy gradients: A2C with one update in an iteration, and no reward for being random.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.pg.PG``, 2.7.2; Ray has removed it since. Differs from Ray: a
    critic's values are the baseline of the returns, which Ray's PG did without.
    """

    config_class = PGConfig


class SimpleQConfig(DQNConfig):
    """Options of SimpleQ: those of `DQNConfig`, with the parts switched off that came after 2013.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.simple_q.SimpleQConfig``, 2.7.2; Ray has removed it since.
    """

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or SimpleQ)
        self.double_q = False
        self.dueling = False
        self.replay_buffer_config |= {"type": "EpisodeReplayBuffer"}


class SimpleQ(DQN):
    """Deep Q-learning in its first form: one network's maximum, one head, all steps alike.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.simple_q.SimpleQ``, 2.7.2; Ray has removed it since.
    """

    config_class: ClassVar[Any] = SimpleQConfig


class ApexDQNConfig(DQNConfig):
    """Options of Ape-X DQN: those of `DQNConfig`, for many env runners.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.apex_dqn.ApexDQNConfig``, 2.7.2; Ray has removed it since.
    """

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or ApexDQN)
        self.num_env_runners = 32
        self.rollout_fragment_length = 50
        self.n_step = 3
        self.train_batch_size_per_learner = 512
        self.num_steps_sampled_before_learning_starts = 50_000
        self.target_network_update_freq = 500_000
        self.replay_buffer_config |= {"capacity": 2_000_000}


class ApexDQN(DQN):
    """DQN with a prioritized replay buffer that many env runners fill.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.apex_dqn.ApexDQN``, 2.7.2; Ray has removed it since. Differs from
    Ray: the env runners play in turns with the learner, and all explore alike.
    """

    config_class: ClassVar[Any] = ApexDQNConfig


__all__ = ["PG", "ApexDQN", "ApexDQNConfig", "PGConfig", "SimpleQ", "SimpleQConfig"]
