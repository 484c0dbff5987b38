"""Proximal policy optimization.

Schulman et al., "Proximal policy optimization algorithms" (arXiv 1707.06347). In each iteration:

1. The env runners play by the policy (`Algorithm.sample`).
2. Advantages are estimated from rewards and the critic's values (`ppo_batch`).
3. The network learns from the steps several times, in minibatches; the clipped objective keeps the new
   policy near the one that played (`ppo_loss`).
4. The coefficient of the divergence from the old policy is adapted (`adapted_kl_coeff`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat._upper import upper
from raycompat.rllib._types import AlgorithmOptions, Metrics, State, Tensor
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.distributions import Terms, tf_terms
from raycompat.rllib.env.runner import Columns
from raycompat.rllib.fixed_policies import RLModuleSpec
from raycompat.rllib.learner import Learner, check_finite, compiled_for_any_rows, minibatches
from raycompat.rllib.memory import Memory, learned_batch, outputs_for
from raycompat.rllib.networks import NetworkSpec
from raycompat.rllib.policy_learner import KerasLearner, PolicyLearner, PolicySetup
from raycompat.rllib.returns import normalized_advantages, with_advantages
from raycompat.rllib.schedules import adapted_kl_coeff, scheduled


class PPOConfig(AlgorithmConfig):
    """Options of PPO.

    ``training`` takes, beside those of all algorithms: ``use_gae`` (bool, default True), ``use_critic``
    (bool, default True), ``lambda_`` (float, default 1.0), ``clip_param`` (float or schedule,
    default 0.3), ``vf_clip_param`` (float, default 10.0: cuts off squared errors of the critic),
    ``vf_loss_coeff`` (float, default 1.0), ``entropy_coeff`` (float or schedule, default 0.0),
    ``use_kl_loss`` (bool, default True), ``kl_coeff`` (float, default 0.2), ``kl_target`` (float,
    default 0.01), ``num_epochs`` (int, default 30), ``minibatch_size`` (int, steps, default 128).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Examples
    --------
    >>> from raycompat.rllib.algorithms.ppo import PPOConfig
    >>> options = PPOConfig().training(clip_param=0.2).environment("Acrobot-v1")

    Then ``options.build_algo().train()`` makes an iteration.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.ppo.PPOConfig``, 2.60.0. Differs from Ray: ``clip_param`` may be
    a schedule.
    """

    algo_class: type[PPO]
    TRAINING: ClassVar = {
        "lr": 5e-5,
        "use_critic": True,
        "use_gae": True,
        "lambda_": 1.0,
        "use_kl_loss": True,
        "kl_coeff": 0.2,
        "kl_target": 0.01,
        "num_epochs": 30,
        "minibatch_size": 128,
        "vf_loss_coeff": 1.0,
        "entropy_coeff": 0.0,
        "clip_param": 0.3,
        "vf_clip_param": 10.0,
    }

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or PPO)
        self.num_env_runners = 2

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return a network of PyTorch with the layers of the algorithm's own.

        Raises
        ------
        ModuleNotFoundError
            Where PyTorch is not installed.
        """
        from raycompat.rllib.torch_module import DefaultPPOTorchRLModule

        return RLModuleSpec(DefaultPPOTorchRLModule)

    def validate(self) -> None:
        """Raise for values that PPO cannot use."""
        super().validate()
        if self.minibatch_size > self.train_batch_size_per_learner:
            raise ValueError(
                f"minibatch_size={self.minibatch_size}: expected at most "
                f"train_batch_size_per_learner={self.train_batch_size_per_learner}."
            )


