"""Deep Q-networks: values of actions, learned from a memory of steps.

Mnih et al., "Playing Atari with deep reinforcement learning" (arXiv 1312.5602), with double Q-learning
(van Hasselt et al., arXiv 1509.06461), duelling heads (Wang et al., arXiv 1511.06581), prioritized
replay (Schaul et al., arXiv 1511.05952) and returns of several steps; with ``num_atoms``, distributions
of returns (Bellemare et al., arXiv 1707.06887); with ``noisy``, heads whose weights have noise
(Fortunato et al., arXiv 1706.10295). In each training step:

1. The env runners play, now and then by a random action (`DQN.exploration`), and the steps go into the
   replay buffer (`DQNLearner.remember`).
2. The network learns from the minibatches that are due (`q_targets`, `q_loss`, `projected`), which are
   drawn together; the steps' priorities follow their errors.
3. From time to time the target network, which gives the values of next observations, becomes a copy of
   the network (`_update_target`).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Array, Metrics, State, Tensor
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.replay_algorithm import ReplayAlgorithm
from raycompat.rllib.env.runner import Columns
from raycompat.rllib.learner import Learner, check_finite, compiled_for_any_rows
from raycompat.rllib.networks import Head, KerasNetwork, NetworkSpec
from raycompat.rllib.policies import EpsilonGreedyPolicy
from raycompat.rllib.policy_learner import PolicySetup
from raycompat.rllib.replay_learner import ReplayLearner, check_buffer
from raycompat.rllib.schedules import scheduled
from raycompat.rllib.utils.error import UnsupportedSpaceException


class DQNConfig(AlgorithmConfig):
    """Options of DQN.

    ``training`` takes, beside those of all algorithms: ``epsilon`` (float or schedule: the chance of a
    random action, default from 1 to 0.05 within 10,000 steps), ``double_q``, ``dueling`` (bool, default
    True), ``hiddens`` (list of int: layers of each head, default [256]), ``n_step`` (int, default 1),
    ``target_network_update_freq`` (int, steps, default 500), ``tau`` (float, default 1.0: how far the
    target network follows), ``training_intensity`` (float: steps learned for each step played; by
    default each step is followed by one minibatch), ``num_steps_sampled_before_learning_starts`` (int,
    default 1000), ``adam_epsilon``, ``td_error_loss_fn`` ("huber" or "mse"), ``num_atoms`` (int,
    default 1: with more, a distribution of returns on so many numbers is learned), ``v_min``, ``v_max``
    (float, default -10 and 10: the smallest and the largest of these numbers),
    ``noisy`` (bool, default False: the weights of the heads have learned noise, by which the policy
    explores beside ``epsilon``), ``sigma0`` (float, default 0.5: how large that noise is at first),
    ``store_buffer_in_checkpoints`` (bool, default False), and ``replay_buffer_config`` (dict: ``type``,
    ``capacity`` in steps, ``alpha``, ``beta``, ``epsilon``).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.dqn.DQNConfig``, 2.60.0. Differs from Ray: ``noisy`` has an
    effect, as in the old stack of Ray.
    """

    algo_class: type[DQN]
    TRAINING: ClassVar = {
        "lr": 5e-4,
        "grad_clip": 40.0,
        "train_batch_size_per_learner": 32,
        "epsilon": [(0, 1.0), (10000, 0.05)],
        "double_q": True,
        "dueling": True,
        "hiddens": [256],
        "n_step": 1,
        "target_network_update_freq": 500,
        "tau": 1.0,
        "training_intensity": None,
        "num_steps_sampled_before_learning_starts": 1000,
        "adam_epsilon": 1e-8,
        "td_error_loss_fn": "huber",
        "num_atoms": 1,
        "v_min": -10.0,
        "v_max": 10.0,
        "noisy": False,
        "sigma0": 0.5,
        "store_buffer_in_checkpoints": False,
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": 50_000,
            "alpha": 0.6,
            "beta": 0.4,
            "epsilon": 1e-6,
        },
    }

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or DQN)
        self.min_sample_timesteps_per_iteration = 1000
        self.model["fcnet_activation"] = "relu"

    def validate(self) -> None:
        """Raise for values that DQN cannot use."""
        super().validate()
        check_buffer(self.replay_buffer_config)
        if self.td_error_loss_fn not in ("huber", "mse"):
            raise ValueError(
                f"td_error_loss_fn={self.td_error_loss_fn!r}: expected 'huber' or 'mse'."
            )
        count = self.num_atoms
        if isinstance(count, bool) or not isinstance(count, numbers.Integral) or int(count) < 1:
            raise ValueError(f"num_atoms={count!r}: expected a whole number of 1 or more.")
        noise = self.sigma0
        is_number = isinstance(noise, numbers.Real) and not isinstance(noise, bool)
        if not (is_number and 0 < noise < math.inf):
            raise ValueError(f"sigma0={noise!r}: expected a finite number larger than 0.")
        ends = self.v_min, self.v_max
        if int(count) > 1 and not (
            all(isinstance(n, numbers.Real) for n in ends) and ends[0] < ends[1]
        ):
            raise ValueError(
                f"v_min={self.v_min!r} and v_max={self.v_max!r}: expected a smaller number and a "
                "larger one."
            )


def q_values(outputs: dict[str, Tensor]) -> Tensor:
    """Return the values of actions, of shape (rows, actions), of a network's outputs.

    Notes
    -----
    arXiv 1511.06581, equation 9: where there is a head ``value``, advantages have mean 0.
    """
    import tensorflow as tf

    advantages = outputs["advantage"]
    if "value" not in outputs:
        return advantages
    return outputs["value"] + advantages - tf.reduce_mean(advantages, -1, keepdims=True)


def q_targets(
    rewards: Tensor, discounts: Tensor, next_values: Tensor, choosing_values: Tensor
) -> Tensor:
    """Return the target values of the actions taken.

    Parameters
    ----------
    rewards, discounts : tensors of shape (rows,)
        See `n_step_transitions`.
    next_values, choosing_values : tensors of shape (rows, actions)
        The target network's values of the next observations, and those by which their best actions are
        chosen: the network's for double Q-learning, otherwise the target network's.

    Returns
    -------
    tensor of shape (rows,)

    Notes
    -----
    arXiv 1509.06461, equation 4.
    """
    import tensorflow as tf

    best = tf.argmax(choosing_values, -1, output_type=tf.int32)
    return rewards + discounts * tf.gather(next_values, best, axis=1, batch_dims=1)


def return_logits(outputs: dict[str, Tensor], num_atoms: int) -> Tensor:
    """Return the logits of distributions of returns, of shape (rows, actions, atoms), of outputs.

    Notes
    -----
    Where there is a head ``value``, advantages have mean 0; see `q_values`.
    """
    import tensorflow as tf

    advantages = outputs["advantage"]
    width = advantages.shape[-1] // num_atoms
    logits = tf.reshape(advantages, (-1, width, num_atoms))
    if "value" not in outputs:
        return logits
    return outputs["value"][:, None] + logits - tf.reduce_mean(logits, 1, keepdims=True)


def projected(probabilities: Tensor, rewards: Tensor, discounts: Tensor, atoms: Tensor) -> Tensor:
    """Return the distribution of the return before a step, on the same atoms.

    Parameters
    ----------
    probabilities : tensor of shape (rows, atoms)
        Of the return after the step.
    rewards, discounts : tensors of shape (rows,)
        See `n_step_transitions`.
    atoms : tensor of shape (atoms,)
        The returns that are possible, in equal steps, the smallest first.

    Returns
    -------
    tensor of shape (rows, atoms)

    Notes
    -----
    arXiv 1707.06887, equation 7.
    """
    import tensorflow as tf

    moved = rewards[:, None] + discounts[:, None] * atoms
    moved = tf.clip_by_value(moved, atoms[0], atoms[-1])
    # Each one is shared by the two atoms beside it, the nearer one having more.
    distances = tf.abs(moved[:, :, None] - atoms) / (atoms[1] - atoms[0])
    return tf.einsum("ra,rab->rb", probabilities, tf.clip_by_value(1.0 - distances, 0.0, 1.0))


def q_loss(errors: Tensor, weights: Tensor, kind: str) -> Tensor:
    """Return the mean of the weighted losses of temporal difference errors.

    Parameters
    ----------
    errors, weights : tensors of shape (rows,)
    kind : str
        "mse"; or "huber", which is linear where an error is larger than 1.
    """
    import tensorflow as tf

    size = tf.abs(errors)
    losses = 0.5 * errors**2
    if kind == "huber":
        losses = tf.where(size <= 1.0, losses, size - 0.5)
    return tf.reduce_mean(weights * losses)


class DQNLearner(ReplayLearner):
    """Values of actions, which learn from a memory of steps.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    config: DQNConfig
    policy_class: ClassVar[Any] = EpsilonGreedyPolicy

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._target = KerasNetwork(network, seed)
        self._target.set_weights(self._weights)
        self._update = _compiled_update(self.learner, self._target, self.config)

    def _adam(self) -> dict[str, Any]:
        return {"epsilon": self.config.adam_epsilon}

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return a trunk with a head for advantages, and one for the value if they duel."""
        if not setup.decode.is_choice:
            raise UnsupportedSpaceException(
                f"DQN cannot choose from {setup.action_space!r}: expected a Discrete space. PPO, "
                "APPO, IMPALA, A2C, A3C and ES take boxes."
            )
        setup.refuse_memory("DQN")
        settings = setup.config
        hiddens = tuple(settings.hiddens)
        count = int(settings.num_atoms)
        noise = float(settings.sigma0) if settings.noisy else 0.0
        num_values = setup.decode.layout[0].size * count
        heads = [Head("advantage", num_values, hiddens, 0.1, noise=noise)]
        model = setup.custom_class()
        if model is not None and not hiddens and not settings.dueling:
            if noise:
                raise UnsupportedRayFeatureError(
                    "noisy with a custom_model that gives the values",
                    "The layers of the heads have the noise",
                    "set hiddens or dueling",
                )
            return setup.network_of_class(model, tuple(heads))  # its outputs are the values
        if settings.dueling:
            heads.append(Head("value", count, hiddens, noise=noise))
        trunk = tuple(settings.model["fcnet_hiddens"])
        return NetworkSpec(heads=tuple(heads), trunk=trunk, **setup.body_options())

    def _learn_minibatches(
        self, minibatches: dict[str, Array], num_steps: int
    ) -> tuple[dict[str, float], Array]:
        settings = self.config
        self.learner.set_learning_rate(scheduled(settings.lr, num_steps))
        losses, errors, mean_q = (each.numpy() for each in self._update(minibatches))
        if num_steps - self._steps_at_target_update >= settings.target_network_update_freq:
            self._steps_at_target_update = num_steps
            self._update_target(settings.tau)
        return {
            "qf_loss": float(losses.mean()),
            "qf_mean": float(mean_q),
            "td_error_mean": float(np.abs(errors).mean()),
        }, errors

    def learn_batch(self, steps: Columns, num_steps: int) -> Metrics:
        """Learn from steps that a program has drawn, as one minibatch.

        Parameters
        ----------
        steps : dict of arrays, of shape (rows, ...)
            ``observations``, ``actions``, ``rewards``, ``terminateds`` and ``next_observations``.
        num_steps : int
            All steps so far, for schedules.

        Raises
        ------
        UnsupportedRayFeatureError
            When the options join several steps.
        """
        settings = self.config
        if settings.n_step != 1:
            raise UnsupportedRayFeatureError(
                f"n_step={settings.n_step} with batches of a program",
                "Each row is one step",
                "set n_step to 1",
            )
        rows = {name: each for name, each in steps.items() if name != "terminateds"}
        rows["discounts"] = (settings.gamma * ~steps["terminateds"]).astype(np.float32)
        rows["weights"] = np.ones(len(steps["rewards"]), np.float32)
        self.learner.set_learning_rate(scheduled(settings.lr, num_steps))
        update = self._update({name: each[None] for name, each in rows.items()})
        losses, errors, mean_q = (each.numpy() for each in update)
        self._weights = self.learner.get_weights()
        statistics = {
            "qf_loss": float(losses.mean()),
            "qf_mean": float(mean_q),
            "td_error_mean": float(np.abs(errors).mean()),
        }
        check_finite(statistics, f"DQN, after {num_steps} steps")
        return statistics

    def update_target(self) -> None:
        """Let the target network follow."""
        self._update_target(self.config.tau)

    def _update_target(self, tau: float) -> None:
        self._num_target_updates += 1
        pairs = zip(self.learner.get_weights(), self._target.get_weights(), strict=True)
        self._target.set_weights([tau * new + (1 - tau) * old for new, old in pairs])

    def get_state(self) -> State:
        """Return both networks and the optimizer, and if the config says so the buffer."""
        return {**super().get_state(), "target": self._target.get_weights()}

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        super().set_state(state)
        self._target.set_weights(state["target"])


class DQN(ReplayAlgorithm):
    """Deep Q-networks; see `Algorithm`.

    Parameters
    ----------
    config : DQNConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = DQNConfig
    learner_class = DQNLearner

    def exploration(self) -> float:
        """Return the chance of a random action now."""
        return scheduled(self.config.epsilon, self.num_steps)


