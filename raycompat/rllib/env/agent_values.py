"""`AgentValues`: how the values of several agents are read by steps of the environment."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

from raycompat.rllib._types import Action, AgentID, Values
from raycompat.rllib.env.episode import Episode
from raycompat.rllib.env.single_agent_episode import Indices, LookbackBuffer

#: An index that no episode has: what stands there is made by ``fill``.
_NOWHERE = 10**12


@dataclass
class OpenStep:
    """A step of an agent that has seen no observation since it acted."""

    action: Action
    reward: float = 0.0
    outputs: dict[str, Values] = field(default_factory=dict)


class AgentValues:
    """The values of an episode's agents, read and replaced.

    Attributes
    ----------
    agent_episodes : dict of Episode
    env_t_to_agent_t : dict of LookbackBuffer
        See `MultiAgentEpisode`.
    agent_t_started : dict of int
        The step of each agent at which its part begins.
    """

    SKIP_ENV_TS_TAG = "S"

    agent_episodes: dict[AgentID, Episode]
    env_t_to_agent_t: dict[AgentID, LookbackBuffer]
    agent_t_started: dict[AgentID, int]
    #: The steps of agents that have acted, and were not observed since.
    _open: dict[AgentID, OpenStep]

    def get_observations(
        self,
        indices: Indices = None,
        agent_ids: Hashable | Collection[Hashable] = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Values:
        """Return observations by agent.

        Parameters
        ----------
        indices : int, slice or list of int, optional
            Default: those of all steps after the lookback.
        agent_ids : object or collection, optional
            One agent, or several. Default: all.
        env_steps : bool, default True
            Whether indices are steps of the environment; an agent that has nothing there is left out.
            If not, they are steps of each agent.
        neg_index_as_lookback : bool, default False
            Whether -1 means the value before the first one of the episode.
        fill : float, optional
            What stands for values that do not exist.
        one_hot_discrete : bool, default False
            Whether choices become one-hot vectors.
        return_list : bool, default False
            Whether to return a list of dicts, one for each step of the environment.

        Returns
        -------
        dict or list of dict

        Raises
        ------
        IndexError
            When no step has an index, and `fill` is not given.
        ValueError
            For a list of the steps of agents.
        """
        options = (neg_index_as_lookback, fill, one_hot_discrete)
        return self._get("observations", indices, agent_ids, env_steps, return_list, options)

    def get_infos(
        self,
        indices: Indices = None,
        agent_ids: Hashable | Collection[Hashable] = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        return_list: bool = False,
    ) -> Values:
        """Return infos by agent; see `get_observations`."""
        options = (neg_index_as_lookback, fill, False)
        return self._get("infos", indices, agent_ids, env_steps, return_list, options)

    def get_actions(
        self,
        indices: Indices = None,
        agent_ids: Hashable | Collection[Hashable] = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Values:
        """Return actions by agent, those of open steps too; see `get_observations`."""
        options = (neg_index_as_lookback, fill, one_hot_discrete)
        return self._get("actions", indices, agent_ids, env_steps, return_list, options)

    def get_rewards(
        self,
        indices: Indices = None,
        agent_ids: Hashable | Collection[Hashable] = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        return_list: bool = False,
    ) -> Values:
        """Return rewards by agent, those of open steps too; see `get_observations`."""
        options = (neg_index_as_lookback, fill, False)
        return self._get("rewards", indices, agent_ids, env_steps, return_list, options)

    def get_extra_model_outputs(
        self,
        key: str | None = None,
        indices: Indices = None,
        agent_ids: Hashable | Collection[Hashable] = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: float | None = None,
        return_list: bool = False,
    ) -> Values:
        """Return outputs of the networks by agent; see `get_observations`.

        Parameters
        ----------
        key : str, optional
            Of one output. Default: dicts of all.
        """
        options = (neg_index_as_lookback, fill, False)
        found = ("extra_model_outputs", indices, agent_ids, env_steps, return_list, options)
        return self._get(*found, key)

    def _get(
        self,
        what: str,
        indices: Indices,
        agent_ids: Hashable | Collection[Hashable],
        env_steps: bool,
        return_list: bool,
        options: tuple[bool, float | None, bool],
        key: str | None = None,
    ) -> Values:
        if return_list and not env_steps:
            raise ValueError(
                f"get_{what}(env_steps=False, return_list=True): steps of agents are not in one list. "
                "Leave one of them out."
            )
        wanted = set(self.agent_episodes) if agent_ids is None else _several(agent_ids)
        agents = [agent for agent in self.agent_episodes if agent in wanted]
        # As in Ray, all steps of agents are those that have ended.
        with_open = env_steps or indices is not None
        buffers = {agent: self._buffer(agent, what, key, with_open) for agent in agents}
        if not env_steps:
            values = {agent: each.get(indices, *options) for agent, each in buffers.items()}
            return {agent: each for agent, each in values.items() if not _is_empty(each)}
        steps = {agent: self._steps(agent, what in ("observations", "infos")) for agent in agents}
        is_lookback, fill, one_hot = options
        if return_list:
            return self._by_step(buffers, steps, indices, options)
        found: dict[AgentID, Values] = {}
        for agent, buffer in buffers.items():
            tag = None if fill is None else self.SKIP_ENV_TS_TAG
            at = steps[agent].get(indices, is_lookback, tag)
            if not isinstance(at, list):
                value = self._value(agent, buffer, at, fill, one_hot)
                if value is not None:
                    found[agent] = value
                continue
            each_value = (self._value(agent, buffer, each, fill, one_hot) for each in at)
            known = [each for each in each_value if each is not None]
            if known:
                found[agent] = buffer.joined(known)
        return found

    def _by_step(
        self,
        buffers: dict[AgentID, LookbackBuffer],
        steps: dict[AgentID, LookbackBuffer],
        indices: Indices,
        options: tuple[bool, float | None, bool],
    ) -> list[dict[AgentID, Values]]:
        is_lookback, fill, one_hot = options
        indices = [indices] if isinstance(indices, int) else indices
        found: list[dict[AgentID, Values]] = []
        for agent, buffer in buffers.items():
            at = steps[agent].get(indices, is_lookback, self.SKIP_ENV_TS_TAG)
            found = found or [{} for _ in at]
            for each, step in zip(found, at, strict=True):
                value = self._value(agent, buffer, step, fill, one_hot)
                if value is not None:
                    each[agent] = value
        return found

    def _steps(self, agent: Hashable, counts_last: bool) -> LookbackBuffer:
        """Return the numbers of an agent's steps; of actions, without the last observation."""
        steps = self.env_t_to_agent_t[agent]
        return steps if counts_last else LookbackBuffer(steps.values[:-1], steps.lookback)

    def _value(
        self,
        agent: Hashable,
        buffer: LookbackBuffer,
        step: int | str,
        fill: float | None,
        one_hot: bool,
    ) -> Values:
        """Return the value of a step of an agent; None where it has none, and `fill` is not given."""
        if not isinstance(step, str):
            place = step - self.agent_t_started[agent] + buffer.lookback
            if 0 <= place < len(buffer.values):
                return buffer.get(place - buffer.lookback, True, fill, one_hot)
        return None if fill is None else buffer.get(_NOWHERE, False, fill, one_hot)

    def _buffer(
        self, agent: Hashable, what: str, key: str | None = None, with_open: bool = True
    ) -> LookbackBuffer:
        """Return the values of an agent, with that of its open step."""
        episode, step = self.agent_episodes[agent], self._open.get(agent) if with_open else None
        if what in ("observations", "infos"):
            found: LookbackBuffer = getattr(episode, what)
            return found
        if what == "extra_model_outputs":
            outputs = episode.extra_model_outputs
            if key is not None:
                buffer = outputs.get(key, LookbackBuffer([], episode.rewards.lookback))
                value = None if step is None else step.outputs.get(key)
            else:
                rows = zip(*(each.values for each in outputs.values()), strict=True)
                named = [dict(zip(outputs, row, strict=True)) for row in rows]
                buffer = LookbackBuffer(named, episode.rewards.lookback)
                value = (step.outputs or None) if step is not None else None
        else:
            buffer = getattr(episode, what)
            value = None if step is None else getattr(step, what[:-1])
        if value is None:
            return buffer
        made = LookbackBuffer([*buffer.values, value], buffer.lookback, buffer.space)
        made.is_numpy = buffer.is_numpy
        return made

    def set_observations(
        self,
        *,
        new_data: Mapping[AgentID, object],
        at_indices: Indices = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace observations of agents.

        Parameters
        ----------
        new_data : dict
            By agent.
        at_indices : int, slice or list of int, optional
            Steps of the agents; see `LookbackBuffer.set`.
        neg_index_as_lookback : bool, default False
            Whether -1 means the value before the first one of the episode.

        Raises
        ------
        KeyError
            When an agent was not observed.
        """
        for agent, own in new_data.items():
            self.agent_episodes[agent].observations.set(own, at_indices, neg_index_as_lookback)

    def set_actions(
        self,
        *,
        new_data: Mapping[AgentID, object],
        at_indices: Indices = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace actions of agents; see `set_observations`."""
        for agent, own in new_data.items():
            self.agent_episodes[agent].actions.set(own, at_indices, neg_index_as_lookback)

    def set_rewards(
        self,
        *,
        new_data: Mapping[AgentID, object],
        at_indices: Indices = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace rewards of agents; see `set_observations`."""
        for agent, own in new_data.items():
            self.agent_episodes[agent].rewards.set(own, at_indices, neg_index_as_lookback)

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: Mapping[AgentID, object],
        at_indices: Indices = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Replace outputs of agents' networks under a name, or add it; see `set_observations`."""
        for agent, own in new_data.items():
            self.agent_episodes[agent].set_extra_model_outputs(
                key=key,
                new_data=own,
                at_indices=at_indices,
                neg_index_as_lookback=neg_index_as_lookback,
            )


def _several(agents: object) -> set[object]:
    return set(agents) if isinstance(agents, list | tuple | set | frozenset) else {agents}


def _is_empty(values: object) -> bool:
    return isinstance(values, list) and not values