def ppo_loss(
    outputs: dict[str, Tensor],
    batch: dict[str, Tensor],
    coefficients: dict[str, Tensor],
    options: dict[str, Any],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of a minibatch, and its parts.

    Parameters
    ----------
    outputs : dict of tensors
        The heads ``policy``, of shape (rows, parameters), and ``value``, of shape (rows, 1).
    batch : dict of tensors, of shape (rows, ...)
        ``actions``; ``log_probabilities`` and ``parameters`` of the policy that played; ``advantages``
        and ``targets`` of the critic.
    coefficients : dict of scalars
        ``clip``, ``entropy``, ``kl``.
    options : dict
        ``terms`` (see `tf_terms`), ``vf_clip_param``, ``vf_loss_coeff``.

    Returns
    -------
    loss : scalar tensor
    parts : dict of scalar tensors
        ``policy_loss``, ``vf_loss``, ``entropy``, ``mean_kl_loss``, ``total_loss``.

    Notes
    -----
    arXiv 1707.06347, equations 7 to 9.
    """
    import tensorflow as tf

    terms = options["terms"](outputs["policy"], batch["actions"], batch["parameters"])
    ratio = tf.exp(terms.log_probabilities - batch["log_probabilities"])
    advantages, clip = batch["advantages"], coefficients["clip"]
    clipped = tf.clip_by_value(ratio, 1 - clip, 1 + clip)
    policy_loss = -tf.reduce_mean(tf.minimum(ratio * advantages, clipped * advantages))
    kl = tf.reduce_mean(terms.divergences)
    entropy = tf.reduce_mean(terms.entropies)
    squared = (outputs["value"][:, 0] - batch["targets"]) ** 2
    vf_loss = tf.reduce_mean(tf.minimum(squared, options["vf_clip_param"]))
    total = (
        policy_loss
        + options["vf_loss_coeff"] * vf_loss
        - coefficients["entropy"] * entropy
        + coefficients["kl"] * kl
    )
    return total, {
        "policy_loss": policy_loss,
        "vf_loss": vf_loss,
        "entropy": entropy,
        "mean_kl_loss": kl,
        "total_loss": total,
    }


class PPOLearner(KerasLearner):
    """A policy and its critic, which learn by PPO.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        settings = self.config
        self._kl_coeff = settings.kl_coeff if settings.use_kl_loss else 0.0
        self._options = {
            "terms": partial(tf_terms, self.layout),
            "vf_clip_param": float(settings.vf_clip_param or np.inf),
            "vf_loss_coeff": float(settings.vf_loss_coeff) * bool(settings.use_critic),
        }
        self._update = _compiled_update(self.learner, self._options)

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return a policy and a critic."""
        return setup.actor_critic_network()

    @classmethod
    def for_modules(cls) -> type[PolicyLearner]:
        """Return what learns as PPO does."""
        if cls is not PPOLearner:  # a subclass has its own loss
            return super().for_modules()
        from raycompat.rllib.module_learner import ModuleLearner

        return ModuleLearner

    def learn(
        self,
        parts: list[Columns],
        num_steps: int,
        rng: np.random.Generator,
        num_epochs: int | None = None,
        minibatch_size: int | None = None,
    ) -> dict[str, float]:
        """Learn from what was played by the policy.

        Parameters
        ----------
        parts : list of dict of arrays
            The columns of each sample, with one valid step at least.
        num_steps : int
            All steps so far, for schedules.
        rng : numpy.random.Generator
            Draws the minibatches.
        num_epochs, minibatch_size : int, optional
            In place of the config's.
        """
        settings = self.config
        coefficients = self._coefficients(num_steps)
        rate = scheduled(settings.lr, num_steps)
        memory = self.network.memory
        batch = self.batch(parts)
        rows, size = len(batch["actions"]), minibatch_size or settings.minibatch_size
        if memory is not None:  # rows are sequences
            size = max(1, size // memory.max_length)
        order = minibatches(rows, size, num_epochs or settings.num_epochs, rng)
        self.learner.set_learning_rate(rate)
        found = self._update(batch, order, {k: np.float32(v) for k, v in coefficients.items()})
        statistics = {name: float(value) for name, value in found.items()}
        check_finite(statistics, f"PPO, after {num_steps} steps")
        self.adapt(statistics["mean_kl_loss"])
        return {
            **statistics,
            "curr_kl_coeff": coefficients["kl"],
            "curr_entropy_coeff": coefficients["entropy"],
            "default_optimizer_learning_rate": rate,
            "kl_divergence": statistics["mean_kl_loss"],
            "kl_coefficient": coefficients["kl"],
        }

    def adapt(self, divergence: float) -> None:
        """Adapt the coefficient of the divergence to how far the policy has moved."""
        settings = self.config
        if settings.use_kl_loss:
            self._kl_coeff = adapted_kl_coeff(self._kl_coeff, divergence, settings.kl_target)

    def _coefficients(self, num_steps: int) -> dict[str, float]:
        settings = self.config
        return {
            "clip": scheduled(settings.clip_param, num_steps),
            "entropy": scheduled(settings.entropy_coeff, num_steps),
            "kl": self._kl_coeff,
        }

    def loss(
        self,
        outputs: dict[str, Tensor],
        batch: dict[str, Tensor],
        num_steps: int,
        terms: Callable[..., Terms] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch after a number of steps, and its parts; see `ppo_loss`."""
        options = self._options if terms is None else {**self._options, "terms": terms}
        return ppo_loss(outputs, batch, self._coefficients(num_steps), options)

    def batch(self, parts: list[Columns]) -> Columns:
        """Return the valid steps of samples in one, with advantages and targets."""
        return ppo_batch(parts, self.config, self.network.memory)

    def get_state(self) -> State:
        """Return the weights, the optimizer and the divergence's coefficient."""
        return {**super().get_state(), "kl_coeff": self._kl_coeff}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        super().set_state(state)
        self._kl_coeff = state["kl_coeff"]


class PPO(Algorithm):
    """Proximal policy optimization; see `Algorithm`.

    Parameters
    ----------
    config : PPOConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = PPOConfig
    learner_class = PPOLearner

    @classmethod
    def get_default_policy_class(cls, config: AlgorithmConfig) -> Any:
        """Return the class by which programs make a policy's network in PyTorch.

        Parameters
        ----------
        config : AlgorithmConfig
        """
        return upper("_old.rllib.policies").PPOTorchPolicy

    def training_step(self) -> dict[str, Metrics]:
        """Play a batch, and let each policy learn from its part of it."""
        samples = self.sample(self.config.train_batch_size_per_learner)
        return self.learn_from(samples, self._rng)


def ppo_batch(
    parts: list[Columns], settings: AlgorithmOptions, memory: Memory | None = None
) -> Columns:
    """Return the valid steps of all samples in one, with advantages of mean 0 and deviation 1.

    Parameters
    ----------
    parts : list of dict of arrays
        The columns of each sample, see `Sample`.
    settings : PPOConfig
        Its ``gamma``, ``lambda_``, ``use_gae`` and ``use_critic`` count.
    memory : Memory, optional
        Of the network: steps are in sequences then.
    """
    return normalized_batch([with_advantages(each, settings) for each in parts], memory)


def normalized_batch(parts: list[Columns], memory: Memory | None) -> Columns:
    """Return the valid steps of samples with advantages in one, these of mean 0 and deviation 1."""
    batch = learned_batch(parts, _LEARNED, memory)
    batch["advantages"] = normalized_advantages(batch["advantages"], batch.get("mask"))
    return batch


#: The columns from which the network learns.
_LEARNED = (
    "observations",
    "actions",
    "log_probabilities",
    "parameters",
    "advantages",
    "targets",
)


def _compiled_update(learner: Learner, options: dict[str, object]) -> Callable[..., Any]:
    """Return the function that learns from all minibatches in one call of TensorFlow."""
    import tensorflow as tf

    def learn_once(
        rows: Tensor, batch: dict[str, Tensor], coefficients: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        minibatch = {name: tf.gather(column, rows) for name, column in batch.items()}
        with tf.GradientTape() as tape:
            outputs, steps = outputs_for(learner.network, minibatch)
            loss, parts = ppo_loss(outputs, steps, coefficients, options)
        norm = learner.apply(tape.gradient(loss, learner.network.variables))
        return {**parts, "gradients_norm": norm}

    def update(
        batch: dict[str, Tensor], order: Tensor, coefficients: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        parts = learn_once(order[0], batch, coefficients)
        for index in tf.range(1, tf.shape(order)[0]):
            parts = learn_once(order[index], batch, coefficients)
        return parts

    return compiled_for_any_rows(update)


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
