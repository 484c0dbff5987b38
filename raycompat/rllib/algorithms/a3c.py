"""Actor-critic: asynchronous (A3C) and synchronous (A2C).

Mnih et al., "Asynchronous methods for deep reinforcement learning" (arXiv 1602.01783). Each runner
plays a few steps, from which the gradient of `actor_critic_loss` is computed.

* A3C applies each runner's gradient when it arrives and sends that runner the new weights: no runner
  waits for another, and gradients may be of weights that are some updates old.
* A2C lets all runners play, and applies the gradient of all their steps together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.rllib._types import Metrics, Tensor
from raycompat.rllib.acting import ActingPolicy
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.distributions import Layout, Terms, tf_terms
from raycompat.rllib.env.env_runner import EnvRunner
from raycompat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from raycompat.rllib.env.runner import Columns, Runner, RunnerState, Sample
from raycompat.rllib.learner import check_finite, compiled_for_any_rows
from raycompat.rllib.memory import learned_batch, outputs_for
from raycompat.rllib.networks import KerasNetwork, NetworkSpec, Weights
from raycompat.rllib.policy_learner import KerasLearner, PolicySetup
from raycompat.rllib.returns import with_targets
from raycompat.rllib.schedules import scheduled

#: The columns from which the network learns.
LEARNED = ("observations", "actions", "advantages", "targets")


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
    Ray source: ``ray.rllib.algorithms.a3c.A3CConfig``, 2.7.2; Ray has removed it since. No known
    difference.
    """

    algo_class: type[A3C]
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

    algo_class: type[A2C]

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or A2C)
        self.train_batch_size_per_learner = 200
        self.rollout_fragment_length = "auto"
        self.lr = 1e-3
        self.min_updates_per_iteration = 10


