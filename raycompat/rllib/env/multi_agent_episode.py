"""`MultiAgentEpisode`: what callbacks and mappings see of an episode of several agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycompat.rllib.env.episode import Episode
from raycompat.rllib.env.multi_agent_env import ALL


class MultiAgentEpisode(Episode):
    """An episode of one environment, with the episodes of its agents.

    Attributes
    ----------
    agent_episodes : dict of Episode
        By agent. They are kept where a callback sees episodes.

    Notes
    -----
    Ray source: ``ray.rllib.env.multi_agent_episode.MultiAgentEpisode``, 2.60.0, and
    ``ray.rllib.evaluation.episode.Episode`` of 0.8 to 2.10. Differs from Ray: it has what callbacks
    read of either.
    """

    def __init__(self) -> None:
        super().__init__()
        self.agent_episodes: dict[Any, Episode] = {}
        self._policies: dict[Any, str] = {}
        self._length = 0
        self._waiting: dict[Any, float] = {}
        self._last_actions: dict[Any, Any] = {}
        self._stepped: set[Any] = set()

    def map(self, agent: Any, policy: str) -> None:
        """Note the policy of an agent."""
        self._policies[agent] = policy

    def begin(self, observation: Any, info: Mapping[Any, Any]) -> None:
        """Add what the reset of the environment returned."""
        self._stepped = set(observation)
        for agent, own in observation.items():
            self._observe(agent, own, False, False, info.get(agent, {}))

    def add(self, action: Any, found: tuple[Any, Any, Any, Any, Mapping[Any, Any]]) -> None:
        """Add a step."""
        observations, rewards, terminateds, truncateds, infos = found
        self._length += 1
        self._stepped = set(observations)
        self._last_actions.update(action)
        for agent, reward in rewards.items():
            self._waiting[agent] = self._waiting.get(agent, 0.0) + float(reward)
        for agent, own in observations.items():
            ends = bool(terminateds.get(agent)), bool(truncateds.get(agent))
            self._observe(agent, own, *ends, infos.get(agent, {}))
        self.is_terminated = bool(terminateds.get(ALL))
        self.is_truncated = bool(truncateds.get(ALL))

    def _observe(
        self, agent: Any, observation: Any, terminated: bool, truncated: bool, info: Any
    ) -> None:
        episode = self.agent_episodes.get(agent)
        if episode is None:
            episode = self.agent_episodes[agent] = Episode()
            episode.begin(observation, info)
            return
        reward = self._waiting.pop(agent, 0.0)
        found = observation, reward, terminated, truncated, info
        episode.add(self._last_actions.get(agent), found)

    def __len__(self) -> int:
        """Return the number of steps of the environment."""
        return self._length

    def agent_steps(self) -> int:
        """Return the number of steps of all agents together."""
        return sum(map(len, self.agent_episodes.values()))

    @property
    def agent_ids(self) -> set[Any]:
        """The agents that were seen."""
        return set(self.agent_episodes)

    def get_agents_that_stepped(self) -> set[Any]:
        """Return the agents that the last step of the environment has observed."""
        return set(self._stepped)

    def get_agents(self) -> list[Any]:
        """Return the agents that were seen."""
        return list(self.agent_episodes)

    def policy_for(self, agent_id: Any = None) -> str | None:
        """Return the policy of an agent; None before it has acted."""
        return self._policies.get(agent_id)

    module_for = policy_for

    @property
    def agent_rewards(self) -> dict[tuple[Any, str | None], float]:
        """The sums of rewards by agent and policy."""
        agents = {*self.agent_episodes, *self._waiting}
        return {(agent, self.policy_for(agent)): self._reward_of(agent) for agent in agents}

    def _reward_of(self, agent: Any) -> float:
        episode = self.agent_episodes.get(agent)
        return self._waiting.get(agent, 0.0) + (episode.total_reward if episode else 0.0)

    @property
    def total_reward(self) -> float:
        """The sum of the rewards of all agents."""
        return sum(self.agent_rewards.values())

    def get_observations(self, indices: Any = None) -> Any:
        """Return the observations of each agent, see `Episode.get_observations`."""
        return {a: each.get_observations(indices) for a, each in self.agent_episodes.items()}

    def get_infos(self, indices: Any = None) -> Any:
        """Return the infos of each agent."""
        return {a: each.get_infos(indices) for a, each in self.agent_episodes.items()}

    def get_actions(self, indices: Any = None) -> Any:
        """Return the actions of each agent that acted."""
        acted = {a: each for a, each in self.agent_episodes.items() if len(each)}
        return {a: each.get_actions(indices) for a, each in acted.items()}

    def get_rewards(self, indices: Any = None) -> Any:
        """Return the rewards of each agent that acted."""
        acted = {a: each for a, each in self.agent_episodes.items() if len(each)}
        return {a: each.get_rewards(indices) for a, each in acted.items()}

    def last_observation_for(self, agent_id: Any = None) -> Any:
        """Return the newest observation of an agent."""
        return self.agent_episodes[agent_id].last_observation_for()

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: Any = None) -> dict[str, Any]:
        """Return the newest info of an agent."""
        return self.agent_episodes[agent_id].last_info_for()

    def last_action_for(self, agent_id: Any = None) -> Any:
        """Return the newest action of an agent; None before its first."""
        return self._last_actions.get(agent_id)

    def last_reward_for(self, agent_id: Any = None) -> float:
        """Return the newest reward of an agent; 0 before its first."""
        return self.agent_episodes[agent_id].last_reward_for()
