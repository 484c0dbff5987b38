"""`PolicyOfAlgorithm`: what `Algorithm.get_policy` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raycompat.rllib.acting import PolicyPlan
from raycompat.rllib.networks import Weights


class PolicyOfAlgorithm:
    """One policy of an algorithm.

    Parameters
    ----------
    algorithm : Algorithm
    name : str
    plan : PolicyPlan

    Attributes
    ----------
    observation_space, action_space : gymnasium.Space

    Notes
    -----
    Ray source: ``ray.rllib.policy.policy.Policy``, 2.60.0, as ``get_policy`` returns it. Differs from
    Ray: it has what programs call to act, and to read and replace weights.
    """

    def __init__(self, algorithm: Any, name: str, plan: PolicyPlan) -> None:
        self._algorithm, self._name = algorithm, name
        self.observation_space, self.action_space = plan.observation_space, plan.action_space

    @property
    def model(self) -> Any:
        """The network as a Keras model; None where it is none."""
        learner = self._algorithm.learners.get(self._name)
        return None if learner is None else learner.model

    @property
    def config(self) -> Any:
        """The options of the algorithm."""
        return self._algorithm.config

    def compute_single_action(
        self, obs: Any, state: Any = None, *, explore: bool | None = None, **kwargs: Any
    ) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the action for one observation, the next states, and what the policy remembers.

        Parameters
        ----------
        obs : object
            Of the observation space.
        state : list, optional
            Of a rule of a user, what it returned last.
        explore : bool, optional
            Draw the action, instead of taking the best; by default as the config says.
        **kwargs
            They have no effect: the policy sees the observation alone.
        """
        found: tuple[Any, list[Any], dict[str, Any]] = self._algorithm.compute_single_action(
            obs, state, policy_id=self._name, explore=explore, full_fetch=True
        )
        return found

    def compute_actions(
        self, obs_batch: Sequence[Any], *args: Any, explore: bool | None = None, **kwargs: Any
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return the actions for several observations, no states, and an empty dict.

        Parameters
        ----------
        obs_batch : sequence
            Of the observation space.
        *args, **kwargs
            They have no effect.
        explore : bool, optional
            Draw the actions, instead of taking the best; by default as the config says.
        """
        actions = [self.compute_single_action(each, explore=explore)[0] for each in obs_batch]
        return actions, [], {}

    def get_weights(self) -> Weights:
        """Return the weights, a list of arrays; none for a rule of a user."""
        learner = self._algorithm.learners.get(self._name)
        return [] if learner is None else learner.get_weights()

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights by what `get_weights` returned."""
        self._algorithm.set_weights({self._name: weights})

    def get_state(self) -> dict[str, Any]:
        """Return the weights, and all else that learns."""
        found: dict[str, Any] = self._algorithm.learners[self._name].get_state()
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what `get_state` returned."""
        self._algorithm.learners[self._name].set_state(state)
        self._algorithm.weights_changed()

    def get_initial_state(self) -> list[Any]:
        """Return no states: networks have no memory."""
        return []
