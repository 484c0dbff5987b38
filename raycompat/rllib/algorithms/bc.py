"""Behavior cloning: the policy learns to choose the actions that were recorded.

It is MARWIL with a ``beta`` of 0, and without a critic: the loss is the mean of the logarithms of the
recorded actions' chances, with the other sign (Pomerleau, "ALVINN", NeurIPS 1988).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from raycompat._surface.modules import names_of
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.marwil import MARWIL, MARWILConfig, MARWILLearner
from raycompat.rllib.networks import NetworkSpec
from raycompat.rllib.policy_learner import PolicyLearner, PolicySetup


class BCConfig(MARWILConfig):
    """Options of behavior cloning.

    ``training`` takes what `MARWILConfig` does; ``beta`` is 0. `offline_data` names the recorded steps.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional

    Notes
    -----
    Ray source: ``ray.rllib.algorithms.bc.BCConfig``, 2.60.0. No known difference.
    """

    algo_class: type[BC]
    TRAINING: ClassVar = {**MARWILConfig.TRAINING, "beta": 0.0}

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or BC)

    def validate(self) -> None:
        """Raise for values that behavior cloning cannot use."""
        super().validate()
        if self.beta:
            raise ValueError(f"beta={self.beta!r}: expected 0.0 for BC. Use MARWIL for a beta.")


class BCLearner(MARWILLearner):
    """A policy that learns to imitate."""

    @classmethod
    def network_of(cls, setup: PolicySetup) -> NetworkSpec:
        """Return a policy without a critic."""
        setup.refuse_memory("BC")
        network = setup.actor_critic_network()
        if network.gives_heads:
            return network
        return replace(network, heads=network.heads[:1])

    @classmethod
    def for_modules(cls) -> type[PolicyLearner]:
        """Return what learns as BC does."""
        from raycompat.rllib.module_learner import ImitatingModuleLearner

        return ImitatingModuleLearner


class BC(MARWIL):
    """Behavior cloning; see `Algorithm`.

    Parameters
    ----------
    config : BCConfig or dict, optional
    env : str, class or callable, optional
        For evaluations.
    logger_creator : optional
        Has no effect.
    """

    config_class = BCConfig
    learner_class = BCLearner


#: Modules of older Rays are below this one: it is a package for the import system.
__path__: list[str] = []
__getattr__ = names_of(__name__)
