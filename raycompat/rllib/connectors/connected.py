"""Environments with connectors around them: their observations are those that networks see."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import gymnasium

from raycompat._old_forms.gym.adapters import of_today
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, AgentID, Env, Observation, Space
from raycompat.rllib.connectors.connector_v2 import ConnectorV2
from raycompat.rllib.connectors.env_to_module import (
    MultiAgentObservationPreprocessor,
    connectors_of,
    filter_of,
)
from raycompat.rllib.connectors.past import Past
from raycompat.rllib.env.construction import EnvCreator
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.episode import Environments, Episode
from raycompat.rllib.env.multi_agent_env import (
    MultiAgentDict,
    MultiAgentEnv,
    agents_of,
    as_step,
    is_multi_agent,
    reset_env,
    space_of,
)
from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode


def connected(create: EnvCreator, make: Callable[..., object]) -> EnvCreator:
    """Return what makes environments with the connectors around them.

    Parameters
    ----------
    create : callable
        Returns an environment for an `EnvContext`.
    make : callable
        The option ``env_to_module_connector``: a function of an environment, and for some years of
        spaces and device, which returns a connector or a list of them.
    """

    def create_connected(context: EnvContext) -> Env:
        env = create(context)
        several = is_multi_agent(env)
        env = env if several else of_today(env)
        connectors = connectors_of(called(make, env))
        if not connectors:
            return env
        return ConnectedAgents(env, connectors) if several else ConnectedEnv(env, connectors)

    return create_connected


def called(make: Callable[..., object], env: Env | Environments) -> object:
    """Return what the function of an option makes; it has the parameters of any year."""
    spaces = {"__env__": (env.observation_space, env.action_space)}
    names = list(inspect.signature(make).parameters)
    given = {"env": env, "spaces": spaces, "device": None}
    if set(names) <= set(given):
        return make(**{name: given[name] for name in names})
    return make(*[env, spaces, None][: len(names)])


class ConnectedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of one agent with connectors.

    Parameters
    ----------
    env : gymnasium.Env
    connectors : list of ConnectorV2

    Attributes
    ----------
    connectors : list of ConnectorV2
    observation_filter : MeanStdFilter or None
        The connector that is a filter.
    shared_data : dict
        What connectors leave for each other, see `share`.
    """

    def __init__(self, env: Env, connectors: list[ConnectorV2]) -> None:
        super().__init__(env)
        self.connectors = connectors
        self.shared_data: dict[str, object] = {}
        self.observation_filter = filter_of(connectors)
        space = env.observation_space
        for each in connectors:
            space = each.recompute_output_observation_space(space, env.action_space)
        self.observation_space = space
        self._past = self._new_past()

    def _new_past(self) -> Past:
        past = Past(self.env.action_space, {}, Episode(), _most_past(self.connectors))
        past.shared = self.shared_data
        if _change_batches(self.connectors):
            past.steps = SingleAgentEpisode(
                past.episode.id_,
                observation_space=self.observation_space,
                action_space=self.env.action_space,
            )
        return past

    def share(self, shared_data: dict[str, object]) -> None:
        """Let connectors read and write another dict from now on; it gets what they have written.

        Parameters
        ----------
        shared_data : dict
            Of all environments of a runner.
        """
        if shared_data is not self.shared_data:
            shared_data.update(self.shared_data)
            self.shared_data = self._past.shared = shared_data

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed)
        self._past = self._new_past()
        self._past.episode.begin(observation, info)
        return self._observed(observation), info

    def step(self, action: Action) -> Any:
        """Do an action."""
        found = self.env.step(action)
        self._past.add(action, float(found[1]))
        self._past.episode.add(action, found)
        return (self._observed(found[0]), *found[1:])

    def _observed(self, observation: Observation) -> Observation:
        past = self._past
        if past.steps is not None:
            past.note(observation)
        for each in self.connectors:
            observation = _through(each, observation, past)
        return observation


def _through(connector: ConnectorV2, observation: Observation, past: Past) -> Observation:
    """Return what a connector makes of an observation.

    Where a program's class is among the connectors, they change the episode and a batch, as in Ray.
    """
    if past.steps is None:
        return connector.observe(observation, past)
    if not connector.changes_batches:
        made = connector.observe(past.steps.get_observations(-1), past)
        past.steps.set_observations(new_data=made, at_indices=-1)
        return _newest(past)
    batch = connector(
        rl_module=None,
        batch=past.batch,
        episodes=[past.steps],
        explore=None,
        shared_data=past.shared,
        metrics=None,
    )
    past.batch = {} if batch is None else batch
    others = sorted(set(past.batch) - {"obs"})
    if others:
        raise UnsupportedRayFeatureError(
            f"The column {others[0]!r}, which the connector {type(connector).__name__} adds,",
            "A network sees observations alone",
            "add the value to the observation, and let recompute_output_observation_space() say so",
        )
    return _newest(past)


