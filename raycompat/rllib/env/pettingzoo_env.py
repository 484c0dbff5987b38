"""Environments of PettingZoo as environments of several agents.

PettingZoo is not imported: a program gives an environment that it has made.
"""

from __future__ import annotations

from typing import Any

from raycompat.rllib._types import AgentID
from raycompat.rllib.env.multi_agent_env import ALL, MultiAgentDict, MultiAgentEnv


class _OfPettingZoo(MultiAgentEnv):
    """What both kinds have: the agents and their spaces.

    Parameters
    ----------
    env : pettingzoo.AECEnv or pettingzoo.ParallelEnv
    """

    def __init__(self, env: Any) -> None:
        super().__init__()
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {
            each: env.observation_space(each) for each in env.possible_agents
        }
        self.action_spaces = {each: env.action_space(each) for each in env.possible_agents}

    @property
    def agents(self) -> list[AgentID]:  # type: ignore[override]
        """The agents of this episode; all that there may be, before the first one."""
        return list(getattr(self.env, "agents", None) or self.possible_agents)

    @property
    def get_sub_environments(self) -> Any:
        """The environment of PettingZoo, without what wraps it."""
        return self.env.unwrapped

    def render(self) -> Any:
        """Return what the environment's ``render`` does."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _ends(
        self, terminateds: MultiAgentDict, truncateds: MultiAgentDict, *, is_over: bool
    ) -> None:
        """Say of all agents at once whether, and how, the episode has ended."""
        terminateds[ALL] = is_over and all(terminateds.values())
        truncateds[ALL] = is_over and not terminateds[ALL]


class PettingZooEnv(_OfPettingZoo):
    """An environment in which agents act one after the other: PettingZoo's ``AECEnv``.

    Parameters
    ----------
    env : pettingzoo.AECEnv

    Notes
    -----
    Ray source: ``ray.rllib.env.wrappers.pettingzoo_env.PettingZooEnv``, 2.60.0. No known difference.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[MultiAgentDict, MultiAgentDict]:
        """Begin an episode; the first agent is in the observations.

        Parameters
        ----------
        seed : int, optional
        options : dict, optional
        """
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        return {agent: self.env.observe(agent)}, {agent: dict(self.env.infos.get(agent) or {})}

    def step(self, action_dict: MultiAgentDict) -> Any:
        """Do the action of the agent whose turn it is.

        Parameters
        ----------
        action_dict : dict
            The action, by agent.

        Returns
        -------
        observations, rewards, terminateds, truncateds, infos : tuple of dict
            Of the agent that is next, and of those that have ended; rewards are since their last
            action.
        """
        self.env.step(action_dict[self.env.agent_selection])
        found: tuple[MultiAgentDict, ...] = ({}, {}, {}, {}, {})
        while self.env.agents:
            agent = self.env.agent_selection
            values = self.env.last()
            for column, value in zip(found, values, strict=True):
                column[agent] = value
            if not (values[2] or values[3]):
                break
            self.env.step(None)  # which takes the agent out of the environment
        self._ends(found[2], found[3], is_over=not self.env.agents)
        return found


class ParallelPettingZooEnv(_OfPettingZoo):
    """An environment in which all agents act at once: PettingZoo's ``ParallelEnv``.

    Parameters
    ----------
    env : pettingzoo.ParallelEnv

    Notes
    -----
    Ray source: ``ray.rllib.env.wrappers.pettingzoo_env.ParallelPettingZooEnv``, 2.60.0. Differs
    from Ray: an episode also ends when some agents have terminated and all others were truncated.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[MultiAgentDict, MultiAgentDict]:
        """Begin an episode; all agents are in the observations.

        Parameters
        ----------
        seed : int, optional
        options : dict, optional
        """
        found: tuple[MultiAgentDict, MultiAgentDict] = self.env.reset(seed=seed, options=options)
        return found[0], found[1] or {}

    def step(self, action_dict: MultiAgentDict) -> Any:
        """Do the actions of all agents.

        Parameters
        ----------
        action_dict : dict
            By agent.

        Returns
        -------
        observations, rewards, terminateds, truncateds, infos : tuple of dict
            By agent.
        """
        observations, rewards, terminateds, truncateds, infos = self.env.step(action_dict)
        terminateds, truncateds = dict(terminateds), dict(truncateds)
        have_ended = all(terminateds[each] or truncateds[each] for each in terminateds)
        self._ends(terminateds, truncateds, is_over=have_ended or not self.env.agents)
        return observations, rewards, terminateds, truncateds, infos


__all__ = ["ParallelPettingZooEnv", "PettingZooEnv"]
