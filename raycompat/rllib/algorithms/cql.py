"""Conservative Q-learning: soft actor-critic from recorded steps, whose critics are careful.

Kumar et al., "Conservative Q-learning for offline reinforcement learning" (arXiv 2006.04779). It is SAC
without playing, and with a further loss of each critic (`ConservativeUpdate`): the values of
actions that the policy draws, and of random ones, are pushed below those of the recorded actions.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Array, State, Tensor
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.offline_algorithm import RECORDED, OfflineAlgorithm
from raycompat.rllib.algorithms.sac import SAC, SACConfig, SACLearner, SoftUpdate
from raycompat.rllib.distributions import tf_tanh_gaussian_log_probability
from raycompat.rllib.networks import KerasNetwork, NetworkSpec
from raycompat.rllib.policy_learner import PolicySetup


class CQLConfig(SACConfig):
    """Options of CQL.

    ``training`` takes, beside those of `SACConfig`: ``min_q_weight`` (float, default 5.0: how much
    values of other actions are pushed down), ``temperature`` (float, default 1.0), ``num_actions``
    (int, default 10: how many actions are drawn for it) and ``bc_iters`` (int, minibatches, default
    20,000: for how long the policy first learns to imitate). `offline_data` names the recorded steps.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.cql.CQLConfig``, 2.60.0. Differs from Ray: the Lagrangian form is
    refused.
    """

    algo_class: type[CQL]
    TRAINING: ClassVar = {
        **SACConfig.TRAINING,
        "actor_lr": 3e-5,
        "min_q_weight": 5.0,
        "temperature": 1.0,
        "num_actions": 10,
        "bc_iters": 20_000,
        "lagrangian": False,
        "lagrangian_thresh": 5.0,
        "replay_buffer_config": RECORDED,
    }
    learns_from_records: ClassVar[bool] = True

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or CQL)
        self.min_sample_timesteps_per_iteration = 0

    def validate(self) -> None:
        """Raise for values that CQL cannot use."""
        super().validate()
        if self.lagrangian:
            raise UnsupportedRayFeatureError(
                "lagrangian=True", "The weight of the further loss is fixed", "set min_q_weight"
            )


class ConservativeUpdate(SoftUpdate):
    """The same as `SoftUpdate`, with conservative critics, and a policy that first imitates.

    Parameters
    ----------
    learner : CQLLearner
    target_entropy : float, nats
    """

    def more_of_critic(
        self, critic: KerasNetwork, batch: dict[str, Tensor], values: Tensor, taken: Tensor
    ) -> Tensor:
        """Return how much larger the values of other actions are than those of recorded ones.

        Parameters
        ----------
        critic : KerasNetwork
        batch : dict of tensors, of shape (rows, ...)
        values, taken : tensors
            Its values, of shape (rows, actions), and those of the recorded actions, of shape (rows,).

        Notes
        -----
        arXiv 2006.04779, equation 4, and for numbers appendix F: actions are drawn for the sum.
        """
        import tensorflow as tf

        temperature, found = self.config.temperature, [values]
        if not self.is_choice:
            found, observations = [], batch["observations"]
            for index in range(self.config.num_actions):
                random = batch["random"][:, index]
                density = random.shape[-1] * float(np.log(0.5))
                found.append(self.values_of(critic, observations, random) - density)
                for name, noise in (
                    ("observations", "noise_now"),
                    ("next_observations", "noise_next"),
                ):
                    actions, logs, _ = self.drawn(batch[name], batch[noise][:, index])
                    actions, logs = tf.stop_gradient(actions), tf.stop_gradient(logs)
                    found.append(self.values_of(critic, observations, actions) - logs)
        others = tf.reduce_logsumexp(tf.concat(found, -1) / temperature, -1) * temperature
        return self.config.min_q_weight * tf.reduce_mean(others - taken)

    def loss_of_actor(
        self, batch: dict[str, Tensor], values: Tensor, entropies: Tensor, alpha: Tensor
    ) -> Tensor:
        """Return the loss of the policy: at first that of imitation, with the worth of randomness.

        Parameters
        ----------
        batch : dict of tensors, of shape (rows, ...)
        values, entropies : tensors of shape (rows,)
        alpha : scalar tensor
        """
        import tensorflow as tf

        parameters = self.actor.network(batch["observations"])["policy"]
        if self.is_choice:
            logs = -tf.nn.sparse_softmax_cross_entropy_with_logits(batch["actions"], parameters)
        else:
            logs = tf_tanh_gaussian_log_probability(parameters, batch["actions"])
        imitates = batch["imitates"][0]
        own = imitates * (alpha * entropies + logs) + (1.0 - imitates) * values
        return -tf.reduce_mean(own)


class CQLLearner(SACLearner):
    """A policy, its critics and the temperature, which learn from recorded steps."""

    update_class = ConservativeUpdate

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._num_minibatches = 0

    def _noise(self, shape: tuple[int, ...]) -> dict[str, Array]:
        count, settings = shape[0], self.config
        numbers = self._num_minibatches + np.arange(count)
        self._num_minibatches += count
        imitates = (numbers < settings.bc_iters).astype(np.float32)
        found = {**super()._noise(shape), "imitates": np.repeat(imitates[:, None], shape[1], 1)}
        if self.layout[0].is_discrete:
            return found
        more = (*shape, settings.num_actions, self.layout[0].size)
        return {
            **found,
            "random": self._rng.uniform(-1, 1, more).astype(np.float32),
            "noise_now": self._rng.standard_normal(more, dtype=np.float32),
            "noise_next": self._rng.standard_normal(more, dtype=np.float32),
        }

    def get_state(self) -> State:
        """Return all networks and optimizers, and how many minibatches were learned."""
        return {**super().get_state(), "num_minibatches": self._num_minibatches}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        super().set_state(state)
        self._num_minibatches = state["num_minibatches"]


class CQL(OfflineAlgorithm, SAC):
    """Conservative Q-learning; see `Algorithm`.

    Parameters
    ----------
    config : CQLConfig or dict, optional
    env : str, class or callable, optional
        For evaluations.
    logger_creator : optional
        Has no effect.
    """

    config_class = CQLConfig
    learner_class = CQLLearner


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
