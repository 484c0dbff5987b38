"""`ReplayLearner`: a policy that learns from a memory of steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Array, Options, State
from raycompat.rllib.env.runner import Columns
from raycompat.rllib.learner import check_finite
from raycompat.rllib.networks import NetworkSpec, Weights
from raycompat.rllib.policy_learner import KerasLearner, PolicySetup
from raycompat.rllib.replay_buffer import PrioritizedReplayBuffer, ReplayBuffer
from raycompat.rllib.returns import n_step_transitions

#: The names of Ray's buffers, and whether they have priorities.
BUFFERS = {
    "EpisodeReplayBuffer": False,
    "MultiAgentEpisodeReplayBuffer": False,
    "MultiAgentPrioritizedEpisodeReplayBuffer": True,
    "MultiAgentPrioritizedReplayBuffer": True,
    "MultiAgentReplayBuffer": False,
    "PrioritizedEpisodeReplayBuffer": True,
}


def check_buffer(buffer: Mapping[str, object]) -> None:
    """Raise for a ``replay_buffer_config`` that cannot be used.

    Raises
    ------
    UnsupportedRayFeatureError, ValueError
        For a type that raycompat does not have, and for a capacity that is not a number of steps.
    """
    if buffer["type"] not in BUFFERS:
        raise UnsupportedRayFeatureError(
            f"replay_buffer_config: type={buffer['type']!r}",
            alternative=f"Use one of {sorted(BUFFERS)}",
        )
    if not isinstance(buffer["capacity"], int) or buffer["capacity"] < 1:
        raise ValueError(
            f"replay_buffer_config: capacity={buffer['capacity']!r}: expected a number of steps."
        )


class ReplayLearner(KerasLearner):
    """A policy that learns from minibatches of a memory of steps.

    Subclasses give `_learn_minibatches`.

    Parameters
    ----------
    setup : PolicySetup
    network : NetworkSpec
    seed : int
    """

    def __init__(self, setup: PolicySetup, network: NetworkSpec, seed: int) -> None:
        super().__init__(setup, network, seed)
        self._weights = self.learner.get_weights()
        self._buffer = make_buffer(self.config.replay_buffer_config, [seed, 1])
        self._steps_at_target_update = 0
        self._num_target_updates = 0
        #: Minibatches that are due for the steps played; fractions are carried over.
        self._due = 0.0

    @abstractmethod
    def _learn_minibatches(
        self, minibatches: dict[str, Array], num_steps: int
    ) -> tuple[dict[str, float], NDArray[np.float32]]:
        """Learn from minibatches; return statistics, and the errors, by which steps are drawn again.

        Parameters
        ----------
        minibatches : dict of arrays, of shape (minibatches, rows, ...)
        num_steps : int
            All steps so far, for schedules.

        Returns
        -------
        statistics : dict of float
        errors : array of float, shape (minibatches, rows)
        """

    @property
    def num_remembered(self) -> int:
        """How many steps are in the buffer."""
        return len(self._buffer)

    def remember(self, columns: Columns) -> int:
        """Put the valid steps into the buffer, each joined with those that follow it; count them."""
        settings = self.config
        sums, last, discounts = n_step_transitions(
            columns["rewards"],
            columns["terminateds"],
            columns["truncateds"],
            settings.gamma,
            settings.n_step,
        )
        places = np.arange(sums.shape[1])
        is_choice = self.layout[0].is_discrete
        named = {
            "observations": columns["observations"],
            "actions": columns["actions"].astype(np.int32 if is_choice else np.float32),
            "rewards": sums,
            "discounts": discounts,
            "next_observations": columns["next_observations"][last, places],
        }
        kept = columns["valid"]
        if "has_next" in columns:  # of recorded steps
            kept = kept & columns["has_next"][last, places]
        self._buffer.add({name: each[kept] for name, each in named.items()})
        return int(columns["valid"].size)

    def learn(self, num_played: int, num_steps: int) -> dict[str, float]:
        """Learn from the minibatches that are due.

        Parameters
        ----------
        num_played : int
            Steps of this policy since the last call.
        num_steps : int
            All steps so far, for schedules.
        """
        settings = self.config
        size = settings.train_batch_size_per_learner
        self._due += num_played * (settings.training_intensity or size) / size
        statistics: dict[str, float] = {}
        if len(self._buffer) and self._due >= 1:
            statistics = self.learn_minibatches(int(self._due), num_steps)
            self._due %= 1
        return {**statistics, "num_target_updates": self._num_target_updates}

    def learn_minibatches(self, count: int, num_steps: int) -> dict[str, float]:
        """Learn from a number of minibatches that are drawn from the buffer.

        Parameters
        ----------
        count : int, at least 1
        num_steps : int
            All steps so far, for schedules.
        """
        size = self.config.train_batch_size_per_learner
        batch = self._buffer.sample(count * size)
        indices = batch.pop("indices")
        # Rows were drawn from equal parts of the sum: every count-th makes a spread minibatch.
        minibatches = {
            name: column.reshape(size, count, *column.shape[1:]).swapaxes(0, 1)
            for name, column in batch.items()
        }
        statistics, errors = self._learn_minibatches(minibatches, num_steps)
        if isinstance(self._buffer, PrioritizedReplayBuffer):
            self._buffer.update_priorities(indices, errors.T.ravel())
        name = type(self).__name__.removesuffix("Learner")
        check_finite(statistics, f"{name}, after {num_steps} steps")
        self._weights = self.learner.get_weights()
        return statistics

    def get_state(self) -> State:
        """Return the network and the optimizer, and if the config says so the buffer."""
        state = {
            **super().get_state(),
            "num_target_updates": self._num_target_updates,
            "steps_at_target_update": self._steps_at_target_update,
        }
        if self.config.store_buffer_in_checkpoints:
            state["buffer"] = self._buffer.get_state()
        return state

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        super().set_state(state)
        self._num_target_updates = state["num_target_updates"]
        self._steps_at_target_update = state["steps_at_target_update"]
        self._weights = self.learner.get_weights()
        if "buffer" in state:
            self._buffer.set_state(state["buffer"])

    def get_weights(self) -> Weights:
        """Return the weights of the network."""
        return self._weights

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of the network."""
        super().set_weights(weights)
        self._weights = self.learner.get_weights()


def make_buffer(config: Options, seed: list[int]) -> ReplayBuffer:
    """Return the buffer of ``replay_buffer_config``.

    Parameters
    ----------
    config : dict
        See `check_buffer`.
    seed : list of int
        Of the random numbers by which steps are drawn.
    """
    rng = np.random.default_rng(seed)
    if not BUFFERS[config["type"]]:
        return ReplayBuffer(config["capacity"], rng)
    return PrioritizedReplayBuffer(
        config["capacity"], rng, config["alpha"], config["beta"], config["epsilon"]
    )
