"""Asynchronous proximal policy optimization: IMPALA's sampling, and PPO's clipped objective.

In each training step samples are taken as the runners finish them (`IMPALA.sample_as_it_comes`); their
advantages are of V-trace, and the network learns from them by `ppo_loss`, which keeps the new policy
near the one that played.
"""

from __future__ import annotations

from typing import ClassVar

from raycompat._surface.modules import names_of
from raycompat.rllib._types import Metrics
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.impala import IMPALA, IMPALAConfig, Replayed
from raycompat.rllib.algorithms.ppo import PPOLearner, normalized_batch
from raycompat.rllib.env.runner import Columns, Sample
from raycompat.rllib.networks import NetworkSpec
from raycompat.rllib.policy_learner import PolicySetup


class APPOConfig(IMPALAConfig):
    """Options of APPO: those of `IMPALAConfig`, and of PPO's objective.

    ``training`` takes, beside those of IMPALA: ``lambda_`` (float, default 1.0), ``clip_param`` (float
    or schedule, default 0.4), ``use_kl_loss`` (bool, default False), ``kl_coeff`` (float, default 1.0),
    ``kl_target`` (float, default 0.01), ``num_epochs`` (int, default 1), ``minibatch_size`` (int,
    steps, default 500).

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.appo.APPOConfig``, 2.60.0. Differs from Ray: the objective is
    clipped around the policy that played, without a target network; batches are not used again.
    """

    algo_class: type[APPO]
    TRAINING: ClassVar = {
        **IMPALAConfig.TRAINING,
        "use_critic": True,
        "lambda_": 1.0,
        "clip_param": 0.4,
        "vf_clip_param": float("inf"),
        "use_kl_loss": False,
        "kl_coeff": 1.0,
        "kl_target": 0.01,
        "num_epochs": 1,
        "minibatch_size": 500,
    }

    ROWS: ClassVar = "ray.rllib.algorithms.appo.APPOConfig"

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or APPO)


class APPOLearner(PPOLearner):
    """A policy and its critic, which learn by PPO's objective from steps of older policies.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    config: APPOConfig

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._replayed = Replayed(network, self.layout)

    def batch(self, parts: list[Columns]) -> Columns:
        """Return the valid steps of samples in one, with advantages and targets by V-trace."""
        weights = self.get_weights()
        found = [self._replayed.columns(each, weights, self.config) for each in parts]
        return normalized_batch(found, self.network.memory)


class APPO(IMPALA):
    """Asynchronous PPO; see `Algorithm`.

    Parameters
    ----------
    config : APPOConfig or dict, optional
    env : str, class or callable, optional
    logger_creator : optional
        Has no effect.
    """

    config_class = APPOConfig
    learner_class = APPOLearner

    def learn_from(self, samples: list[Sample], *more: object) -> dict[str, Metrics]:
        """Let each policy learn from its part of samples, in minibatches."""
        return super().learn_from(samples, self._rng, *more)


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
