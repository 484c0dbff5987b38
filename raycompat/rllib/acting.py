"""`ActingPolicy`: a policy with what lies between it and an environment.

Observations are encoded, filtered and given to the policy, whose actions are decoded. A `PolicyPlan`
says how one is made; it travels to the processes that play.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib.filters import NoFilter, RunningStatistics, make_filter
from raycompat.rllib.fixed_policies import fixed_policy
from raycompat.rllib.networks import NetworkSpec, Weights
from raycompat.rllib.policies import Extras, Policy
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder


@dataclass(frozen=True)
class PolicyPlan:
    """The parts of a policy.

    Parameters
    ----------
    policy_class : type of Policy, or a user's class that acts by a rule
    network : NetworkSpec or None
        None for a rule.
    observation_space, action_space : gymnasium.Space
    observation_filter : str or callable
        A key of `filters.FILTERS`, or what makes a filter for the shape of an observation.
    normalize_actions, clip_actions : bool
        See `ActionDecoder`.
    options : dict, optional
        What a rule is made with.
    """

    policy_class: Any
    network: NetworkSpec | None
    observation_space: Any
    action_space: Any
    observation_filter: Any = "NoFilter"
    normalize_actions: bool = True
    clip_actions: bool = False
    options: Any = None

    def make(self) -> ActingPolicy | ActingRule:
        """Return the policy; it has no weights yet."""
        return ActingRule(self) if self.network is None else ActingPolicy(self)


class ActingPolicy:
    """A policy that acts in environments.

    Parameters
    ----------
    plan : PolicyPlan

    Attributes
    ----------
    encode : ObservationEncoder
    decode : ActionDecoder
    filter : MeanStdFilter, NoFilter or FilterOfUser
    policy : Policy
    """

    def __init__(self, plan: PolicyPlan) -> None:
        self.encode = ObservationEncoder(plan.observation_space)
        self.decode = ActionDecoder(plan.action_space, plan.normalize_actions, plan.clip_actions)
        self.filter = make_filter(plan.observation_filter, self.encode.shape)
        self.policy: Policy = plan.policy_class(plan.network, self.decode.layout)

    def observe(self, raw: list[Any], update: bool = True) -> Any:
        """Return observations as the policy takes them.

        Parameters
        ----------
        raw : list
            Of the observation space.
        update : bool, default True
            Whether the filter counts them.
        """
        return self.filter(self.encode(raw), update)

    def act(
        self, observations: NDArray[Any], rng: np.random.Generator, explore: bool
    ) -> tuple[NDArray[Any], Extras]:
        """Return actions, and what to remember of them, for the result of `observe`."""
        return self.policy.act(observations, rng, explore)

    def set_state(
        self, weights: Weights, statistics: RunningStatistics | None, epsilon: float
    ) -> None:
        """Take weights, the filter's statistics and the chance of random actions."""
        self.policy.set_weights(weights)
        self.policy.set_exploration(epsilon)
        if statistics is not None:
            self.filter.statistics = statistics.copy()


class ActingRule:
    """A user's policy that acts by a rule in environments.

    Parameters
    ----------
    plan : PolicyPlan

    Attributes
    ----------
    filter : NoFilter
    """

    def __init__(self, plan: PolicyPlan) -> None:
        self._rule = fixed_policy(
            plan.policy_class, plan.observation_space, plan.action_space, plan.options
        )
        self._encode = None if self._rule.takes_raw else ObservationEncoder(plan.observation_space)
        self.filter = NoFilter()
        self.initial_state = self._rule.initial_state
        self.choose = self._rule.choose

    def observe(self, raw: list[Any], update: bool = True) -> Any:
        """Return observations as the rule takes them."""
        return raw if self._encode is None else list(self._encode(raw))

    def set_state(
        self, weights: Weights, statistics: RunningStatistics | None, epsilon: float
    ) -> None:
        """Do nothing: a rule has no weights."""
