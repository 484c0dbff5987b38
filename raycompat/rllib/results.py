"""Results of an iteration: by key and by attribute, with the names of today and of 2017 to 2022."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat.rllib._types import Metrics, State

if TYPE_CHECKING:
    from raycompat.rllib.env.episode import EpisodeRecord


@dataclass(frozen=True)
class AgentReturn:
    """What an agent got in an episode that ended.

    Parameters
    ----------
    agent, policy : str
    value : float
        The sum of its rewards.
    length : int
        How often it acted.
    """

    agent: str
    policy: str
    value: float
    length: int


@dataclass(frozen=True)
class EndedEpisode:
    """The sum of an episode's rewards, and its length; of several agents, what each got.

    Parameters
    ----------
    value : float
    length : int
        In steps of the environment.
    agents : tuple of AgentReturn
        Empty for an environment of one agent.
    record : EpisodeRecord, optional
        What callbacks have left, where they see episodes.
    """

    value: float
    length: int
    agents: tuple[AgentReturn, ...] = ()
    record: EpisodeRecord | None = field(default=None, compare=False, repr=False)

    @property
    def custom_metrics(self) -> dict[str, Any]:
        """The metrics that callbacks have set."""
        return {} if self.record is None else self.record.custom_metrics

    @property
    def hist_data(self) -> dict[str, list[Any]]:
        """The lists that callbacks have set."""
        return {} if self.record is None else self.record.hist_data

    @property
    def episode_reward(self) -> float:
        """The sum of the rewards, by its name until 2024."""
        return self.value

    @property
    def episode_length(self) -> int:
        """The length, by its name until 2024."""
        return self.length

    @property
    def agent_rewards(self) -> dict[tuple[str, str], float]:
        """The sums of rewards by agent and policy."""
        return {(each.agent, each.policy): each.value for each in self.agents}


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
        self._last: deque[EndedEpisode] = deque(maxlen=window)
        self.new: list[EndedEpisode] = []
        self.num_episodes = 0
        self.num_steps = 0
        self.num_new_steps = 0

    def add(self, episodes: list[EndedEpisode], num_steps: int) -> None:
        """Count episodes that ended, and steps."""
        self.new += episodes
        self._last.extend(episodes)
        self.num_episodes += len(episodes)
        self.num_steps += num_steps
        self.num_new_steps += num_steps

    def begin_iteration(self) -> None:
        """Reset the counters of new episodes to 0."""
        self.new, self.num_new_steps = [], 0

    def described(self) -> Metrics:
        """Return the part of a result about the episodes."""
        episodes = self.new if len(self.new) >= len(self._last) else list(self._last)
        return {
            **describe(episodes),
            **describe_agents(episodes),
            "num_episodes": len(self.new),
            "num_episodes_lifetime": self.num_episodes,
            "num_env_steps_sampled": self.num_new_steps,
            "num_env_steps_sampled_lifetime": self.num_steps,
        }

    def get_state(self) -> State:
        """Return what `set_state` takes."""
        return {
            "last": list(self._last),
            "num_episodes": self.num_episodes,
            "num_steps": self.num_steps,
        }

    def set_state(self, state: State) -> None:
        """Take what `get_state` returned."""
        self._last.clear()
        self._last.extend(state["last"])
        self.num_episodes, self.num_steps = state["num_episodes"], state["num_steps"]
        self.begin_iteration()


def describe(episodes: list[EndedEpisode]) -> dict[str, float]:
    """Return mean, minimum and maximum of returns and lengths; NaN without an episode."""
    pairs: list[tuple[float, float]] = [(each.value, each.length) for each in episodes]
    returns, lengths = np.array(pairs or [(math.nan, math.nan)], np.float64).T
    return {
        "episode_return_mean": float(returns.mean()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_len_mean": float(lengths.mean()),
        "episode_len_min": float(lengths.min()),
        "episode_len_max": float(lengths.max()),
    }


def describe_agents(episodes: list[EndedEpisode]) -> dict[str, dict[str, float]]:
    """Return the mean returns of agents and policies, and of policies minimum and maximum.

    An agent's return is the sum of its rewards in an episode. ``module_episode_returns_mean`` is of the
    sums over the agents of a policy in an episode; ``policy_reward_mean``, ``_min`` and ``_max``, the
    names until 2024, are of each agent alone.
    """
    by_agent: dict[str, list[float]] = {}
    by_policy: dict[str, list[float]] = {}
    by_module: dict[str, list[float]] = {}
    for episode in episodes:
        sums: dict[str, float] = {}
        for each in episode.agents:
            by_agent.setdefault(each.agent, []).append(each.value)
            by_policy.setdefault(each.policy, []).append(each.value)
            sums[each.policy] = sums.get(each.policy, 0.0) + each.value
        for policy, value in sums.items():
            by_module.setdefault(policy, []).append(value)
    if not by_agent:
        return {}
    return {
        "agent_episode_returns_mean": {k: float(np.mean(v)) for k, v in by_agent.items()},
        "module_episode_returns_mean": {k: float(np.mean(v)) for k, v in by_module.items()},
        "policy_reward_mean": {k: float(np.mean(v)) for k, v in by_policy.items()},
        "policy_reward_min": {k: float(np.min(v)) for k, v in by_policy.items()},
        "policy_reward_max": {k: float(np.max(v)) for k, v in by_policy.items()},
    }


_OF_RETURNS = {
    "episode_reward_mean": "episode_return_mean",
    "episode_reward_min": "episode_return_min",
    "episode_reward_max": "episode_return_max",
}
_OF_POLICIES = ("policy_reward_mean", "policy_reward_min", "policy_reward_max")


def with_old_names(result: Metrics) -> Metrics:
    """Return a result with the names that it had from 2017 to 2024, too."""
    runners = result["env_runners"]
    learners = result["learners"]
    only = learners.get("default_policy", {}) if len(learners) == 1 else {}
    policies = {name: {**each, "learner_stats": each} for name, each in learners.items()}
    old = {
        **{old: runners[new] for old, new in _OF_RETURNS.items()},
        "episode_len_mean": runners["episode_len_mean"],
        "episodes_this_iter": runners["num_episodes"],
        "timesteps_this_iter": runners["num_env_steps_sampled"],
        "info": {**only, "learner": policies},
        **{name: runners.get(name, {}) for name in _OF_POLICIES},
    }
    evaluation = result.get("evaluation")
    if evaluation is not None:
        of_evaluation = evaluation["env_runners"]
        result["evaluation"] = {
            **evaluation,
            **{old: of_evaluation[new] for old, new in _OF_RETURNS.items() if new in of_evaluation},
            **{name: of_evaluation.get(name, {}) for name in _OF_POLICIES},
        }
    return {**old, **result}