def _compiled_update(
    learner: Learner, target: KerasNetwork, settings: DQNConfig
) -> Callable[..., Any]:
    """Return the function that learns from several minibatches in one call of TensorFlow."""
    import tensorflow as tf

    is_double, kind = settings.double_q, settings.td_error_loss_fn
    num_atoms = int(settings.num_atoms)
    atoms = tf.linspace(float(settings.v_min), float(settings.v_max), num_atoms)

    def learn_distribution(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        nexts = batch["next_observations"]
        chances = tf.nn.softmax(return_logits(target.drawn(nexts), num_atoms))
        choosing = chances
        if is_double:
            choosing = tf.nn.softmax(return_logits(learner.network.drawn(nexts), num_atoms))
        best = tf.argmax(tf.linalg.matvec(choosing, atoms), -1, output_type=tf.int32)
        chances = tf.gather(chances, best, axis=1, batch_dims=1)
        goal = projected(chances, batch["rewards"], batch["discounts"], atoms)
        with tf.GradientTape() as tape:
            logits = return_logits(learner.network.drawn(batch["observations"]), num_atoms)
            taken = tf.gather(logits, batch["actions"], axis=1, batch_dims=1)
            errors = tf.nn.softmax_cross_entropy_with_logits(goal, taken)
            loss = tf.reduce_mean(batch["weights"] * errors)
        learner.apply(tape.gradient(loss, learner.network.variables))
        return loss, errors, tf.reduce_mean(tf.linalg.matvec(tf.nn.softmax(taken), atoms))

    def learn_mean(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        nexts = batch["next_observations"]
        next_values = q_values(target.drawn(nexts))
        choosing = q_values(learner.network.drawn(nexts)) if is_double else next_values
        targets = q_targets(batch["rewards"], batch["discounts"], next_values, choosing)
        with tf.GradientTape() as tape:
            values = q_values(learner.network.drawn(batch["observations"]))
            taken = tf.gather(values, batch["actions"], axis=1, batch_dims=1)
            errors = taken - targets
            loss = q_loss(errors, batch["weights"], kind)
        learner.apply(tape.gradient(loss, learner.network.variables))
        return loss, errors, tf.reduce_mean(taken)

    learn_once = learn_mean if num_atoms == 1 else learn_distribution

    def update(minibatches: dict[str, Array]) -> tuple[Tensor, Tensor, Tensor]:
        count = tf.shape(minibatches["actions"])[0]
        losses = tf.TensorArray(tf.float32, count)
        errors = tf.TensorArray(tf.float32, count)
        mean_q = 0.0
        for index in tf.range(count):
            loss, error, mean_q = learn_once({k: rows[index] for k, rows in minibatches.items()})
            losses = losses.write(index, loss)
            errors = errors.write(index, error)
        return losses.stack(), errors.stack(), mean_q

    return compiled_for_any_rows(update)


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