def actor_critic_loss(
    outputs: dict[str, Tensor],
    batch: dict[str, Tensor],
    terms_of: Callable[..., Terms],
    vf_loss_coeff: float,
    entropy_coeff: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of some steps, and its parts.

    Parameters
    ----------
    outputs : dict of tensors
        The heads ``policy``, of shape (rows, parameters), and ``value``, of shape (rows, 1).
    batch : dict of tensors, of shape (rows, ...)
        ``actions``, ``advantages``, and ``targets`` of the critic.
    terms_of : callable
        Of parameters and actions; see `tf_terms`.
    vf_loss_coeff : float
    entropy_coeff : scalar
        How much a policy is rewarded for being random.

    Notes
    -----
    arXiv 1602.01783, section 4.
    """
    import tensorflow as tf

    terms = terms_of(outputs["policy"], batch["actions"])
    policy_loss = -tf.reduce_mean(terms.log_probabilities * batch["advantages"])
    vf_loss = 0.5 * tf.reduce_mean((outputs["value"][:, 0] - batch["targets"]) ** 2)
    entropy = tf.reduce_mean(terms.entropies)
    total = policy_loss + vf_loss_coeff * vf_loss - entropy_coeff * entropy
    return total, {
        "policy_loss": policy_loss,
        "vf_loss": vf_loss,
        "entropy": entropy,
        "total_loss": total,
    }


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


#: The gradient of a policy, and the parts of its loss.
Gradient = tuple[Weights, dict[str, float]]


class GradientRunner(Runner):
    """An env runner that computes the gradients of its samples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._networks: dict[str, KerasNetwork] = {}
        self._gradients: dict[str, Callable[..., Any]] = {}
        for name, plan in self.spec.policies.items():
            acting = self.policies[name]
            if plan.network is not None and isinstance(acting, ActingPolicy):
                network = self._networks[name] = KerasNetwork(plan.network, self.spec.seed)
                layout = acting.decode.layout
                self._gradients[name] = compiled_gradients(network, layout)

    def compute_gradients(
        self, num_steps: int, state: RunnerState, options: dict[str, GradientOptions]
    ) -> tuple[dict[str, Gradient], Sample]:
        """Play, and return the gradients, and a sample of counts alone.

        Parameters
        ----------
        num_steps : int
        state : RunnerState
        options : dict of GradientOptions
            Of the policies that learn.
        """
        sample: Sample = self.sample(num_steps, state)  # type: ignore[attr-defined]
        found = {}
        for name, columns in sample.policies.items():
            if name in options:
                found[name] = self._gradient(name, columns, state, options[name])
        return found, Sample({}, sample.num_steps, sample.episodes, sample.news, sample.left)

    def _gradient(
        self, name: str, columns: Columns, state: RunnerState, options: GradientOptions
    ) -> Gradient:
        network = self.spec.policies[name].network
        assert network is not None, "a rule has no gradient"
        steps = with_targets(columns, options.gamma, options.lambda_)
        batch = learned_batch([steps], LEARNED, network.memory)
        self._networks[name].set_weights(state.weights[name])
        coefficients = np.float32(options.vf_loss_coeff), np.float32(options.entropy_coeff)
        gradients, parts = self._gradients[name](batch, *coefficients)
        return [each.numpy() for each in gradients], {k: float(v) for k, v in parts.items()}


class EnvGradientRunner(GradientRunner, EnvRunner):
    """Plays in environments of one agent."""


class MultiAgentGradientRunner(GradientRunner, MultiAgentEnvRunner):
    """Plays in environments of several agents."""


def compiled_gradients(network: KerasNetwork, layout: Layout) -> Callable[..., Any]:
    """Return the function that gives the gradient of a batch, and the parts of the loss."""
    import tensorflow as tf

    terms_of = partial(tf_terms, layout)

    def gradients(
        batch: dict[str, Tensor], vf_loss_coeff: Tensor, entropy_coeff: Tensor
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        with tf.GradientTape() as tape:
            outputs, steps = outputs_for(network, batch)
            loss, parts = actor_critic_loss(outputs, steps, terms_of, vf_loss_coeff, entropy_coeff)
        return tape.gradient(loss, network.variables), parts

    return compiled_for_any_rows(gradients)


class ActorCriticLearner(KerasLearner):
    """A policy and its critic, to which gradients are applied.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        import tensorflow as tf

        super().__init__(setup, network, seed)
        self._apply = tf.function(self.learner.apply)
        self._gradients = compiled_gradients(self.learner.network, self.layout)

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return a policy and a critic."""
        return setup.actor_critic_network()

    def options(self, num_steps: int) -> GradientOptions:
        """Return the coefficients after a number of steps."""
        settings = self.config
        entropy_coeff = scheduled(settings.entropy_coeff, num_steps)
        return GradientOptions(
            settings.gamma, settings.get("lambda_", 1.0), settings.vf_loss_coeff, entropy_coeff
        )

    def learn(self, parts: list[Columns], num_steps: int) -> dict[str, float]:
        """Apply the gradient of all steps of samples."""
        options = self.options(num_steps)
        batch = self.batch(parts)
        coefficients = np.float32(options.vf_loss_coeff), np.float32(options.entropy_coeff)
        gradients, found = self._gradients(batch, *coefficients)
        return self.apply((gradients, {k: float(v) for k, v in found.items()}), num_steps)

    def batch(self, parts: list[Columns]) -> Columns:
        """Return the valid steps of samples in one, with advantages and targets."""
        settings = self.config
        found = [with_targets(each, settings.gamma, settings.lambda_) for each in parts]
        return learned_batch(found, LEARNED, self.network.memory)

    def apply(self, gradient: tuple[Any, dict[str, float]], num_steps: int) -> dict[str, float]:
        """Change the network by a gradient; return the parts of the loss, and the gradient's norm."""
        gradients, parts = gradient
        check_finite(parts, f"An actor-critic, after {num_steps} steps")
        self.learner.set_learning_rate(scheduled(self.config.lr, num_steps))
        norm = self._apply(gradients)
        return {**parts, "gradients_norm": float(norm)}


class A3C(Algorithm):
    """Asynchronous actor-critic; see `Algorithm`.

    Parameters
    ----------
    config : A3CConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = A3CConfig
    learner_class = ActorCriticLearner
    learns_from_samples: ClassVar[bool] = False
    runner_class: ClassVar[type[Runner]] = EnvGradientRunner
    multi_agent_runner_class: ClassVar[type[Runner]] = MultiAgentGradientRunner

    def training_step(self) -> dict[str, Metrics]:
        """Apply gradients as they come; the runners go on between training steps."""
        settings = self.config
        fragment = settings.rollout_fragment_length
        num_steps = 10 if fragment == "auto" else fragment

        def arguments() -> tuple[object, ...]:
            options = {
                name: learner.options(self.num_steps)
                for name, learner in self.learners.items()
                if self.is_trained(name)
            }
            return num_steps, self.runner_state(), options

        found: dict[str, dict[str, float]] = {}
        with self._timed("learner_update_timer"):
            for _ in range(settings.min_updates_per_iteration):
                gradients, counts = self.env_runner_group.next_answer(
                    "compute_gradients", arguments
                )
                self.count(counts)
                for name, gradient in gradients.items():
                    found[name] = self.learners[name].apply(gradient, self.num_steps)
        return found

    def weights_changed(self) -> None:
        """Forget the gradients in flight: they are of the old weights."""
        self.env_runner_group.forget_calls()


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
    learns_from_samples: ClassVar[bool] = True
    runner_class = EnvRunner
    multi_agent_runner_class = MultiAgentEnvRunner

    def training_step(self) -> dict[str, Metrics]:
        """Let all runners play and learn from their steps together, several times."""
        found: dict[str, dict[str, float]] = {}
        for _ in range(self.config.min_updates_per_iteration):
            found |= self.learn_from(self.sample(self._num_steps_together()))
        return found

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
