"""Actor-critic: asynchronous (A3C) and synchronous (A2C).

Mnih et al., "Asynchronous methods for deep reinforcement learning" (arXiv 1602.01783). Each runner
plays a few steps, from which the gradient of `actor_critic_loss` is computed.

* A3C applies each runner's gradient when it arrives and sends that runner the new weights: no runner
  waits for another, and gradients may be of weights that are some updates old.
* A2C lets all runners play, and applies the gradient of all their steps together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from raycompat._surface.modules import names_of
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.distributions import tf_entropy, tf_log_probability
from raycompat.rllib.env.env_runner import EnvRunner, RunnerState, Sample
from raycompat.rllib.learner import Learner, check_finite
from raycompat.rllib.networks import KerasNetwork, NetworkSpec, Weights
from raycompat.rllib.returns import generalized_advantages
from raycompat.rllib.schedules import scheduled

_LEARNED = ("observations", "actions", "advantages", "targets")


class A3CConfig(AlgorithmConfig):
    """Options of A3C.

    ``training`` takes, beside those of all algorithms: ``lambda_`` (float, default 1.0),
    ``vf_loss_coeff`` (float, default 0.5), ``entropy_coeff`` (float or schedule, default 0.01),
    ``min_updates_per_iteration`` (int, default 100: gradients applied in one training step).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.a3c.A3CConfig``, 2.7.2; Ray has removed it since. Differs from
    Ray: recurrent networks are not options.
    """

    TRAINING: ClassVar = {
        "lr": 1e-4,
        "grad_clip": 40.0,
        "lambda_": 1.0,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.01,
        "min_updates_per_iteration": 100,
    }

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or A3C)
        self.num_env_runners = 2
        self.rollout_fragment_length: int | str = 10


class A2CConfig(A3CConfig):
    """Options of A2C: those of A3C, and ``train_batch_size_per_learner`` (int, steps, default 200).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.a2c.A2CConfig``, 2.7.2; Ray has removed it since.
    """

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or A2C)
        self.train_batch_size_per_learner = 200
        self.rollout_fragment_length = "auto"
        self.lr = 1e-3
        self.min_updates_per_iteration = 10


def actor_critic_loss(
    outputs: dict[str, Any],
    batch: dict[str, Any],
    is_discrete: bool,
    vf_loss_coeff: float,
    entropy_coeff: Any,
) -> tuple[Any, dict[str, Any]]:
    """Return the loss of some steps, and its parts.

    Parameters
    ----------
    outputs : dict of tensors
        The heads ``policy``, of shape (rows, parameters), and ``value``, of shape (rows, 1).
    batch : dict of tensors, of shape (rows, ...)
        ``actions``, ``advantages``, and ``targets`` of the critic.
    is_discrete : bool
    vf_loss_coeff : float
    entropy_coeff : scalar
        How much a policy is rewarded for being random.

    Notes
    -----
    arXiv 1602.01783, section 4.
    """
    import tensorflow as tf

    logs = tf_log_probability(is_discrete, outputs["policy"], batch["actions"])
    policy_loss = -tf.reduce_mean(logs * batch["advantages"])
    vf_loss = 0.5 * tf.reduce_mean((outputs["value"][:, 0] - batch["targets"]) ** 2)
    entropy = tf.reduce_mean(tf_entropy(is_discrete, outputs["policy"]))
    total = policy_loss + vf_loss_coeff * vf_loss - entropy_coeff * entropy
    return total, {
        "policy_loss": policy_loss,
        "vf_loss": vf_loss,
        "entropy": entropy,
        "total_loss": total,
    }


def learned_batch(samples: list[Sample], gamma: float, lambda_: float) -> dict[str, NDArray[Any]]:
    """Return the valid steps of samples in one, with advantages and targets."""
    parts = []
    for sample in samples:
        columns = sample.columns
        advantages = generalized_advantages(
            columns["rewards"],
            columns["values"],
            columns["next_values"],
            columns["terminateds"],
            columns["truncateds"],
            gamma,
            lambda_,
        )
        targets = advantages + columns["values"]
        named = {**columns, "advantages": advantages, "targets": targets}
        parts.append({name: named[name][columns["valid"]] for name in _LEARNED})
    return {name: np.concatenate([part[name] for part in parts]) for name in _LEARNED}


@dataclass(frozen=True)
class GradientOptions:
    """Coefficients of a gradient.

    Parameters
    ----------
    gamma, lambda_ : float
    vf_loss_coeff, entropy_coeff : float
    """

    gamma: float
    lambda_: float
    vf_loss_coeff: float
    entropy_coeff: float


class GradientRunner(EnvRunner):
    """An env runner that computes the gradient of its samples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._network = KerasNetwork(self.spec.network, self.spec.seed)
        self._gradients = compiled_gradients(self._network, self._decode.is_discrete)

    def compute_gradients(
        self, num_steps: int, state: RunnerState, options: GradientOptions
    ) -> tuple[Weights, dict[str, float], Sample]:
        """Play, and return the gradient, the parts of the loss, and a sample of counts alone."""
        sample = self.sample(num_steps, state)
        batch = learned_batch([sample], options.gamma, options.lambda_)
        self._network.set_weights(state.weights)
        coefficients = np.float32(options.vf_loss_coeff), np.float32(options.entropy_coeff)
        gradients, parts = self._gradients(batch, *coefficients)
        rewards = {"rewards": sample.columns["rewards"]}
        counts = Sample(rewards, sample.episodes, sample.news, sample.left)
        found = {name: float(value) for name, value in parts.items()}
        return [gradient.numpy() for gradient in gradients], found, counts


