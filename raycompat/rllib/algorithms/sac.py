"""Soft actor-critic: a policy that earns much while it stays as random as it can.

Haarnoja et al., "Soft actor-critic algorithms and applications" (arXiv 1812.05905); for choices
Christodoulou, "Soft actor-critic for discrete action settings" (arXiv 1910.07207). In each training
step:

1. The env runners play by the policy, and the steps go into the replay buffer
   (`ReplayLearner.remember`).
2. From the minibatches that are due the critics learn the value of actions and of the randomness after
   them, the policy learns to choose actions with high values, and the temperature, the worth of
   randomness, learns to keep the policy's entropy near a target (`sac_losses`).
3. After each minibatch the critics' targets follow them by a part, ``tau``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.rllib._types import Array, State, Tensor
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.algorithms.replay_algorithm import ReplayAlgorithm
from raycompat.rllib.distributions import tf_tanh_gaussian
from raycompat.rllib.learner import Learner, compiled_for_any_rows
from raycompat.rllib.networks import Head, KerasNetwork, NetworkSpec, import_keras
from raycompat.rllib.policies import SoftPolicy
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup
from raycompat.rllib.replay_learner import ReplayLearner, check_buffer
from raycompat.rllib.schedules import scheduled
from raycompat.rllib.utils.error import UnsupportedSpaceException


class SACConfig(AlgorithmConfig):
    """Options of SAC.

    ``training`` takes, beside those of all algorithms: ``twin_q`` (bool, default True: two critics, of
    which the smaller value counts), ``tau`` (float, default 0.005), ``initial_alpha`` (float, default
    1.0: the temperature at first), ``target_entropy`` (float, nats; "auto" is minus the numbers of an
    action), ``actor_lr`` (float or schedule, default 3e-5), ``critic_lr`` and ``alpha_lr`` (float or
    schedule, default 3e-4), ``q_model_config`` and ``policy_model_config`` (dict: ``fcnet_hiddens``),
    ``n_step`` (int, default 1), ``training_intensity`` (float: steps learned for each step played; by
    default each step is followed by one minibatch), ``target_network_update_freq`` (int, steps, default
    0: after each minibatch), ``num_steps_sampled_before_learning_starts`` (int, default 1500),
    ``store_buffer_in_checkpoints`` (bool, default False), and ``replay_buffer_config`` (dict: ``type``,
    ``capacity`` in steps, ``alpha``, ``beta``, ``epsilon``).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.sac.SACConfig``, 2.60.0. Differs from Ray: ``lr`` counts for the
    three learning rates where it is given.
    """

    algo_class: type[SAC]
    TRAINING: ClassVar = {
        "lr": None,
        "actor_lr": 3e-5,
        "critic_lr": 3e-4,
        "alpha_lr": 3e-4,
        "train_batch_size_per_learner": 256,
        "twin_q": True,
        "tau": 5e-3,
        "initial_alpha": 1.0,
        "target_entropy": "auto",
        "q_model_config": {},
        "policy_model_config": {},
        "n_step": 1,
        "target_network_update_freq": 0,
        "training_intensity": None,
        "num_steps_sampled_before_learning_starts": 1500,
        "store_buffer_in_checkpoints": False,
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": 1_000_000,
            "alpha": 0.6,
            "beta": 0.4,
            "epsilon": 1e-6,
        },
    }

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or SAC)
        self.min_sample_timesteps_per_iteration = 100
        self.model["fcnet_activation"] = "relu"

    def validate(self) -> None:
        """Raise for values that SAC cannot use."""
        super().validate()
        check_buffer(self.replay_buffer_config)
        target = self.target_entropy
        if target not in (None, "auto") and not isinstance(target, int | float):
            raise ValueError(f"target_entropy={target!r}: expected 'auto' or a number, in nats.")

    def rate(self, name: str, num_steps: int) -> float:
        """Return a learning rate after a number of steps: of "actor", "critic" or "alpha"."""
        own = getattr(self, f"{name}_lr")
        return scheduled(own if self.lr is None else self.lr, num_steps)

    def hiddens_of(self, name: str) -> tuple[int, ...]:
        """Return the widths of the dense layers of "policy" or "q"."""
        own = getattr(self, f"{name}_model_config") or {}
        return tuple(own.get("fcnet_hiddens", self.model["fcnet_hiddens"]))


class SACLearner(ReplayLearner):
    """A policy, its critics and the temperature, which learn from a memory of steps.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    policy_class: ClassVar[Any] = SoftPolicy
    update_class: ClassVar[type[SoftUpdate]]

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        import tensorflow as tf

        settings, spec = self.config, critic_of(setup, network)
        seeds = [seed + 101 * (n + 1) for n in range(1 + bool(settings.twin_q))]
        self.critics = [Learner(spec, each, settings.grad_clip) for each in seeds]
        self.targets = [KerasNetwork(spec, each) for each in seeds]
        self.log_alpha = tf.Variable(np.log(settings.initial_alpha), dtype=tf.float32)
        self.adam_of_alpha = import_keras().optimizers.Adam(settings.rate("alpha", 0))
        self.adam_of_alpha.build([self.log_alpha])
        self._rng = np.random.default_rng([seed, 2])
        update = self.update_class(self, self._target_entropy())
        self._update = compiled_for_any_rows(update.__call__)

    def _target_entropy(self) -> float:
        """Return the entropy, in nats, that the temperature keeps the policy at."""
        target, part = self.config.target_entropy, self.layout[0]
        if target not in (None, "auto"):
            return float(target)
        return 0.98 * float(np.log(part.size)) if part.is_discrete else -float(part.size)

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return the network of the policy."""
        if len(setup.decode.layout) != 1:
            raise UnsupportedSpaceException(
                f"SAC cannot choose from {setup.action_space!r}: expected a Box or a Discrete space. "
                "PPO, APPO, IMPALA, A2C, A3C and ES take actions of several parts."
            )
        setup.refuse_memory("SAC")
        body = setup.body_options()
        if not setup.decode.is_choice and (
            body["conv_filters"] or body["custom_trunk"] is not None
        ):
            raise UnsupportedSpaceException(
                "SAC: critics see a Box action beside the observation, which takes dense layers: "
                f"expected vectors, not {setup.observation_space!r} or a custom_model. Use PPO, or "
                "flatten the observations."
            )
        head = Head("policy", setup.decode.layout[0].num_parameters, (), 0.01)
        return NetworkSpec(heads=(head,), trunk=setup.config.hiddens_of("policy"), **body)

    def _noise(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return random numbers for minibatches of a shape (minibatches, rows)."""
        size = self.layout[0].size
        return {"noise": self._rng.standard_normal((*shape, 2, size), dtype=np.float32)}

    def _learn_minibatches(
        self, minibatches: dict[str, Array], num_steps: int
    ) -> tuple[dict[str, float], Array]:
        settings = self.config
        self.learner.set_learning_rate(settings.rate("actor", num_steps))
        for critic in self.critics:
            critic.set_learning_rate(settings.rate("critic", num_steps))
        self.adam_of_alpha.learning_rate.assign(settings.rate("alpha", num_steps))
        noise = self._noise(minibatches["rewards"].shape)
        tau = 0.0
        if num_steps - self._steps_at_target_update >= settings.target_network_update_freq:
            self._steps_at_target_update = num_steps
            self._num_target_updates += len(minibatches["rewards"])
            tau = settings.tau
        found, errors = self._update({**minibatches, **noise}, np.float32(tau))
        statistics = {name: float(value.numpy().mean()) for name, value in found.items()}
        return statistics, errors.numpy()

    def get_state(self) -> State:
        """Return all networks and optimizers, and if the config says so the buffer."""
        return {
            **super().get_state(),
            "critics": [critic.get_state() for critic in self.critics],
            "targets": [target.get_weights() for target in self.targets],
            "log_alpha": float(self.log_alpha.numpy()),
            "optimizer_of_alpha": [each.numpy() for each in self.adam_of_alpha.variables],
        }

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        super().set_state(state)
        for critic, own in zip(self.critics, state["critics"], strict=True):
            critic.set_state(own)
        for target, weights in zip(self.targets, state["targets"], strict=True):
            target.set_weights(weights)
        self.log_alpha.assign(state["log_alpha"])
        pairs = zip(self.adam_of_alpha.variables, state["optimizer_of_alpha"], strict=True)
        for variable, value in pairs:
            variable.assign(value)


