"""IMPALA: env runners that do not wait, and an actor-critic that corrects for it.

The algorithm is that of Espeholt et al. (arXiv 1802.01561). In each training step:

1. Samples are taken as the runners finish them; each runner goes on at once, by the newest weights
   (`IMPALA.sample_as_it_comes`). So a sample may be of a policy that is some updates old.
2. `v_trace` weighs each step by how likely the policy of now would have played it (`Replayed`).
3. The gradient of `actor_critic_loss` is applied, as in A2C.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from raycompat._surface.modules import names_of
from raycompat.rllib._types import Metrics
from raycompat.rllib.algorithms.a3c import LEARNED, ActorCriticLearner
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.rllib.distributions import Layout, distribution_of
from raycompat.rllib.env.runner import Columns, Sample
from raycompat.rllib.memory import learned_batch
from raycompat.rllib.networks import Forward, NetworkSpec, Weights, make_forward
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup
from raycompat.rllib.returns import v_trace


class IMPALAConfig(AlgorithmConfig):
    """Options of IMPALA.

    ``training`` takes, beside those of all algorithms: ``vf_loss_coeff`` (float, default 0.5),
    ``entropy_coeff`` (float or schedule, default 0.01), ``vtrace_clip_rho_threshold`` and
    ``vtrace_clip_pg_rho_threshold`` (float, default 1.0: the largest weight of a step, for the critic
    and for the policy).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Examples
    --------
    >>> from raycompat.rllib.algorithms.impala import IMPALAConfig
    >>> config = (
    ...     IMPALAConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
    ... )

    Then ``config.build_algo().train()`` makes an iteration.

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.impala.IMPALAConfig``, 2.60.0. Differs from Ray: the algorithm's
    process learns, so that options of queues and of aggregating actors have no effect.
    """

    algo_class: type[IMPALA]
    TRAINING: ClassVar = {
        "lr": 5e-4,
        "grad_clip": 40.0,
        "train_batch_size_per_learner": 500,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.01,
        "vtrace_clip_rho_threshold": 1.0,
        "vtrace_clip_pg_rho_threshold": 1.0,
    }

    ROWS: ClassVar = "ray.rllib.algorithms.impala.IMPALAConfig"

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or IMPALA)
        self.num_env_runners = 2
        self.rollout_fragment_length: int | str = 50
        self.min_time_s_per_iteration = 10


class Replayed:
    """The policy of now, for steps that an older one has played.

    Parameters
    ----------
    network : NetworkSpec
    layout : tuple of Part
        Of actions.
    """

    def __init__(self, network: NetworkSpec, layout: Layout) -> None:
        self._forward: Forward = make_forward(network)
        self._layout = layout

    def columns(self, columns: Columns, weights: Weights, settings: IMPALAConfig) -> Columns:
        """Return a sample with ``advantages`` and the critic's ``targets`` by V-trace.

        Parameters
        ----------
        columns : dict of arrays, each of shape (steps, environments, ...)
            See `Sample`.
        weights : list of array
            Of the policy of now.
        settings : IMPALAConfig
        """
        self._forward.set_weights(weights)
        shape = columns["rewards"].shape
        flat = {
            name: columns[name].reshape(-1, *columns[name].shape[2:])
            for name in ("observations", "actions")
        }
        outputs = self._forward(flat["observations"])
        logs = distribution_of(self._layout, outputs["policy"]).log_probability(flat["actions"])
        ratios = np.exp(np.minimum(logs.reshape(shape) - columns["log_probabilities"], 20.0))
        # Without a critic, APPO does not train its values: they must not count.
        has_critic = bool(settings.get("use_critic", True))
        values = outputs["value"][:, 0].reshape(shape) * has_critic
        # The runner's critic knows the observations at which episodes and samples were cut.
        nexts = columns["next_values"] * has_critic
        same = ~(columns["terminateds"] | columns["truncateds"])
        nexts[:-1] = np.where(same[:-1], values[1:], nexts[:-1])
        targets, advantages = v_trace(
            columns["rewards"],
            values,
            nexts,
            columns["terminateds"],
            columns["truncateds"],
            ratios,
            settings.gamma,
            settings.get("lambda_", 1.0),
            settings.vtrace_clip_rho_threshold,
            settings.vtrace_clip_pg_rho_threshold,
        )
        return {**columns, "targets": targets, "advantages": advantages}


class IMPALALearner(ActorCriticLearner):
    """A policy and its critic, which learn from steps of older policies.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    config: IMPALAConfig

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._replayed = Replayed(network, self.layout)

    def batch(self, parts: list[Columns]) -> Columns:
        """Return the valid steps of samples in one, with advantages and targets by V-trace."""
        weights = self.get_weights()
        found = [self._replayed.columns(each, weights, self.config) for each in parts]
        return learned_batch(found, LEARNED, self.network.memory)


class IMPALA(Algorithm):
    """An actor-critic whose env runners do not wait; see `Algorithm`.

    Parameters
    ----------
    config : IMPALAConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = IMPALAConfig
    learner_class: ClassVar[type[PolicyLearner] | None] = IMPALALearner
    #: Programs ask for it: the algorithm's process joins samples itself.
    _aggregator_actor_manager: ClassVar[None] = None

    def training_step(self) -> dict[str, Metrics]:
        """Take samples as they come, and let each policy learn from its part of them."""
        return self.learn_from(self.sample_as_it_comes(self.config.train_batch_size_per_learner))

    def sample_as_it_comes(self, num_steps: int) -> list[Sample]:
        """Return samples of at least this number of steps, the runners' oldest first.

        The runners go on between calls.
        """
        fragment = self.config.rollout_fragment_length
        length = 50 if fragment == "auto" else fragment

        def arguments() -> tuple[object, ...]:
            return length, self.runner_state(), self.config.explore

        samples: list[Sample] = []
        with self._timed("env_runner_sampling_timer"):
            while sum(sample.num_steps for sample in samples) < num_steps:
                sample = self.env_runner_group.next_answer("sample", arguments)
                self.count(sample)
                samples.append(sample)
        return samples

    def weights_changed(self) -> None:
        """Forget the samples in flight: they are of the old weights."""
        self.env_runner_group.forget_calls()


#: The names until 2023.
Impala, ImpalaConfig = IMPALA, IMPALAConfig

#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