def _newest(past: Past) -> Observation:
    """Return the observation in the batch, or that in the episode where the batch has none."""
    column = past.batch.get("obs")
    assert past.steps is not None, "programs' connectors need an episode"
    if not column:
        return past.steps.get_observations(-1)
    return (next(iter(column.values())) if isinstance(column, Mapping) else column)[-1]


def _change_batches(connectors: list[ConnectorV2]) -> bool:
    return any(each.changes_batches for each in connectors)


def _most_past(connectors: list[ConnectorV2]) -> int:
    return max(each.num_past for each in connectors)


class ConnectedAgents(MultiAgentEnv):
    """An environment of several agents with connectors.

    Parameters
    ----------
    env : MultiAgentEnv
    connectors : list of ConnectorV2

    Attributes
    ----------
    observation_filter : MeanStdFilter or None
        The connector that is a filter.
    """

    def __init__(self, env: Env, connectors: list[ConnectorV2]) -> None:
        super().__init__()
        self.env, self._connectors = env, connectors
        self.observation_filter = filter_of(connectors)
        self.possible_agents = agents_of(env)
        self.agents = self.possible_agents
        spaces = {
            name: {agent: space_of(env, agent, name) for agent in self.possible_agents}
            for name in ("observation_space", "action_space")
        }
        self.action_spaces = spaces["action_space"]
        self.observation_spaces = self._spaces(spaces["observation_space"])
        self.observation_space, self.action_space = env.observation_space, env.action_space
        if not self.possible_agents:
            self._take_common_space()
        self._begin()

    def _spaces(self, spaces: MultiAgentDict) -> MultiAgentDict:
        actions = self.action_spaces or {}
        for each in self._connectors:
            if isinstance(each, MultiAgentObservationPreprocessor):
                given = gymnasium.spaces.Dict(spaces), gymnasium.spaces.Dict(actions)
                made: Any = each.recompute_output_observation_space(*given)
                spaces = dict(made.spaces)
            else:
                spaces = {
                    agent: each.recompute_output_observation_space(space, actions[agent])
                    for agent, space in spaces.items()
                }
        return spaces

    def _take_common_space(self) -> None:
        """Set the space of all agents, where the environment does not say which there are."""
        for each in self._connectors:
            if isinstance(each, MultiAgentObservationPreprocessor):
                raise UnsupportedRayFeatureError(
                    f"{type(each).__name__} around {self.env!r}",
                    "The environment does not say which agents it has",
                    "set possible_agents, observation_spaces and action_spaces",
                )
        self.observation_space = self.connected_space(self.observation_space, self.action_space)

    def connected_space(self, observation_space: Space, action_space: Space) -> Space:
        """Return what the connectors of single agents make of a space."""
        for each in self._connectors:
            if not isinstance(each, MultiAgentObservationPreprocessor):
                observation_space = each.recompute_output_observation_space(
                    observation_space, action_space
                )
        return observation_space

    def _begin(self) -> None:
        self._episode = MultiAgentEpisode()
        self._pasts: dict[AgentID, Past] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Any:
        """Begin an episode."""
        observations, infos = reset_env(self.env, seed)
        self._begin()
        self._episode.begin(observations, infos)
        return self._observed(observations), infos

    def step(self, action_dict: MultiAgentDict) -> Any:
        """Do the actions of those agents that act."""
        found = as_step(self.env.step(action_dict))
        self._episode.add(action_dict, found)
        for agent, action in action_dict.items():
            self._past(agent).add(action, float(found[1].get(agent, 0.0)))
        return (self._observed(found[0]), *found[1:])

    def _past(self, agent: Hashable) -> Past:
        past = self._pasts.get(agent)
        if past is None:
            space = (self.action_spaces or {}).get(agent, self.action_space)
            episode = self._episode.agent_episodes.get(agent)
            past = self._pasts[agent] = Past(space, {}, episode, _most_past(self._connectors))
            if _change_batches(self._connectors):
                past.steps = SingleAgentEpisode(
                    action_space=space,
                    agent_id=agent,
                    multi_agent_episode_id=self._episode.id_,
                )
        return past

    def _observed(self, observations: MultiAgentDict) -> MultiAgentDict:
        pasts = {agent: self._past(agent) for agent in observations}
        for agent, past in pasts.items():
            if past.steps is not None:
                past.note(observations[agent])
        for each in self._connectors:
            if not isinstance(each, MultiAgentObservationPreprocessor):
                observations = {
                    agent: _through(each, own, pasts[agent]) for agent, own in observations.items()
                }
                continue
            observations = each.preprocess(observations, self._episode)
            for agent, own in observations.items():
                steps = pasts[agent].steps
                if steps is not None:
                    steps.set_observations(new_data=own, at_indices=-1)
        return observations

    def render(self) -> Any:
        """Show the state."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