def critic_of(setup: PolicySetup, policy: NetworkSpec) -> NetworkSpec:
    """Return the network of a critic: a value for each choice, or one for observation and action."""
    part, trunk = setup.decode.layout[0], setup.config.hiddens_of("q")
    if part.is_discrete:
        heads = (Head("q", part.size, (), 1.0),)
        return NetworkSpec(heads=heads, trunk=trunk, **setup.body_options())
    size = int(np.prod(policy.observation_shape)) + part.size
    return NetworkSpec(
        (size,),
        (Head("q", 1, (), 1.0),),
        trunk,
        policy.activation,
        kernel_initializer=policy.kernel_initializer,
        bias_initializer=policy.bias_initializer,
    )


class SAC(ReplayAlgorithm):
    """Soft actor-critic; see `Algorithm`.

    Parameters
    ----------
    config : SACConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = SACConfig
    learner_class: ClassVar[type[PolicyLearner] | None] = SACLearner


def soft_values(
    outputs: list[Tensor], log_probabilities: Tensor, alpha: Tensor, chances: Tensor | None = None
) -> Tensor:
    """Return the values of states, of shape (rows,): of their actions, and of the randomness.

    Parameters
    ----------
    outputs : list of tensors, of shape (rows, actions)
        Of the critics; the smallest counts.
    log_probabilities : tensor, of shape (rows, actions)
    alpha : scalar tensor
        The temperature.
    chances : tensor, of shape (rows, actions), optional
        Of choices. Default: the one action is drawn.

    Notes
    -----
    arXiv 1812.05905, equation 3; arXiv 1910.07207, equation 10.
    """
    import tensorflow as tf

    smallest = outputs[0]
    for each in outputs[1:]:
        smallest = tf.minimum(smallest, each)
    values = smallest - alpha * log_probabilities
    return tf.reduce_sum(values if chances is None else chances * values, -1)


class SoftUpdate:
    """How a policy, its critics and the temperature learn from minibatches, in TensorFlow.

    Parameters
    ----------
    learner : SACLearner
    target_entropy : float, nats
    """

    def __init__(self, learner: SACLearner, target_entropy: float) -> None:
        self.actor, self.critics, self.targets = learner.learner, learner.critics, learner.targets
        self.log_alpha, self.adam_of_alpha = learner.log_alpha, learner.adam_of_alpha
        self.is_choice = learner.layout[0].is_discrete
        self.config, self.target_entropy = learner.config, target_entropy

    def drawn(
        self, observations: Tensor, noise: Tensor
    ) -> tuple[Tensor | None, Tensor, Tensor | None]:
        """Return actions, their log probabilities, of shape (rows, actions), and chances of choices."""
        import tensorflow as tf

        parameters = self.actor.network(observations)["policy"]
        if self.is_choice:
            logs = tf.nn.log_softmax(parameters)
            return None, logs, tf.exp(logs)
        actions, logs = tf_tanh_gaussian(parameters, noise)
        return actions, logs[:, None], None

    def values_of(self, network: KerasNetwork, observations: Tensor, actions: Tensor) -> Tensor:
        """Return a critic's values, of shape (rows, actions): of all choices, or of one action."""
        import tensorflow as tf

        if not self.is_choice:
            flat = tf.reshape(observations, (tf.shape(observations)[0], -1))
            observations = tf.concat([flat, actions], -1)
        return network(observations)["q"]

    def more_of_critic(
        self, critic: KerasNetwork, batch: dict[str, Tensor], values: Tensor, taken: Tensor
    ) -> Tensor:
        """Return what is added to the loss of a critic.

        Parameters
        ----------
        critic : KerasNetwork
        batch : dict of tensors, of shape (rows, ...)
        values, taken : tensors
            Its values, of shape (rows, actions), and those of the recorded actions, of shape (rows,).
        """
        return 0.0

    def loss_of_actor(
        self, batch: dict[str, Tensor], values: Tensor, entropies: Tensor, alpha: Tensor
    ) -> Tensor:
        """Return the loss of the policy.

        Parameters
        ----------
        batch : dict of tensors, of shape (rows, ...)
        values, entropies : tensors of shape (rows,)
            Of its actions and their randomness, see `soft_values`; and of its randomness alone.
        alpha : scalar tensor
            The temperature.
        """
        import tensorflow as tf

        return -tf.reduce_mean(values)

    def _learn_critics(
        self, batch: dict[str, Tensor], alpha: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        import tensorflow as tf

        nexts = batch["next_observations"]
        actions, logs, chances = self.drawn(nexts, batch["noise"][:, 0])
        of_nexts = [self.values_of(target, nexts, actions) for target in self.targets]
        wanted = batch["rewards"] + batch["discounts"] * soft_values(of_nexts, logs, alpha, chances)
        total, errors, mean_q = 0.0, 0.0, 0.0
        for critic in self.critics:
            with tf.GradientTape() as tape:
                values = self.values_of(critic.network, batch["observations"], batch["actions"])
                if self.is_choice:
                    taken = tf.gather(values, batch["actions"], axis=1, batch_dims=1)
                else:
                    taken = values[:, 0]
                error = taken - wanted
                loss = 0.5 * tf.reduce_mean(batch["weights"] * error**2)
                loss += self.more_of_critic(critic.network, batch, values, taken)
            critic.apply(tape.gradient(loss, critic.network.variables))
            total += loss
            errors += tf.abs(error) / len(self.critics)
            mean_q = tf.reduce_mean(taken)
        parts = {"qf_loss": total, "qf_mean": mean_q, "td_error_mean": tf.reduce_mean(errors)}
        return parts, errors

    def _learn_actor(self, batch: dict[str, Tensor], alpha: Tensor) -> dict[str, Tensor]:
        import tensorflow as tf

        observations = batch["observations"]
        with tf.GradientTape() as tape:
            actions, logs, chances = self.drawn(observations, batch["noise"][:, 1])
            own = [self.values_of(each.network, observations, actions) for each in self.critics]
            if self.is_choice:
                own = [tf.stop_gradient(each) for each in own]
            values = soft_values(own, logs, alpha, chances)
            entropies = -tf.reduce_sum(logs if chances is None else chances * logs, -1)
            loss = self.loss_of_actor(batch, values, entropies, alpha)
        self.actor.apply(tape.gradient(loss, self.actor.network.variables))
        entropy = tf.stop_gradient(tf.reduce_mean(entropies))
        return {"policy_loss": loss, "entropy": entropy}

    def learn_once(self, batch: dict[str, Tensor], tau: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Learn from one minibatch; return the parts of the losses, and errors of shape (rows,)."""
        import tensorflow as tf

        alpha = tf.exp(self.log_alpha)
        parts, errors = self._learn_critics(batch, alpha)
        parts |= self._learn_actor(batch, alpha)
        surplus = parts["entropy"] - self.target_entropy
        self.adam_of_alpha.apply([surplus], [self.log_alpha])
        for critic, target in zip(self.critics, self.targets, strict=True):
            for new, old in zip(critic.network.variables, target.variables, strict=True):
                old.assign(old + tau * (new - old))
        return {**parts, "alpha_loss": self.log_alpha * surplus, "alpha_value": alpha}, errors

    def __call__(
        self, minibatches: dict[str, Tensor], tau: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Learn from several minibatches in one call of TensorFlow."""
        import tensorflow as tf

        count = tf.shape(minibatches["rewards"])[0]
        errors = tf.TensorArray(tf.float32, count)
        found, first = self.learn_once({k: rows[0] for k, rows in minibatches.items()}, tau)
        errors = errors.write(0, first)
        for index in tf.range(1, count):
            batch = {name: rows[index] for name, rows in minibatches.items()}
            found, each = self.learn_once(batch, tau)
            errors = errors.write(index, each)
        return found, errors.stack()


SACLearner.update_class = SoftUpdate

#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
