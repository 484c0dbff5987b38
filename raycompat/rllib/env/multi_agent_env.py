"""`MultiAgentEnv`: an environment of several agents, which may come and go within an episode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import gymnasium

from raycompat._surface.modules import names_of
from raycompat.rllib._types import AgentID, Env, Space

#: Under this key of a Dict space, some environments have the state of all agents.
ENV_STATE = "state"

#: The key that says of all agents at once whether the episode has ended.
ALL = "__all__"

#: Values by agent: observations, actions, rewards, ends, infos or spaces, as the method says.
MultiAgentDict = dict[AgentID, Any]


class MultiAgentEnv(gymnasium.Env[Any, Any]):
    """An environment of several agents. Subclass it, and write `reset` and `step`.

    Both return dicts by agent. An agent acts in the next step if it is in the observations, and did
    not end; so agents may take turns, come, and go. ``terminateds["__all__"]`` and
    ``truncateds["__all__"]`` end the episode.

    Attributes
    ----------
    possible_agents : list
        All agents that there may be.
    agents : list
        The agents of this episode.
    observation_spaces, action_spaces : dict
        The spaces, by agent. Without them, `observation_space` and `action_space` are those of each
        agent; or they are `gymnasium.spaces.Dict` by agent.

    Notes
    -----
    Ray source: ``ray.rllib.env.multi_agent_env.MultiAgentEnv``, 2.60.0. Differs from Ray: ``reset`` and
    ``step`` may have the forms until 2022, too: a dict of observations, and four dicts.
    """

    observation_spaces: MultiAgentDict | None = None
    action_spaces: MultiAgentDict | None = None
    observation_space: Any = None
    action_space: Any = None
    agents: list[AgentID] = []  # noqa: RUF012 - Ray's class has it, and programs set their own
    possible_agents: list[AgentID] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self, "_agent_ids"):
            self._agent_ids: set[AgentID] = set()

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[MultiAgentDict, MultiAgentDict]:
        """Begin an episode.

        Returns
        -------
        observations, infos : dict
            By agent; the agents of the observations act first.
        """
        raise NotImplementedError

    def step(self, action_dict: MultiAgentDict) -> Any:
        """Do the actions of those agents that act.

        Parameters
        ----------
        action_dict : dict
            By agent.

        Returns
        -------
        observations, rewards, terminateds, truncateds, infos : dict
            A tuple of five dicts by agent.
        """
        raise NotImplementedError

    def render(self) -> Any:
        """Show the state."""

    def get_observation_space(self, agent_id: AgentID) -> Any:
        """Return the observation space of an agent."""
        return _space_of(self, agent_id, "observation_space")

    def get_action_space(self, agent_id: AgentID) -> Any:
        """Return the action space of an agent."""
        return _space_of(self, agent_id, "action_space")

    def observation_space_sample(
        self, agent_ids: Iterable[AgentID] | None = None
    ) -> MultiAgentDict:
        """Return an observation drawn for each agent, or for some: a form of 2022 to 2024."""
        agents = agents_of(self) if agent_ids is None else agent_ids
        return {agent: self.get_observation_space(agent).sample() for agent in agents}

    def action_space_sample(self, agent_ids: Iterable[AgentID] | None = None) -> MultiAgentDict:
        """Return an action drawn for each agent, or for some: a form of 2022 to 2024."""
        agents = agents_of(self) if agent_ids is None else agent_ids
        return {agent: self.get_action_space(agent).sample() for agent in agents}

    def observation_space_contains(self, x: MultiAgentDict) -> bool:
        """Return whether each agent's observation is one of its space: a form of 2022 to 2024."""
        return all(self.get_observation_space(agent).contains(each) for agent, each in x.items())

    def action_space_contains(self, x: MultiAgentDict) -> bool:
        """Return whether each agent's action is one of its space: a form of 2022 to 2024."""
        return all(self.get_action_space(agent).contains(each) for agent, each in x.items())

    @property
    def num_agents(self) -> int:
        """How many agents the episode has now."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """How many agents there may be."""
        return len(self.possible_agents)

    def get_agent_ids(self) -> set[AgentID]:
        """Return the agents that there may be."""
        return set(agents_of(self))

    def with_agent_groups(
        self,
        groups: Mapping[str, list[AgentID]],
        obs_space: Space | None = None,
        act_space: Space | None = None,
    ) -> MultiAgentEnv:
        """Return an environment in which each group of agents is one agent.

        Parameters
        ----------
        groups : dict of list
            The agents of each group.
        obs_space, act_space : gymnasium.spaces.Tuple, optional
            Of a group. Default: those of its agents.
        """
        return GroupedAgents(self, groups, obs_space, act_space)


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
        self,
        env: Env,
        groups: Mapping[str, list[AgentID]],
        obs_space: Space | None,
        act_space: Space | None,
    ) -> None:
        self.env, self.groups = env, dict(groups)
        self._group_of = {agent: name for name, agents in groups.items() for agent in agents}
        given = {"observation_space": obs_space, "action_space": act_space}
        spaces = {name: self._spaces(name, space) for name, space in given.items()}
        self.observation_spaces = spaces["observation_space"]
        self.action_spaces = spaces["action_space"]
        self.agents = self.possible_agents = list(groups)
        self.observation_space, self.action_space = obs_space, act_space
        super().__init__()

    def _spaces(self, name: str, given: Space | None) -> MultiAgentDict:
        return {
            group: given
            or gymnasium.spaces.Tuple([space_of(self.env, agent, name) for agent in agents])
            for group, agents in self.groups.items()
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
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

    def _grouped(
        self,
        values: Mapping[AgentID, object],
        join: Callable[[list[Any]], object],
        missing: object = None,
    ) -> MultiAgentDict:
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


def agents_of(env: Env) -> list[Hashable]:
    """Return the agents that an environment says there may be; none if it does not say."""
    found = getattr(env, "possible_agents", None) or getattr(env, "_agent_ids", None)
    if not found:
        found = getattr(env, "agents", None) or _by_agent(env, "observation_space") or ()
    if isinstance(found, int):  # a program's own attribute
        return []
    return sorted(found, key=str) if isinstance(found, set | frozenset) else list(found)


def _by_agent(env: Env, name: str) -> Mapping[AgentID, Space] | None:
    """Return spaces by agent; None where there is one for all."""
    spaces = getattr(env, f"{name}s", None)
    if isinstance(spaces, Mapping) and spaces:
        return spaces
    if isinstance(spaces, gymnasium.spaces.Dict):
        return spaces.spaces
    space = getattr(env, name, None)
    known = set(getattr(env, "possible_agents", ()) or getattr(env, "_agent_ids", None) or ())
    if isinstance(space, gymnasium.spaces.Dict) and known and set(space.spaces) == known:
        return space.spaces
    return None


def _space_of(env: Env, agent: Hashable, name: str) -> Any:
    found = _by_agent(env, name)
    return getattr(env, name, None) if found is None else found.get(agent)


def space_of(env: Env, agent: Hashable, name: str) -> Any:
    """Return a space of an agent; None where the environment does not say.

    Parameters
    ----------
    env : MultiAgentEnv
    agent : object
    name : {"observation_space", "action_space"}
    """
    method = getattr(env, f"get_{name}", None)
    return _space_of(env, agent, name) if method is None else method(agent)


def call_mapping(
    function: Callable[..., str], agent: Hashable, episode: object, runner: object = None
) -> str:
    """Return the policy of an agent, by a function with the parameters of any year.

    They were the agent alone, then the agent and the episode, and for some years the runner under the
    name ``worker``.
    """
    parameters = inspect.signature(function).parameters.values()
    kinds = [each.kind for each in parameters]
    places = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.name != "worker"
    ]
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    given = (agent, episode) if takes_any or len(places) > 1 else (agent,)
    takes_worker = any(each.name == "worker" for each in parameters)
    named = {"worker": runner} if takes_worker or inspect.Parameter.VAR_KEYWORD in kinds else {}
    return function(*given, **named)


def is_multi_agent(env: object) -> bool:
    """Return whether an environment is one of several agents."""
    return isinstance(env, MultiAgentEnv)


def reset_env(env: Any, seed: int | None) -> Any:
    """Begin an episode; return observations and infos, also of an environment of until 2022."""
    if "seed" in inspect.signature(env.reset).parameters:
        found = env.reset(seed=seed)
    else:
        if seed is not None and hasattr(env, "seed"):
            env.seed(seed)
        found = env.reset()
    return (found, {}) if isinstance(found, Mapping) else found


def as_step(found: object) -> Any:
    """Return the result of a step in today's form; four dicts are that of until 2022."""
    if isinstance(found, tuple) and len(found) == 4:
        observations, rewards, dones, infos = found
        return observations, rewards, dones, {ALL: False}, infos
    return found


def check_dicts(found: object, described: object, method: str, names: Iterable[str]) -> None:
    """Check that a result is a tuple of dicts.

    Raises
    ------
    EnvError
        When it is something else.
    """
    from raycompat.rllib.utils.error import EnvError

    names = list(names)
    if not (
        isinstance(found, tuple)
        and len(found) == len(names)
        and all(isinstance(each, Mapping) for each in found)
    ):
        raise EnvError(
            f"{method}() of the environment {described!r} returned {found!r}: expected "
            f"{', '.join(names)}, each a dict by agent."
        )


__getattr__ = names_of(__name__)
