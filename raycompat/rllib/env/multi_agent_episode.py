"""`MultiAgentEpisode`: what the agents of an environment have seen, done and earned in an episode.

An agent may act at one step of the environment, and be observed again some steps later: until then
its step is open, and the rewards belong to it. `MultiAgentEpisode.env_t_to_agent_t` has, for each
agent, the number of its step at each step of the environment; `get_observations` and the others read
by it.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from copy import deepcopy
from itertools import chain
from types import MethodType
from typing import Any, Self, TypeAlias

from raycompat._surface import forms
from raycompat._upper import upper
from raycompat.rllib._types import Action, AgentID, Observation, Space, State, Values
from raycompat.rllib.env.agent_values import AgentValues, OpenStep
from raycompat.rllib.env.episode import Episode, ForCallbacks
from raycompat.rllib.env.multi_agent_env import ALL, MultiAgentDict
from raycompat.rllib.env.single_agent_episode import LookbackBuffer, SingleAgentEpisode
from raycompat.rllib.utils.error import MultiAgentEnvError

#: A `gymnasium.spaces.Dict` of the agents' spaces, or a dict of them.
_SpacesByAgent: TypeAlias = "Space | Mapping[AgentID, Space]"


def _one_policy(agent_id: Hashable, episode: object, **kwargs: object) -> str:
    return "default_policy"


def _of_a_copy(agent_id: Hashable, episode: object, **kwargs: object) -> str:
    raise ValueError(
        f"{episode!r} is a copy, which knows the modules of the agents that were in it, and not that "
        f"of {agent_id!r}: the function that chooses them belongs to an env runner."
    )


@forms.has_old_members("ray.rllib.env.multi_agent_episode.MultiAgentEpisode")
class MultiAgentEpisode(AgentValues, ForCallbacks):
    """What several agents have seen, done and earned in an episode, or in a part of one.

    Parameters
    ----------
    id_ : str, optional
    observations : list of dict, optional
        By agent; one more than actions.
    observation_space, action_space : gymnasium.spaces.Dict, optional
        By agent.
    infos : list of dict, optional
        As many as observations.
    actions, rewards : list of dict, optional
        By agent.
    terminateds, truncateds : bool or dict of bool, default False
        By agent, and ``"__all__"``: how the given steps end.
    extra_model_outputs : list of dict, optional
        As many as actions; by agent, dicts of values.
    env_t_started : int, optional
        The step of the environment at which this part begins; default 0.
    agent_t_started : dict of int, optional
        The step of each agent at which its part begins; default 0.
    len_lookback_buffer : int or "auto", default "auto"
        How many of the given steps are before this part; "auto" is all.
    agent_episode_ids : dict of str, optional
        The ids of the agents' episodes.
    agent_module_ids : dict of str, optional
        The policies of agents.
    agent_to_module_mapping_fn : callable, optional
        Returns the policy of another agent; it takes the agent and the episode. Default: all agents
        have the policy "default_policy".

    Attributes
    ----------
    agent_episodes : dict of SingleAgentEpisode
        By agent; of those that were observed.
    env_t_to_agent_t : dict of LookbackBuffer
        By agent, the number of its step at each step of the environment; "S" where it was not observed.
    env_t, env_t_started : int

    Notes
    -----
    Ray source: ``ray.rllib.env.multi_agent_episode.MultiAgentEpisode``, 2.60.0, and
    ``ray.rllib.evaluation.episode.Episode`` of 0.8 to 2.10. Differs from Ray: it has what callbacks
    read of either; and an agent that was not observed has "S" in each step, also before its first one
    in a part that was joined.
    """

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: list[dict[AgentID, Observation]] | None = None,
        observation_space: _SpacesByAgent | None = None,
        infos: list[dict[AgentID, Mapping[str, object]]] | None = None,
        actions: list[dict[AgentID, Action]] | None = None,
        action_space: _SpacesByAgent | None = None,
        rewards: list[dict[AgentID, float]] | None = None,
        terminateds: Mapping[AgentID, bool] | bool = False,
        truncateds: Mapping[AgentID, bool] | bool = False,
        extra_model_outputs: list[dict[AgentID, Mapping[str, Values]]] | None = None,
        env_t_started: int | None = None,
        agent_t_started: Mapping[AgentID, int] | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_episode_ids: Mapping[AgentID, str] | None = None,
        agent_module_ids: Mapping[AgentID, str] | None = None,
        agent_to_module_mapping_fn: Callable[..., str] | None = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self._prepare()
        self.custom_data: dict[str, Any] = {}
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn or _one_policy
        self._policies: dict[AgentID, str] = dict(agent_module_ids or {})
        self.observation_space: _SpacesByAgent = observation_space or {}
        self.action_space: _SpacesByAgent = action_space or {}
        self.agent_episodes: dict[AgentID, Episode] = {}
        self.env_t_to_agent_t: dict[AgentID, LookbackBuffer] = {}
        self.is_terminated = self.is_truncated = False
        self._open: dict[AgentID, OpenStep] = {}
        #: Rewards of agents that have no step to which they belong.
        self._early: dict[AgentID, float] = defaultdict(float)
        self._ids = dict(agent_episode_ids or {})
        self._begun: float | None = None
        self._last = 0.0
        self.agent_t_started: dict[AgentID, int] = defaultdict(int)
        self.env_t = self.env_t_started = 0
        count = len(rewards or ())
        seen, known = observations or [], infos or [{}] * (count + 1)
        outputs = extra_model_outputs or [{}] * count
        if seen:
            self.add_env_reset(observations=seen[0], infos=known[0])
        for index, (acted, earned) in enumerate(zip(actions or [], rewards or [], strict=True)):
            after = index + 1
            self._step(seen[after], acted, earned, known[after], {}, {}, outputs[index])
        self._take_ends(terminateds, truncateds)
        self.agent_t_started.update(agent_t_started or {})
        lookback = count if len_lookback_buffer == "auto" else int(len_lookback_buffer)
        self._begin_at(min(lookback, count), env_t_started or 0)
        self.validate()

    def _take_ends(
        self, terminateds: Mapping[AgentID, bool] | bool, truncateds: Mapping[AgentID, bool] | bool
    ) -> None:
        """Let agents end; those that were observed, and neither acted nor were observed again, too."""
        self.is_terminated, self.is_truncated = map(_of_all, (terminateds, truncateds))
        for agent, episode in list(self.agent_episodes.items()):
            episode.is_terminated = _flag_of(terminateds, agent)
            episode.is_truncated = _flag_of(truncateds, agent)
            is_last = self.env_t_to_agent_t[agent].values[-1] != self.SKIP_ENV_TS_TAG
            if not (episode.is_done or is_last or agent in self._open):
                episode.is_terminated = True
            if episode.is_done and not len(episode):
                del self.agent_episodes[agent], self.env_t_to_agent_t[agent]

    def _begin_at(self, lookback: int, env_t_started: int) -> None:
        """Let the first steps of the environment be before this part."""
        self.env_t_started = env_t_started
        self.env_t += env_t_started - lookback
        for agent, steps in self.env_t_to_agent_t.items():
            steps.lookback = lookback
            episode, started = self.agent_episodes[agent], self.agent_t_started[agent]
            seen = [each for each in steps.values[:lookback] if each != self.SKIP_ENV_TS_TAG]
            before = min(len(seen), len(episode.rewards.values))
            buffers = (episode.observations, episode.infos, episode.actions, episode.rewards)
            for each in (*buffers, *episode.extra_model_outputs.values()):
                each.lookback = before
            episode.t_started, episode.t = started, started + len(episode)
            steps.values = [
                each if each == self.SKIP_ENV_TS_TAG else each - before + started
                for each in steps.values
            ]

    # Steps.

    def add_env_reset(
        self,
        *,
        observations: Mapping[AgentID, Observation],
        infos: Mapping[AgentID, Mapping[str, object]] | None = None,
    ) -> None:
        """Add what the reset of the environment returned.

        Parameters
        ----------
        observations : dict
            By agent.
        infos : dict of dict, optional
            By agent.

        Raises
        ------
        ValueError
            When the episode has begun.
        """
        if self.is_reset or self.env_t:
            raise ValueError(
                f"{self!r} has begun: expected add_env_step(). Make another MultiAgentEpisode for "
                "another reset."
            )
        for agent, observation in observations.items():
            self._enter(agent, observation, (infos or {}).get(agent))
        self._begun = self._last = time.perf_counter()

    def _enter(
        self, agent: Hashable, observation: Observation, info: Mapping[str, object] | None
    ) -> None:
        """Begin the episode of an agent."""
        options = {
            "agent_id": agent,
            "module_id": self.module_for(agent),
            "multi_agent_episode_id": self.id_,
            "observation_space": _of_agent(self.observation_space, agent),
            "action_space": _of_agent(self.action_space, agent),
        }
        episode = self.agent_episodes[agent] = Episode(id_=self._ids.get(agent), **options)
        episode.add_env_reset(observation, info)
        skipped = [self.SKIP_ENV_TS_TAG] * (self.env_t - self.env_t_started)
        others = next(iter(self.env_t_to_agent_t.values()), None)
        lookback = 0 if others is None else others.lookback
        skipped += [self.SKIP_ENV_TS_TAG] * lookback
        self.env_t_to_agent_t[agent] = LookbackBuffer([*skipped, 0], lookback)
        self.agent_t_started[agent] = 0

    def add_env_step(
        self,
        observations: Mapping[AgentID, Observation],
        actions: Mapping[AgentID, Action],
        rewards: Mapping[AgentID, float],
        infos: Mapping[AgentID, Mapping[str, object]] | None = None,
        *,
        terminateds: Mapping[AgentID, bool] | None = None,
        truncateds: Mapping[AgentID, bool] | None = None,
        extra_model_outputs: Mapping[AgentID, Mapping[str, Values]] | None = None,
    ) -> None:
        """Add a step of the environment.

        Parameters
        ----------
        observations, actions, rewards, infos : dict
            By agent, of those that have one. An agent that has acted, and is not observed, goes on with
            its step.
        terminateds, truncateds : dict of bool, optional
            By agent, and ``"__all__"``.
        extra_model_outputs : dict of dict, optional
            What the networks gave for the actions, by agent and name.

        Raises
        ------
        MultiAgentEnvError
            When the episode, or an agent with values, has ended; when an agent that acted and was
            observed has no reward; and when one is truncated that was not observed after it acted.
        """
        if self.is_done:
            raise MultiAgentEnvError(
                f"{self!r} has ended: expected add_env_step() of one that goes on."
            )
        terminateds, truncateds = terminateds or {}, truncateds or {}
        outputs = extra_model_outputs or {}
        for agent in dict.fromkeys(chain(observations, actions, rewards, infos or {}, outputs)):
            known = self.agent_episodes.get(agent)
            if known is not None and known.is_done:
                raise MultiAgentEnvError(
                    f"The agent {agent!r} has ended, and has values in a later step: expected none."
                )
            if agent in observations and agent in actions and agent not in rewards:
                raise MultiAgentEnvError(
                    f"The agent {agent!r} acted and was observed, and has no reward: expected one."
                )
        for agent in {*actions, *self._open} - {*observations}:
            if truncateds.get(agent) or truncateds.get(ALL):
                raise MultiAgentEnvError(
                    f"The agent {agent!r} acted, and is truncated without an observation after that: "
                    "expected one, by which the value of the rest is estimated."
                )
        self._step(observations, actions, rewards, infos or {}, terminateds, truncateds, outputs)
        agents = self.agent_episodes
        ended = {agent for agent, each in agents.items() if each.is_done}
        ended |= {
            agent for flags in (terminateds, truncateds) for agent, own in flags.items() if own
        }
        if all(agent in ended for agent in agents):
            self.is_terminated = True
        self.validate()

    def _step(
        self,
        observations: Mapping[AgentID, Observation],
        actions: Mapping[AgentID, Action],
        rewards: Mapping[AgentID, float],
        infos: Mapping[AgentID, Mapping[str, object]],
        terminateds: Mapping[AgentID, bool],
        truncateds: Mapping[AgentID, bool],
        outputs: Mapping[AgentID, Mapping[str, Values]],
    ) -> None:
        """Add a step; an agent that ended in a step that is open keeps its last observation."""
        self.env_t += 1
        self.is_terminated = bool(terminateds.get(ALL))
        self.is_truncated = bool(truncateds.get(ALL))
        for steps in self.env_t_to_agent_t.values():
            steps.append(self.SKIP_ENV_TS_TAG)
        for agent, action in actions.items():
            if self._goes_on(agent):
                self._begin_step(agent, action, outputs.get(agent))
        for agent, reward in rewards.items():
            if agent in self._open:
                self._open[agent].reward += float(reward)
            else:
                self._early[agent] += float(reward)
        agents = chain(observations, actions, rewards, terminateds, truncateds)
        all_agents = self.agent_episodes if self.is_done else ()
        for agent in dict.fromkeys(chain(agents, list(all_agents))):
            ends = (
                bool(terminateds.get(agent)) or self.is_terminated,
                bool(truncateds.get(agent)) or self.is_truncated,
            )
            episode = self.agent_episodes.get(agent)
            if agent in observations and episode is None and not any(ends):
                self._enter(agent, observations[agent], infos.get(agent))
            elif agent in self._open and (agent in observations or any(ends)):
                assert episode is not None, "an agent with an open step was observed"
                observation = observations.get(agent, episode.observations.values[-1])
                info = infos.get(agent) if agent in observations else episode.infos.values[-1]
                self._close(agent, observation, info, ends)
        self._last = time.perf_counter()
        if self._begun is None:
            self._begun = self._last

    def _begin_step(
        self, agent: Hashable, action: Action, outputs: Mapping[str, Values] | None
    ) -> None:
        """Begin the step of an agent, with what it has earned before."""
        reward = self._early.pop(agent, 0.0)
        if agent in self._open:  # it acts again before it was observed
            reward += self._open[agent].reward
        self._open[agent] = OpenStep(action, reward, dict(outputs or {}))

    def _goes_on(self, agent: Hashable) -> bool:
        return agent in self.agent_episodes and not self.agent_episodes[agent].is_done

    def _close(
        self,
        agent: Hashable,
        observation: Observation,
        info: Mapping[str, object] | None,
        ends: tuple[bool, bool],
    ) -> None:
        """End the open step of an agent."""
        step, episode = self._open.pop(agent), self.agent_episodes[agent]
        episode.add_env_step(
            observation,
            step.action,
            step.reward,
            info,
            terminated=ends[0],
            truncated=ends[1],
            extra_model_outputs=step.outputs,
        )
        self.env_t_to_agent_t[agent].values[-1] = episode.t

    def begin(
        self,
        observation: Mapping[AgentID, Observation],
        info: Mapping[AgentID, Mapping[str, object]],
    ) -> None:
        """Add what the reset of the environment returned."""
        self.add_env_reset(observations=observation, infos=info)

    def add(self, action: Mapping[AgentID, Action], found: tuple[MultiAgentDict, ...]) -> None:
        """Add a step of an environment, which may go on with agents that have ended."""
        observations, rewards, terminateds, truncateds, infos = found
        own = {agent: each for agent, each in observations.items() if not self._has_ended(agent)}
        self._step(own, action, rewards, infos, terminateds, truncateds, {})

    def act(self, agent: Hashable, step: OpenStep) -> None:
        """Note what an agent has done since its last observation, in a part that begins later."""
        self._open[agent] = step

    def _has_ended(self, agent: Hashable) -> bool:
        return agent in self.agent_episodes and self.agent_episodes[agent].is_done

    def validate(self) -> None:
        """Raise where the numbers of an agent's observations, actions and rewards do not fit.

        Raises
        ------
        ValueError
            Names them.
        """
        for episode in self.agent_episodes.values():
            episode.validate()

    # What it is.

    @property
    def is_reset(self) -> bool:
        """Whether it has begun."""
        return any(each.is_reset for each in self.agent_episodes.values())

    @property
    def is_done(self) -> bool:
        """Whether it has ended, for all agents."""
        return self.is_terminated or self.is_truncated

    @property
    def is_numpy(self) -> bool:
        """Whether several values are returned as one array."""
        return any(each.is_numpy for each in self.agent_episodes.values())

    def to_numpy(self) -> Self:
        """Let several values be returned as one array from now on; return the episode."""
        for episode in self.agent_episodes.values():
            episode.to_numpy()
        return self

    @property
    def agent_ids(self) -> set[AgentID]:
        """The agents that were observed."""
        return set(self.agent_episodes)

    @property
    def agent_episode_ids(self) -> dict[AgentID, str]:
        """The ids of the agents' episodes."""
        return {agent: each.id_ for agent, each in self.agent_episodes.items()}

    def module_for(self, agent_id: Hashable = None) -> str:
        """Return the policy of an agent, which it has from the first call on."""
        if agent_id not in self._policies:
            self._policies[agent_id] = self.agent_to_module_mapping_fn(agent_id, self)
        return self._policies[agent_id]

    policy_for = module_for

    def get_terminateds(self) -> dict[AgentID, bool]:
        """Return whether each agent has terminated, and under ``"__all__"`` the episode."""
        found = {agent: each.is_terminated for agent, each in self.agent_episodes.items()}
        return {**found, ALL: self.is_terminated}

    def get_truncateds(self) -> dict[AgentID, bool]:
        """Return whether each agent was truncated, and under ``"__all__"`` the episode."""
        found = {agent: each.is_truncated for agent, each in self.agent_episodes.items()}
        return {**found, ALL: self.is_truncated}

    def get_agents_that_stepped(self) -> set[AgentID]:
        """Return the agents that the last step of the environment has observed."""
        tag = self.SKIP_ENV_TS_TAG
        return {agent for agent, each in self.env_t_to_agent_t.items() if each.values[-1] != tag}

    def get_agents_to_act(self) -> set[AgentID]:
        """Return those of `get_agents_that_stepped` that have not ended."""
        return {agent for agent in self.get_agents_that_stepped() if not self._has_ended(agent)}

    def get_agents(self) -> list[AgentID]:
        """Return the agents that were observed."""
        return list(self.agent_episodes)

    def get_return(self, include_hanging_rewards: bool = False) -> float:
        """Return the sum of the rewards of all agents.

        Parameters
        ----------
        include_hanging_rewards : bool, default False
            Whether those count that belong to open steps, or to none.
        """
        total = sum(each.get_return() for each in self.agent_episodes.values())
        return total + self._hanging() if include_hanging_rewards else total

    def _hanging(self) -> float:
        return sum(each.reward for each in self._open.values()) + sum(self._early.values())

    def get_duration_s(self) -> float:
        """Return how long it took to play, in seconds."""
        return 0.0 if self._begun is None else self._last - self._begun

    def env_steps(self) -> int:
        """Return the number of steps of the environment."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of steps of all agents together."""
        return sum(map(len, self.agent_episodes.values()))

    def __len__(self) -> int:
        return self.env_t - self.env_t_started

    def __repr__(self) -> str:
        returns = {agent: each.get_return() for agent, each in self.agent_episodes.items()}
        return f"MultiAgentEpisode(len={len(self)} done={self.is_done} Rs={returns} id_={self.id_})"

    def print(self) -> None:
        """Print at which steps of the environment each agent was observed."""
        lookback = max((each.lookback for each in self.env_t_to_agent_t.values()), default=0)
        width = max((len(str(agent)) for agent in self.agent_episodes), default=0)
        print(f"{'ts':{width}}" + "".join(f"{t:4}" for t in range(-lookback, len(self) + 1)))
        for agent, steps in self.env_t_to_agent_t.items():
            marks = ("" if each == self.SKIP_ENV_TS_TAG else "x" for each in steps.values)
            print(f"{agent!s:{width}}" + "".join(f"{mark:>4}" for mark in marks))

    # Parts.

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the beginning of the part that follows: it has the last observations, and no step.

        Parameters
        ----------
        len_lookback_buffer : int, default 0
            How many of the last steps it has as its lookback, at least; open steps are in it.

        Raises
        ------
        ValueError
            When the episode has ended.
        """
        if self.is_done:
            raise ValueError(f"{self!r} has ended: expected an episode that goes on.")
        end = self._lookback() + len(self)
        begins = [end - len_lookback_buffer]
        for agent in self._open:
            values = self.env_t_to_agent_t[agent].values
            begins.append(max(i for i, t in enumerate(values) if t != self.SKIP_ENV_TS_TAG))
        begin = max(0, min(begins))
        return self._part(begin, end, end - begin)

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> MultiAgentEpisode:
        """Return a part of the episode; ``episode[2:5]`` does the same.

        Parameters
        ----------
        slice_ : slice
            Of steps of the environment; its step is 1.
        len_lookback_buffer : int, optional
            How many steps before the part it has as its lookback. Default: as many as the episode.

        Raises
        ------
        ValueError
            When the slice has another step than 1.
        """
        if slice_.step not in (None, 1):
            raise ValueError(f"{slice_!r} of an episode: expected a step of 1.")
        first = self._lookback()
        begin, end, _ = slice_.indices(len(self))
        wanted = first if len_lookback_buffer is None else len_lookback_buffer
        lookback = min(wanted, first + begin)
        return self._part(first + begin - lookback, first + max(begin, end), lookback)

    def __getitem__(self, item: Any) -> MultiAgentEpisode:
        return self.slice(item)

    def _lookback(self) -> int:
        return next((each.lookback for each in self.env_t_to_agent_t.values()), 0)

    def _part(self, begin: int, end: int, lookback: int) -> MultiAgentEpisode:
        """Return the steps between two places of the mappings, the lookback among them."""
        made = MultiAgentEpisode(
            self.id_,
            observation_space=self.observation_space,
            action_space=self.action_space,
            agent_module_ids=self._policies,
            agent_episode_ids=self._ids,
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
        )
        made.env_t_started = self.env_t_started + begin + lookback - self._lookback()
        made.env_t = made.env_t_started + end - begin - lookback
        made.custom_data = deepcopy(self.custom_data)
        if end == self._lookback() + len(self):
            made.is_terminated, made.is_truncated = self.is_terminated, self.is_truncated
        for agent in self.agent_episodes:
            self._give_part(made, agent, begin, end, lookback)
        return made

    def _give_part(
        self, made: MultiAgentEpisode, agent: Hashable, begin: int, end: int, lookback: int
    ) -> None:
        """Give a part of this episode the part of an agent."""
        tag, episode = self.SKIP_ENV_TS_TAG, self.agent_episodes[agent]
        steps = self.env_t_to_agent_t[agent].values[begin : end + 1]
        seen = [each for each in steps if each != tag]
        if not seen or (len(seen) == 1 and episode.is_done and seen[0] == episode.t):
            return
        start = next((each for each in steps[lookback:] if each != tag), seen[-1])
        offset = episode.observations.lookback - self.agent_t_started[agent]
        first, last = seen[0] + offset, seen[-1] + offset
        own = made.agent_episodes[agent] = episode.part(first, last, start - seen[0], start)
        if seen[-1] == episode.t:
            own.is_terminated, own.is_truncated = episode.is_terminated, episode.is_truncated
        made.agent_t_started[agent] = start
        made.env_t_to_agent_t[agent] = LookbackBuffer(steps, lookback)
        if steps[-1] == tag and not own.is_done:
            step = self._step_at(agent, last)
            if step is not None:
                made._open[agent] = step

    def _step_at(self, agent: Hashable, place: int) -> OpenStep | None:
        """Return a step of an agent as one that is open."""
        values = {
            what: self._buffer(agent, what).values
            for what in ("actions", "rewards", "extra_model_outputs")
        }
        if place >= len(values["actions"]):
            return None
        outputs = values["extra_model_outputs"][place] if values["extra_model_outputs"] else {}
        return OpenStep(values["actions"][place], values["rewards"][place], dict(outputs))

    def concat_episode(self, other: MultiAgentEpisode) -> None:
        """Add the steps of the part that follows.

        Parameters
        ----------
        other : MultiAgentEpisode
            It begins with the last observations of this one.

        Raises
        ------
        ValueError
            When this episode has ended, or the other one begins at another step.
        """
        if self.is_done or other.env_t_started != self.env_t or other.id_ != self.id_:
            raise ValueError(
                f"{other!r} does not follow {self!r}: expected a part of the same episode, that has "
                f"not ended, which begins at step {self.env_t}."
            )
        lookback, tag = self._lookback(), self.SKIP_ENV_TS_TAG
        before = lookback + len(self)
        for agent, theirs in other.agent_episodes.items():
            steps = other.env_t_to_agent_t[agent]
            if agent not in self.agent_episodes:
                self.agent_episodes[agent] = theirs
                self.agent_t_started[agent] = other.agent_t_started[agent]
                self.env_t_to_agent_t[agent] = LookbackBuffer(
                    [tag] * before + list(steps), lookback
                )
            elif not self.agent_episodes[agent].is_done:
                self.agent_episodes[agent].concat_episode(theirs)
                self.env_t_to_agent_t[agent].values += list(steps)[1:]
                self._open.pop(agent, None)
        self._open |= {agent: deepcopy(step) for agent, step in other._open.items()}
        for agent, reward in other._early.items():
            self._early[agent] += reward
        self.env_t = other.env_t
        count = before + len(other) + 1
        for steps in self.env_t_to_agent_t.values():
            steps.values += [tag] * (count - len(steps.values))
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated
        self.custom_data.update(other.custom_data)
        self.validate()

    def get_sample_batch(self) -> Any:
        """Return the steps of each agent as a `MultiAgentBatch`."""
        batches = {
            agent: each.get_sample_batch()
            for agent, each in self.agent_episodes.items()
            if len(each)
        }
        return upper("_old.rllib.sample_batch").MultiAgentBatch(batches, len(self))

    def get_state(self) -> State:
        """Return what `from_state` makes the same episode of."""
        state = self.__getstate__()
        del state["agent_episodes"]
        agents = [(agent, each.get_state()) for agent, each in self.agent_episodes.items()]
        return {**state, "agent_episodes": agents}

    def __getstate__(self) -> State:
        """Return all but the function of an env runner, which would bring the runner with it."""
        state = vars(self).copy()
        if isinstance(self.agent_to_module_mapping_fn, MethodType):
            state["agent_to_module_mapping_fn"] = _of_a_copy
        return state

    @staticmethod
    def from_state(state: State) -> MultiAgentEpisode:
        """Return the episode whose `get_state` returned a dict."""
        made = MultiAgentEpisode(state["id_"])
        vars(made).update(state)
        made.agent_episodes = {
            agent: Episode.from_state(each) for agent, each in state["agent_episodes"]
        }
        return made

    # What callbacks until 2024 read.

    @property
    def agent_rewards(self) -> dict[tuple[AgentID, str], float]:
        """The sums of rewards by agent and policy."""
        agents = dict.fromkeys(chain(self.agent_episodes, self._early))
        return {(agent, self.module_for(agent)): self._reward_of(agent) for agent in agents}

    def _reward_of(self, agent: Hashable) -> float:
        episode, step = self.agent_episodes.get(agent), self._open.get(agent)
        total = self._early.get(agent, 0.0) + (0.0 if step is None else step.reward)
        return total + (0.0 if episode is None else episode.get_return())

    @property
    def total_reward(self) -> float:
        """The sum of the rewards of all agents, those of open steps too."""
        return self.get_return(include_hanging_rewards=True)

    def last_observation_for(self, agent_id: Hashable = None) -> Observation:
        """Return the newest observation of an agent."""
        return self.agent_episodes[agent_id].last_observation_for()

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: Hashable = None) -> dict[str, Any]:
        """Return the newest info of an agent."""
        return self.agent_episodes[agent_id].last_info_for()

    def last_action_for(self, agent_id: Hashable = None) -> Action:
        """Return the newest action of an agent; None before its first."""
        step = self._open.get(agent_id)
        if step is not None:
            return step.action
        episode = self.agent_episodes.get(agent_id)
        return None if episode is None else episode.last_action_for()

    def last_reward_for(self, agent_id: Hashable = None) -> float:
        """Return the newest reward of an agent; 0 before its first."""
        return self.agent_episodes[agent_id].last_reward_for()


#: An episode of one agent or of several ones.
EpisodeType: TypeAlias = "SingleAgentEpisode | MultiAgentEpisode"

#: An episode that is played, as callbacks see it.
WatchedEpisode: TypeAlias = "Episode | MultiAgentEpisode"


def _of_agent(space: _SpacesByAgent, agent: Hashable) -> Space | None:
    """Return the space of an agent; None without one."""
    spaces = getattr(space, "spaces", space)
    return spaces.get(agent) if isinstance(spaces, Mapping) else None


def _of_all(flags: Mapping[AgentID, bool] | bool) -> bool:
    return flags if isinstance(flags, bool) else bool(flags.get(ALL, False))


def _flag_of(flags: Mapping[AgentID, bool] | bool, agent: Hashable) -> bool:
    return flags if isinstance(flags, bool) else bool(flags.get(agent, False))
