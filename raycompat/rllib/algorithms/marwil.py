"""Monotonic advantage re-weighted imitation learning.

Wang et al., "Exponentially weighted imitation learning for batched historical data" (NeurIPS 2018). In
each iteration the policy learns to choose the recorded actions (`marwil_loss`): those the more whose
returns were larger than the critic expected, by the exponential of ``beta`` times the advantage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.rllib._types import Array, State, Tensor
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.offline_algorithm import RECORDED, OfflineAlgorithm
from raycompat.rllib.distributions import tf_terms
from raycompat.rllib.env.runner import Columns
from raycompat.rllib.learner import Learner, compiled_for_any_rows
from raycompat.rllib.networks import NetworkSpec
from raycompat.rllib.policy_learner import PolicySetup
from raycompat.rllib.replay_learner import ReplayLearner
from raycompat.rllib.schedules import scheduled


class MARWILConfig(AlgorithmConfig):
    """Options of MARWIL.

    ``training`` takes, beside those of all algorithms: ``beta`` (float, default 1.0: how much the
    advantage counts; 0 is behavior cloning), ``bc_logstd_coeff`` (float, default 0.0: how much wide
    distributions of numbers are preferred), ``vf_coeff`` (float, default 1.0: the weight of the
    critic's loss), ``moving_average_sqd_adv_norm_update_rate`` (float, default 1e-8) and
    ``moving_average_sqd_adv_norm_start`` (float, default 100.0): of the mean square by which advantages
    are scaled. `offline_data` names the recorded steps.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.marwil.MARWILConfig``, 2.60.0. Differs from Ray: a return is the
    sum of all rewards that were recorded after a step.
    """

    algo_class: type[MARWIL]
    TRAINING: ClassVar = {
        "lr": 1e-4,
        "train_batch_size_per_learner": 2000,
        "beta": 1.0,
        "bc_logstd_coeff": 0.0,
        "vf_coeff": 1.0,
        "use_gae": True,
        "moving_average_sqd_adv_norm_update_rate": 1e-8,
        "moving_average_sqd_adv_norm_start": 100.0,
        "store_buffer_in_checkpoints": False,
        "replay_buffer_config": RECORDED,
    }
    learns_from_records: ClassVar[bool] = True

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or MARWIL)


def marwil_loss(
    outputs: dict[str, Tensor], batch: dict[str, Tensor], scale: Tensor, options: dict[str, Any]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of a minibatch, and its parts.

    Parameters
    ----------
    outputs : dict of tensors
        The head ``policy``, of shape (rows, parameters), and ``value``, of shape (rows, 1), if ``beta``
        is not 0.
    batch : dict of tensors, of shape (rows, ...)
        ``actions``, and the ``returns`` after them.
    scale : scalar tensor
        The mean square of advantages so far.
    options : dict
        ``terms`` (see `tf_terms`), ``beta``, ``vf_coeff``, ``bc_logstd_coeff``.

    Returns
    -------
    loss : scalar tensor
    parts : dict of scalar tensors
        ``policy_loss``, ``total_loss``, and with a critic ``vf_loss`` and ``mean_squared_advantages``.
    """
    import tensorflow as tf

    terms = options["terms"](outputs["policy"], batch["actions"])
    gained, parts, total = 1.0, {}, 0.0
    if options["beta"]:
        advantages = batch["returns"] - outputs["value"][:, 0]
        squared = tf.reduce_mean(advantages**2)
        scaled = tf.stop_gradient(advantages) / (1e-8 + tf.sqrt(scale))
        gained = tf.exp(options["beta"] * scaled)
        parts = {"vf_loss": 0.5 * squared, "mean_squared_advantages": squared}
        total += options["vf_coeff"] * 0.5 * squared
    spread = options["bc_logstd_coeff"] * terms.entropies if options["bc_logstd_coeff"] else 0.0
    policy_loss = -tf.reduce_mean(gained * (terms.log_probabilities + spread))
    total += policy_loss
    return total, {"policy_loss": policy_loss, "total_loss": total, **parts}


class MARWILLearner(ReplayLearner):
    """A policy, and its critic if there is one, which learn from recorded steps.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        settings = self.config
        self._scale = float(settings.moving_average_sqd_adv_norm_start)
        options = {name: settings.get(name) for name in ("beta", "vf_coeff", "bc_logstd_coeff")}
        options["terms"] = partial(tf_terms, self.layout)
        self._update = _compiled_update(self.learner, options)

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return a policy and a critic."""
        setup.refuse_memory("MARWIL")
        return setup.actor_critic_network()

    def remember(self, columns: Columns) -> int:
        """Put recorded steps with the returns after them into the buffer; count them."""
        rewards = columns["rewards"]
        returns, following = np.zeros_like(rewards), np.zeros_like(rewards[0])
        ended = columns["terminateds"] | columns["truncateds"]
        for step in range(len(rewards) - 1, -1, -1):
            following = rewards[step] + self.config.gamma * following * ~ended[step]
            returns[step] = following
        named = {name: columns[name] for name in ("observations", "actions")}
        steps = {name: each[columns["valid"]] for name, each in named.items()}
        self._buffer.add({**steps, "returns": returns[columns["valid"]]})
        return int(columns["valid"].size)

    def _learn_minibatches(
        self, minibatches: dict[str, Array], num_steps: int
    ) -> tuple[dict[str, float], Array]:
        settings = self.config
        rate = scheduled(settings.lr, num_steps)
        self.learner.set_learning_rate(rate)
        keep = 1.0 - settings.moving_average_sqd_adv_norm_update_rate
        found, scale = self._update(minibatches, np.float32(self._scale), np.float32(keep))
        self._scale = float(scale)
        statistics = {name: float(value) for name, value in found.items()}
        statistics["default_optimizer_learning_rate"] = rate
        return statistics, np.ones(minibatches["returns"].shape)

    def get_state(self) -> State:
        """Return the weights, the optimizer and the scale of advantages."""
        return {**super().get_state(), "scale": self._scale}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        super().set_state(state)
        self._scale = state["scale"]


class MARWIL(OfflineAlgorithm):
    """Monotonic advantage re-weighted imitation learning; see `Algorithm`.

    Parameters
    ----------
    config : MARWILConfig or dict, optional
    env : str, class or callable, optional
        For evaluations.
    logger_creator : optional
        Has no effect.
    """

    config_class = MARWILConfig
    learner_class = MARWILLearner


def _compiled_update(learner: Learner, options: dict[str, object]) -> Callable[..., Any]:
    """Return the function that learns from several minibatches in one call of TensorFlow."""
    import tensorflow as tf

    def learn_once(
        batch: dict[str, Tensor], scale: Tensor, keep: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        with tf.GradientTape() as tape:
            outputs = learner.network(batch["observations"])
            loss, parts = marwil_loss(outputs, batch, scale, options)
        norm = learner.apply(tape.gradient(loss, learner.network.variables))
        if "mean_squared_advantages" in parts:
            scale = keep * scale + (1.0 - keep) * parts["mean_squared_advantages"]
        return {**parts, "gradients_norm": norm}, scale

    def update(
        minibatches: dict[str, Tensor], scale: Tensor, keep: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        count = tf.shape(minibatches["returns"])[0]
        found, scale = learn_once({k: rows[0] for k, rows in minibatches.items()}, scale, keep)
        for index in tf.range(1, count):
            batch = {k: rows[index] for k, rows in minibatches.items()}
            found, scale = learn_once(batch, scale, keep)
        return found, scale

    return compiled_for_any_rows(update)


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
