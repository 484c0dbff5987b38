"""`ActingPolicy`: a policy with what lies between it and an environment.

Observations are encoded, filtered and given to the policy, whose actions are decoded. A `PolicyPlan`
says how one is made; it travels to the processes that play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Array, Observation, Space, Values
from raycompat.rllib.filters import FilterMaker, NoFilter, RunningStatistics, make_filter
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
    observation_space: Space
    action_space: Space
    observation_filter: str | FilterMaker = "NoFilter"
    normalize_actions: bool = True
    clip_actions: bool = False
    options: object = None

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
        self._weights: Weights = []
        #: What it remembers; None for a network without a memory.
        self.memory = None if plan.network is None else plan.network.memory

    def observe(
        self,
        raw: list[Observation],
        update: bool = True,
        memories: NDArray[np.float32] | None = None,
    ) -> Array:
        """Return observations as the policy takes them.

        Parameters
        ----------
        raw : list
            Of the observation space.
        update : bool, default True
            Whether the filter counts them.
        memories : array, shape (observations, numbers), optional
            A result of `remembered`. By default, episodes begin.
        """
        found = self.filter(self.encode(raw), update)
        if self.memory is None:
            return found
        if memories is None:
            memories = self.remembered([None] * len(raw), [0.0] * len(raw))
            assert memories is not None, "it has a memory"
        return np.concatenate([found.reshape(len(raw), -1), memories], axis=1, dtype=np.float32)

    def remembered(
        self, memories: Sequence[NDArray[np.float32] | None], rewards: Sequence[float]
    ) -> NDArray[np.float32] | None:
        """Return what is remembered at some observations; None for a network without a memory.

        Parameters
        ----------
        memories : sequence of array
            What `act` gave at the actions before; None where an episode begins.
        rewards : sequence of float
            For these actions.
        """
        if self.memory is None:
            return None
        begin = self.memory.row
        found = np.stack([begin if each is None else each for each in memories])
        if self.memory.sees_reward:
            known = [r if m is not None else 0.0 for m, r in zip(memories, rewards, strict=True)]
            found[:, -1] = known
        return found

    def without_memory(self, observations: Array) -> Array:
        """Return results of `observe`, of any axes before, without what is remembered."""
        if self.memory is None:
            return observations
        count, axes = int(np.prod(self.encode.shape)), observations.shape[:-1]
        return observations[..., :count].reshape(*axes, *self.encode.shape)

    def act(
        self, observations: Array, rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions, and what to remember of them, for the result of `observe`."""
        return self.policy.act(observations, rng, explore)

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        self._weights = weights
        self.policy.set_weights(weights)

    def get_weights(self) -> Weights:
        """Return copies of the weights that it acts with."""
        return [np.array(each) for each in self._weights]

    def set_state(
        self, weights: Weights, statistics: RunningStatistics | None, epsilon: float
    ) -> None:
        """Take weights, the filter's statistics and the chance of random actions."""
        self.set_weights(weights)
        self.policy.set_exploration(epsilon)
        if statistics is not None:
            self.filter.statistics = statistics.copy()


class ActingRule:
    """A user's policy that acts by a rule in environments of several agents.

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
        self.rule = self._rule.rule
        self._encode = None if self._rule.takes_raw else ObservationEncoder(plan.observation_space)
        self.filter = NoFilter()
        self.initial_state = self._rule.initial_state
        self.choose = self._rule.choose

    def observe(
        self,
        raw: list[Observation],
        update: bool = True,
        memories: NDArray[np.float32] | None = None,
    ) -> list[Observation]:
        """Return observations as the rule takes them."""
        return raw if self._encode is None else list(self._encode(raw))

    def set_state(
        self, weights: Weights, statistics: RunningStatistics | None, epsilon: float
    ) -> None:
        """Do nothing: a rule has no weights."""


class RecordedRule:
    """A user's policy that acts by a rule in environments of one agent, whose steps are recorded.

    It has the face of an `ActingPolicy`.

    Parameters
    ----------
    acting : ActingRule

    Raises
    ------
    UnsupportedRayFeatureError
        When it has states.
    """

    #: A rule does not remember more than an episode's states, and those are refused.
    memory = None

    def __init__(self, acting: ActingRule) -> None:
        if acting.initial_state():
            raise UnsupportedRayFeatureError(
                f"{type(acting.rule).__name__} with states as the only policy",
                "A rule for one agent sees the observation alone",
                "keep the states in the environment, or use it as one of several policies",
            )
        self._rule, self.rule, self.filter = acting, acting.rule, acting.filter
        self.set_state = acting.set_state

    def observe(
        self,
        raw: list[Observation],
        update: bool = True,
        memories: NDArray[np.float32] | None = None,
    ) -> Array:
        """Return observations as the rule takes them, as one array."""
        found = self._rule.observe(raw)
        is_nested = any(isinstance(each, dict | tuple) for each in found[:1])
        return _objects(found) if is_nested else np.asarray(found)

    def act(
        self, observations: Array, rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions as the environment takes them."""
        actions, _ = self._rule.choose(list(observations), [[]] * len(observations), explore)
        is_nested = any(isinstance(each, dict | tuple) for each in actions[:1])
        return (_objects(actions) if is_nested else np.asarray(actions)), {}

    def decode(self, actions: Array) -> list[Action]:
        """Return the actions one by one."""
        return [each.item() if np.ndim(each) == 0 else each for each in actions]

    def remembered(self, memories: object, rewards: object) -> None:
        """Return None: nothing is remembered."""


def _objects(values: list[Values]) -> NDArray[np.object_]:
    found = np.empty(len(values), object)
    found[:] = values
    return found
