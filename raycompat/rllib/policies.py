"""Policies: how the outputs of a network become actions."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib._types import Array
from raycompat.rllib.distributions import Categorical, Layout, TanhGaussian, distribution_of
from raycompat.rllib.networks import NetworkSpec, Weights, drawn_weights, make_forward

#: The columns that a policy needs of each step, by name; arrays of shape (rows, ...).
Extras = dict[str, Array]


class Policy(Protocol):
    """The policy with which an env runner acts."""

    def act(
        self, observations: NDArray[np.float32], rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions, of shape (rows,) or (rows, numbers), and what to remember of them.

        ``memories`` is what a network with a memory has to see beside the next observations.
        """

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Return the critic's values, of shape (rows,); None without a critic."""

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""

    def set_exploration(self, epsilon: float) -> None:
        """Set the chance of a random action."""


class StochasticPolicy:
    """Draw actions from the distribution that the head ``policy`` gives; ``value`` is the critic.

    Parameters
    ----------
    network : NetworkSpec
    layout : tuple of Part
        Of actions.
    """

    def __init__(self, network: NetworkSpec, layout: Layout) -> None:
        self._forward = make_forward(network)
        of_user = network.distribution
        self._distribution_of = (
            partial(distribution_of, layout)
            if of_user is None
            else of_user.for_acting(self._forward.of_class)
        )
        self._memory = network.memory
        self._has_critic = any(head.name == "value" for head in network.heads)

    def act(
        self, observations: NDArray[np.float32], rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions; remember the parameters of their distributions, and the values."""
        outputs = self._forward(observations)
        parameters = outputs["policy"]
        distribution = self._distribution_of(parameters)
        actions = distribution.sample(rng) if explore else distribution.mode()
        extras = {
            "parameters": parameters,
            "log_probabilities": distribution.log_probability(actions),
        }
        if self._has_critic:
            extras["values"] = outputs["value"][:, 0]
        if self._memory is not None:
            extras["memories"] = self._memory.after(outputs["states"], actions)
        return actions, extras

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Return the critic's values, of shape (rows,); None without a critic."""
        return self._forward(observations)["value"][:, 0] if self._has_critic else None

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        self._forward.set_weights(weights)

    def set_exploration(self, epsilon: float) -> None:
        """Do nothing: the distribution itself explores."""


class SoftPolicy:
    """Draw choices, or numbers between -1 and 1, from the distribution that the head ``policy`` gives.

    Parameters
    ----------
    network : NetworkSpec
    layout : tuple of Part
        Of actions: one part.
    """

    def __init__(self, network: NetworkSpec, layout: Layout) -> None:
        self._forward = make_forward(network)
        self._distribution_of = Categorical if layout[0].is_discrete else TanhGaussian

    def act(
        self, observations: NDArray[np.float32], rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions; nothing needs to be remembered."""
        distribution = self._distribution_of(self._forward(observations)["policy"])
        return distribution.sample(rng) if explore else distribution.mode(), {}

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Return None: this policy does not have a critic of states."""
        return None

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        self._forward.set_weights(weights)

    def set_exploration(self, epsilon: float) -> None:
        """Do nothing: the distribution itself explores."""


def best_choices(outputs: Extras, num_choices: int) -> NDArray[np.intp]:
    """Return the actions with the largest values, of shape (rows,).

    Parameters
    ----------
    outputs : dict of arrays
        ``advantage``, of shape (rows, choices), or of shape (rows, choices * atoms) for distributions
        of returns; and ``value``, of shape (rows, 1) or (rows, atoms), where the network duels.
    num_choices : int
    """
    advantages = outputs["advantage"]
    num_atoms = advantages.shape[1] // num_choices
    if num_atoms == 1:  # the value of the state is the same for all actions
        found: NDArray[np.intp] = advantages.argmax(-1)
        return found
    logits = advantages.reshape(-1, num_choices, num_atoms)
    if "value" in outputs:
        logits = outputs["value"][:, None] + logits - logits.mean(1, keepdims=True)
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    means = (chances @ np.arange(num_atoms)) / chances.sum(-1)  # atoms are in equal steps
    best: NDArray[np.intp] = means.argmax(-1)
    return best


class EpsilonGreedyPolicy:
    """Take the action with the largest value, or now and then any.

    A noisy network explores by its noise, which is drawn for each call of `act`.

    Parameters
    ----------
    network : NetworkSpec
        With the head ``advantage``, and ``value`` where the network duels.
    layout : tuple of Part
        Of actions: one discrete part.
    """

    def __init__(self, network: NetworkSpec, layout: Layout) -> None:
        assert [part.is_discrete for part in layout] == [True], "values are known of choices only"
        self._network = network
        self._weights: Weights = []
        self._forward = make_forward(network.without_noise())
        self._num_choices = layout[0].size
        self._epsilon = 0.0

    def act(
        self, observations: NDArray[np.float32], rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Extras]:
        """Return actions, of shape (rows,); nothing needs to be remembered."""
        if self._network.is_noisy:
            weights = drawn_weights(self._network, self._weights, rng if explore else None)
            self._forward.set_weights(weights)
        actions = best_choices(self._forward(observations), self._num_choices)
        if explore and self._epsilon > 0:
            is_random = rng.random(len(actions)) < self._epsilon
            drawn = rng.integers(self._num_choices, size=len(actions))
            actions = np.where(is_random, drawn, actions)
        return actions, {}

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Return None: this policy does not have a critic."""
        return None

    def set_weights(self, weights: Weights) -> None:
        """Replace all weights."""
        self._weights = weights
        if not self._network.is_noisy:
            self._forward.set_weights(weights)

    def set_exploration(self, epsilon: float) -> None:
        """Set the chance of a random action."""
        self._epsilon = epsilon
