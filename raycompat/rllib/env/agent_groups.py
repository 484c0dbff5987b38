"""`GroupedAgents`: an environment in which groups of agents are one agent each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from raycompat.rllib.env.multi_agent_env import (
    ALL,
    MultiAgentDict,
    MultiAgentEnv,
    as_step,
    reset_env,
    space_of,
)


class GroupedAgents(MultiAgentEnv):
    """Observations and actions of a group are tuples, and its reward is the sum of its agents'.

    Parameters
    ----------
    env : MultiAgentEnv
    groups : dict of list
        The agents of each group. All of them act together.
    obs_space, act_space : gymnasium.spaces.Tuple, optional
        Of a group. Default: those of its agents.
    """

    def __init__(
        self, env: Any, groups: Mapping[str, list[Any]], obs_space: Any, act_space: Any
    ) -> None:
        self.env, self.groups = env, dict(groups)
        self._group_of = {agent: name for name, agents in groups.items() for agent in agents}
        given = {"observation_space": obs_space, "action_space": act_space}
        spaces = {name: self._spaces(name, space) for name, space in given.items()}
        self.observation_spaces = spaces["observation_space"]
        self.action_spaces = spaces["action_space"]
        self.agents = self.possible_agents = list(groups)
        super().__init__()

    def _spaces(self, name: str, given: Any) -> MultiAgentDict:
        return {
            group: given
            or gymnasium.spaces.Tuple([space_of(self.env, agent, name) for agent in agents])
            for group, agents in self.groups.items()
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[MultiAgentDict, MultiAgentDict]:
        """Begin an episode."""
        observations, infos = reset_env(self.env, seed)
        return self._grouped(observations, tuple), self._grouped(infos, tuple, {})

    def step(self, action_dict: MultiAgentDict) -> Any:
        """Do the actions of the groups."""
        actions = {
            agent: action
            for group, own in action_dict.items()
            for agent, action in zip(self.groups[group], own, strict=True)
        }
        observations, rewards, terminateds, truncateds, infos = as_step(self.env.step(actions))
        ends = []
        for found in (terminateds, truncateds):
            own = {agent: end for agent, end in found.items() if agent != ALL}
            ends.append({**self._grouped(own, all, True), ALL: found.get(ALL, False)})
        rewards = self._grouped(rewards, sum, 0.0)
        return self._grouped(observations, tuple), rewards, *ends, self._grouped(infos, tuple, {})

    def _grouped(self, values: Mapping[Any, Any], join: Any, missing: Any = None) -> MultiAgentDict:
        """Return values of groups of which an agent has one."""
        present = {self._group_of[agent] for agent in values if agent in self._group_of}
        return {
            group: join([values.get(agent, missing) for agent in self.groups[group]])
            for group in self.groups
            if group in present
        }

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
