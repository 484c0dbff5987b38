"""Results of an iteration: by key and by attribute, with the names of today and of 2017 to 2022."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

Episode = tuple[float, int]


class ResultDict(dict[str, Any]):
    """A dict whose keys are attributes, too.

    Examples
    --------
    >>> result = ResultDict(episode_reward_mean=21.5)
    >>> result.episode_reward_mean, result["episode_reward_mean"]
    (21.5, 21.5)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The result has no {name!r}: it has {sorted(self)}.") from None


class EpisodeStatistics:
    """Counts episodes, and describes the last ones.

    Parameters
    ----------
    window : int
        Of how many episodes means, minima and maxima are; of more if an iteration has more.
    """

    def __init__(self, window: int) -> None:
        self._last: deque[Episode] = deque(maxlen=window)
        self.new: list[Episode] = []
        self.num_episodes = 0
        self.num_steps = 0
        self.num_new_steps = 0

    def add(self, episodes: list[Episode], num_steps: int) -> None:
        """Count episodes that ended, and steps."""
        self.new += episodes
        self._last.extend(episodes)
        self.num_episodes += len(episodes)
        self.num_steps += num_steps
        self.num_new_steps += num_steps

    def begin_iteration(self) -> None:
        """Reset the counters of new episodes to 0."""
        self.new, self.num_new_steps = [], 0

    def described(self) -> dict[str, Any]:
        """Return the part of a result about the episodes."""
        episodes = self.new if len(self.new) >= len(self._last) else list(self._last)
        return {
            **describe(episodes),
            "num_episodes": len(self.new),
            "num_episodes_lifetime": self.num_episodes,
            "num_env_steps_sampled": self.num_new_steps,
            "num_env_steps_sampled_lifetime": self.num_steps,
        }

    def get_state(self) -> dict[str, Any]:
        """Return what `set_state` takes."""
        return {
            "last": list(self._last),
            "num_episodes": self.num_episodes,
            "num_steps": self.num_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what `get_state` returned."""
        self._last.clear()
        self._last.extend(state["last"])
        self.num_episodes, self.num_steps = state["num_episodes"], state["num_steps"]
        self.begin_iteration()


def describe(episodes: list[Episode]) -> dict[str, float]:
    """Return mean, minimum and maximum of returns and lengths; NaN without an episode."""
    if not episodes:
        episodes = [(float("nan"), float("nan"))]  # type: ignore[list-item]
    returns, lengths = np.array(episodes, np.float64).T
    return {
        "episode_return_mean": float(returns.mean()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_len_mean": float(lengths.mean()),
        "episode_len_min": float(lengths.min()),
        "episode_len_max": float(lengths.max()),
    }


def with_old_names(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the names that it had from 2017 to 2024, too."""
    runners = result["env_runners"]
    policy = result["learners"]["default_policy"]
    old = {
        "episode_reward_mean": runners["episode_return_mean"],
        "episode_reward_min": runners["episode_return_min"],
        "episode_reward_max": runners["episode_return_max"],
        "episode_len_mean": runners["episode_len_mean"],
        "episodes_this_iter": runners["num_episodes"],
        "timesteps_this_iter": runners["num_env_steps_sampled"],
        "info": {**policy, "learner": {"default_policy": policy}},
    }
    evaluation = result.get("evaluation")
    if evaluation is not None:
        of_evaluation = evaluation["env_runners"]
        result["evaluation"] = {
            **evaluation,
            "episode_reward_mean": of_evaluation["episode_return_mean"],
            "episode_reward_min": of_evaluation["episode_return_min"],
            "episode_reward_max": of_evaluation["episode_return_max"],
        }
    return {**old, **result}