def compiled_gradients(network: KerasNetwork, is_discrete: bool) -> Any:
    """Return the function that gives the gradient of a batch, and the parts of the loss."""
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def gradients(batch: dict[str, Any], vf_loss_coeff: Any, entropy_coeff: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = network(batch["observations"])
            loss, parts = actor_critic_loss(
                outputs, batch, is_discrete, vf_loss_coeff, entropy_coeff
            )
        return tape.gradient(loss, network.variables), parts

    return gradients


class A3C(Algorithm):
    """Asynchronous actor-critic; see `Algorithm`.

    Parameters
    ----------
    config : A3CConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class: ClassVar[type[AlgorithmConfig]] = A3CConfig
    runner_class: ClassVar[type[EnvRunner]] = GradientRunner

    def network_spec(self) -> NetworkSpec:
        """Return a policy and a critic."""
        return self.actor_critic_spec()

    def setup_learner(self) -> None:
        """Make the network, and the function that applies gradients."""
        import tensorflow as tf

        self._learner = Learner(self._network, self._seed, self.config.grad_clip)
        self._apply = tf.function(self._learner.apply)

    def _options(self) -> GradientOptions:
        settings = self.config
        entropy_coeff = scheduled(settings.entropy_coeff, self.num_steps)
        return GradientOptions(
            settings.gamma, settings.lambda_, settings.vf_loss_coeff, entropy_coeff
        )

    def training_step(self) -> dict[str, Any]:
        """Apply gradients as they come; the runners go on between training steps."""
        settings = self.config
        fragment = settings.rollout_fragment_length
        num_steps = 10 if fragment == "auto" else fragment

        def arguments() -> tuple[Any, ...]:
            return num_steps, self.runner_state(), self._options()

        found: dict[str, float] = {}
        with self._timed("learner_update_timer"):
            for _ in range(settings.min_updates_per_iteration):
                gradients, found, counts = self.env_runner_group.next_answer(
                    "compute_gradients", arguments
                )
                check_finite(found, f"{type(self).__name__}, after {self.num_steps} steps")
                self.count(counts)
                self._learner.set_learning_rate(scheduled(settings.lr, self.num_steps))
                norm = self._apply(gradients)
        return {**found, "gradients_norm": float(norm)}

    def get_learner_state(self) -> dict[str, Any]:
        """Return the weights and the optimizer."""
        return self._learner.get_state()

    def set_learner_state(self, state: dict[str, Any]) -> None:
        """Take what `get_learner_state` returned."""
        self._learner.set_state(state)
        self.env_runner_group.forget_calls()  # Their gradients are of the old weights.

    def current_weights(self) -> Weights:
        """Return the weights of policy and critic."""
        return self._learner.get_weights()

    def set_current_weights(self, weights: Weights) -> None:
        """Replace the weights of policy and critic."""
        self._learner.network.set_weights(weights)
        self.env_runner_group.forget_calls()  # Their gradients are of the old weights.

    def get_module(self, module_id: str = "default_policy") -> Any:
        """Return the network as a Keras model."""
        return self._learner.network.model


class A2C(A3C):
    """Synchronous actor-critic; see `Algorithm`.

    Parameters
    ----------
    config : A2CConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = A2CConfig
    runner_class = EnvRunner

    def setup_learner(self) -> None:
        """Make the network, and the functions that compute and apply gradients."""
        super().setup_learner()
        self._gradients = compiled_gradients(self._learner.network, self._decode.is_discrete)

    def training_step(self) -> dict[str, Any]:
        """Let all runners play and learn from their steps together, several times."""
        settings = self.config
        found: dict[str, float] = {}
        for _ in range(settings.min_updates_per_iteration):
            samples = self.sample(self._num_steps_together())
            options = self._options()
            batch = learned_batch(samples, options.gamma, options.lambda_)
            coefficients = np.float32(options.vf_loss_coeff), np.float32(options.entropy_coeff)
            with self._timed("learner_update_timer"):
                gradients, parts = self._gradients(batch, *coefficients)
                found = {name: float(value) for name, value in parts.items()}
                check_finite(found, f"A2C, after {self.num_steps} steps")
                self._learner.set_learning_rate(scheduled(settings.lr, self.num_steps))
                norm = self._apply(gradients)
        return {**found, "gradients_norm": float(norm)}

    def _num_steps_together(self) -> int:
        settings = self.config
        num_envs = len(self.env_runner_group) * settings.num_envs_per_env_runner
        fragment = settings.rollout_fragment_length
        if fragment == "auto":
            fragment = math.ceil(settings.train_batch_size_per_learner / num_envs)
        return int(fragment * num_envs)


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
