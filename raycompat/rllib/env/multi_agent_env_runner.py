"""`MultiAgentEnvRunner`: plays in environments of several agents, and remembers what each did.

A step of an agent begins when it acts, and ends with its next observation, or its end; the rewards in
between belong to it. So agents may take turns. A sample has the steps that have ended, by policy; a
step that still waits for its next observation goes into the next sample.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, AgentID, Array, Observation
from raycompat.rllib.acting import ActingPolicy, ActingRule
from raycompat.rllib.env.agent_values import OpenStep
from raycompat.rllib.env.episode_watch import EpisodeWatch
from raycompat.rllib.env.multi_agent_env import (
    ALL,
    as_step,
    call_mapping,
    check_dicts,
    reset_env,
)
from raycompat.rllib.env.multi_agent_episode import MultiAgentEpisode
from raycompat.rllib.env.runner import Columns, EnvRunnerSpec, Runner, RunnerState, Sample
from raycompat.rllib.results import AgentReturn, EndedEpisode
from raycompat.rllib.utils.error import EnvError

_OF_RESET = ("observations", "infos")
_OF_STEP = ("observations", "rewards", "terminateds", "truncateds", "infos")


@dataclass
class AgentStep:
    """A step of an agent.

    Parameters
    ----------
    columns : dict of arrays
        ``observations``, ``actions`` and what the policy remembers; one row of each.
    reward : float
        The sum of the rewards until the next observation.
    following : array
        The next observation.
    terminated, truncated : bool
        How the agent's episode ended with this step.
    """

    columns: dict[str, Any]
    reward: float = 0.0
    following: Any = None
    terminated: bool = False
    truncated: bool = False


@dataclass
class AgentTrack:
    """What an agent has done in an episode.

    Parameters
    ----------
    agent : object
    policy : str
    steps : list of AgentStep
        Those that have ended, and are in no sample yet.
    open : AgentStep, optional
        The one that waits for the next observation.
    observation : object, optional
        What it acts by next; None while it does not act.
    raw : object, optional
        Its last observation, as the environment gave it.
    done : OpenStep, optional
        What it has done and earned since then.
    state : list, optional
        What the rule of a user remembers of the episode.
    memory : array, optional
        What a network with a memory remembers since its last action.
    early : float
        Rewards from before its next action.
    value, length : float, int
        The sum of all rewards, and how often it acted.
    has_ended : bool
        Whether it acts no more in this episode.
    acted : list of AgentStep, optional
        All steps of the episode, where callbacks may change them.
    """

    agent: Hashable
    policy: str
    steps: list[AgentStep] = field(default_factory=list)
    open: AgentStep | None = None
    observation: Observation = None
    raw: Observation = None
    done: OpenStep | None = None
    state: list[Any] | None = None
    memory: Array | None = None
    early: float = 0.0
    value: float = 0.0
    length: int = 0
    has_ended: bool = False
    acted: list[AgentStep] | None = None

    def reward(self, reward: float) -> None:
        """Count a reward."""
        self.value += reward
        if self.done is not None:
            self.done.reward += reward
        if self.open is not None:
            self.open.reward += reward
        else:
            self.early += reward

    def act(self, columns: dict[str, object]) -> None:
        """Begin a step."""
        self.open = AgentStep(columns, self.early)
        if self.acted is not None:
            self.acted.append(self.open)
        self.early, self.observation = 0.0, None
        self.length += 1

    def act_by_rule(self, state: list[object]) -> None:
        """Note that it acted; nothing is learned from it."""
        self.state, self.observation = state, None
        self.length += 1

    def close(self, following: Array | None, terminated: bool, truncated: bool) -> None:
        """End the step that is open; without one, the agent's episode ends with the step before."""
        self.has_ended = terminated or truncated
        if self.open is not None:
            step, self.open = self.open, None
            step.following = step.columns["observations"] if following is None else following
            self.steps.append(step)
        elif not self.steps or not (terminated or truncated):
            return
        last = self.steps[-1]
        last.reward, self.early = last.reward + self.early, 0.0
        last.terminated = last.terminated or terminated
        last.truncated = (last.truncated or truncated) and not last.terminated

    def cut(self) -> list[AgentStep]:
        """Return the steps that have ended, of which the last one is truncated if it did not end."""
        steps, self.steps = self.steps, []
        if steps and not steps[-1].terminated:
            steps[-1].truncated = True
        return steps


@dataclass
class _Playing:
    """The episode of one environment."""

    episode: MultiAgentEpisode
    tracks: dict[AgentID, AgentTrack] = field(default_factory=dict)
    length: int = 0


@dataclass
class _Seen:
    """What a step of the environment has shown of an agent."""

    track: AgentTrack
    observation: Observation
    is_observed: bool
    terminated: bool
    truncated: bool

    @property
    def has_ended(self) -> bool:
        return self.terminated or self.truncated


def _remembered(policy: ActingPolicy | ActingRule, tracks: list[AgentTrack]) -> Any:
    """Return what a policy remembers of what some agents did; None without a memory."""
    if isinstance(policy, ActingRule):
        return None
    rewards = [track.early if track.open is None else track.open.reward for track in tracks]
    return policy.remembered([track.memory for track in tracks], rewards)


class MultiAgentEnvRunner(Runner):
    """Samples from environments of several agents, with its own copies of the policies.

    Parameters
    ----------
    spec : EnvRunnerSpec
    index : int
        The number of the runner, from 1; 0 is the algorithm's own process.
    is_recreated : bool, default False
        Whether it takes the place of one that died.
    """

    def __init__(self, spec: EnvRunnerSpec, index: int = 0, is_recreated: bool = False) -> None:
        super().__init__(spec, index, is_recreated)
        self._playing: list[_Playing] | None = None
        self._fragments: dict[str, list[list[AgentStep]]] = {}
        self._ended: list[EndedEpisode] = []

    def sample(
        self, num_steps: int, state: RunnerState | None = None, explore: bool = True
    ) -> Sample:
        """Sample some steps; unfinished episodes continue in the next sample.

        Parameters
        ----------
        num_steps : int
            Of each environment, whatever number of agents act in them.
        state : RunnerState, optional
            What to take first.
        explore : bool, default True
            Whether actions are drawn; if not, the best ones are taken.
        """
        if state is not None:
            self.set_state(state)
        self._fragments = {name: [] for name in self.policies}
        self._ended = []
        if self._playing is None:
            self._begin_all(self._seeds())
        for _ in range(num_steps):
            self._step(explore)
        if self._watch is not None:
            self._watch.show_batches()
        for playing in self._playing or ():
            self._cut(playing)
        columns = {
            name: self._columns(name, [each for each in fragments if each])
            for name, fragments in self._fragments.items()
            if any(fragments)
        }
        news = {name: policy.filter.take_news() for name, policy in self.policies.items()}
        sample = Sample(columns, num_steps * self.spec.num_envs, self._ended, news)
        if self._watch is not None:
            sample.left = self._watch.sampled(sample)
        return sample

    def play_episodes(
        self,
        count: int,
        state: RunnerState | None = None,
        explore: bool = False,
        by_steps: bool = False,
    ) -> list[EndedEpisode]:
        """Play whole episodes, from new beginnings; see `EnvRunner.play_episodes`."""
        if state is not None:
            self.set_state(state)
        self._ended, steps = [], 0
        self._begin_all(self._seeds(again=True), update=False)
        while (steps if by_steps else len(self._ended)) < count:
            self._fragments = {name: [] for name in self.policies}
            self._step(explore, update=False)
            steps += len(self._envs)
        self._playing = None
        return self._ended[:count]

    # Episodes.

    def restart(self) -> None:
        """Begin new episodes in the next sample."""
        self._playing = None

    def _show_open(self, watch: EpisodeWatch) -> None:
        """Let a watch that has not seen the last steps know the open episodes, from now on."""
        for place, playing in enumerate(self._playing or ()):
            tracks = {n: each for n, each in playing.tracks.items() if not each.has_ended}
            playing.episode = MultiAgentEpisode(
                playing.episode.id_,
                observations=[{n: each.raw for n, each in tracks.items() if each.raw is not None}],
                env_t_started=playing.length,
                agent_t_started={n: each.length - bool(each.done) for n, each in tracks.items()},
                agent_module_ids={n: each.policy for n, each in playing.tracks.items()},
                agent_to_module_mapping_fn=self._policy_of,
            )
            for agent, each in tracks.items():
                if each.done is not None:
                    playing.episode.act(agent, replace(each.done))
            watch.begins(place, playing.episode)

    def _begin_all(self, seeds: list[int | None], update: bool = True) -> None:
        self._playing = [self._new() for _ in self._envs]
        for place, seed in enumerate(seeds):
            try:
                self._begin(place, seed, update)
            except EnvError:
                raise
            except Exception as error:
                self._recover(place, error, self._begin)

    def _new(self) -> _Playing:
        return _Playing(MultiAgentEpisode(agent_to_module_mapping_fn=self._policy_of))

    def _begin(self, place: int, seed: int | None = None, update: bool = True) -> None:
        assert self._playing is not None, "_begin_all makes the list"
        playing = self._playing[place] = self._new()
        if self._watch is not None:
            self._watch.begins(place, playing.episode)
        found = reset_env(self._envs[place], seed)
        check_dicts(found, self.spec.described, "reset", _OF_RESET)
        found = (self._shown_to_agents(playing, found[0]), found[1])
        if self._watch is not None:
            self._watch.began(place, *found)
        seen = [
            _Seen(self._track(playing, agent), own, True, False, False)
            for agent, own in found[0].items()
        ]
        self._observe(seen, update)

    def _shown_to_agents(
        self, playing: _Playing, observations: dict[AgentID, Observation]
    ) -> dict[AgentID, Observation]:
        """Return what agents see, by the function of the program."""
        function = self.spec.observation_fn
        if function is None:
            return observations
        found = function(
            agent_obs=observations,
            worker=self,
            base_env=self._envs,
            policies=self.policies,
            episode=playing.episode,
        )
        check_dicts(
            (found,), self.spec.described, f"observation_fn={function!r} after", _OF_RESET[:1]
        )
        return dict(found)

    def take_changes(self, place: int, agent: Hashable, begin: int, observations: Array) -> None:
        """Learn from observations that a callback has changed in a batch; see `Runner`."""
        assert self._playing is not None, "episodes are played"
        track = self._playing[place].tracks[agent]
        policy = self.policies[track.policy]
        assert isinstance(policy, ActingPolicy), "of a rule no observations can be changed"
        assert track.acted is not None, "callbacks see batches"
        if policy.memory is not None:
            raise UnsupportedRayFeatureError(
                "on_postprocess_trajectory that changes observations of a network with a memory",
                "Its states belong to the observations that it has seen",
                "change them with observation_fn, or in the environment",
            )
        filtered = policy.filter(np.asarray(observations, np.float32), False)
        for step, row in zip(track.acted[begin:], filtered, strict=False):
            step.columns["observations"] = row

    def _length_of(self, place: int) -> int:
        return self._playing[place].length if self._playing else 0

    def _track(self, playing: _Playing, agent: Hashable) -> AgentTrack:
        """Return what an agent has done; at its first sight, choose its policy."""
        track = playing.tracks.get(agent)
        if track is None:
            track = playing.tracks[agent] = AgentTrack(agent, playing.episode.module_for(agent))
            if self._watch is not None and self._watch.sees_batches:
                track.acted = []
        return track

    def _policy_of(self, agent: Hashable, episode: MultiAgentEpisode) -> str:
        """Return the policy that the program's function chooses for an agent."""
        function = self.spec.policy_mapping_fn
        assert function is not None, "an algorithm of several agents has a mapping"
        policy = call_mapping(function, agent, episode, self)
        if policy not in self.policies:
            raise EnvError(
                f"policy_mapping_fn returned {policy!r} for the agent {agent!r}: expected one of the "
                f"policies {sorted(self.policies)}. Name it in multi_agent(policies=...)."
            )
        return policy

    def _cut(self, playing: _Playing) -> None:
        for track in playing.tracks.values():
            self._fragments[track.policy].append(track.cut())

    # Steps.

    def _step(self, explore: bool, update: bool = True) -> None:
        """Let those agents act that were observed, and step each environment once."""
        assert self._playing is not None, "sample and play_episodes begin episodes"
        actions = self._act(explore)
        seen: list[_Seen] = []
        over: list[int] = []
        for place, playing in enumerate(self._playing):
            try:
                own, is_over = self._step_one(place, playing, actions[place])
            except EnvError:
                raise
            except Exception as error:
                self._drop(place, error)
                continue
            self._num_steps += 1
            seen += own
            if is_over:
                over.append(place)
        self._observe(seen, update)
        for place in over:
            self._end(place, update)

    def _act(self, explore: bool) -> list[dict[AgentID, Action]]:
        """Return the actions of each environment."""
        assert self._playing is not None
        actions: list[dict[AgentID, Action]] = [{} for _ in self._playing]
        acting: dict[str, list[tuple[int, AgentTrack]]] = {}
        for place, playing in enumerate(self._playing):
            for track in playing.tracks.values():
                if track.observation is not None:
                    acting.setdefault(track.policy, []).append((place, track))
        for name, tracks in acting.items():
            policy = self.policies[name]
            if isinstance(policy, ActingRule):
                self._act_by_rule(policy, tracks, actions, explore)
                continue
            observations = np.stack([track.observation for _, track in tracks])
            chosen, extras = policy.act(observations, self._rng, explore)
            left = extras.pop("memories", None)
            columns = {"observations": observations, "actions": chosen, **extras}
            for row, (action, (place, track)) in enumerate(
                zip(policy.decode(chosen), tracks, strict=True)
            ):
                track.act({name: column[row] for name, column in columns.items()})
                track.memory = None if left is None else left[row]
                actions[place][track.agent], track.done = action, OpenStep(action)
        return actions

    def _act_by_rule(
        self,
        rule: ActingRule,
        tracks: list[tuple[int, AgentTrack]],
        actions: list[dict[AgentID, Action]],
        explore: bool,
    ) -> None:
        states = [
            rule.initial_state() if track.state is None else track.state for _, track in tracks
        ]
        chosen, following = rule.choose([track.observation for _, track in tracks], states, explore)
        for action, state, (place, track) in zip(chosen, following, tracks, strict=True):
            track.act_by_rule(state)
            actions[place][track.agent], track.done = action, OpenStep(action)

    def _step_one(
        self, place: int, playing: _Playing, actions: dict[AgentID, Action]
    ) -> tuple[list[_Seen], bool]:
        """Step one environment; return what it has shown, and whether its episode is over."""
        found = as_step(self._envs[place].step(actions))
        check_dicts(found, self.spec.described, "step", _OF_STEP)
        found = (self._shown_to_agents(playing, found[0]), *found[1:])
        observations, rewards, terminateds, truncateds, _ = found
        playing.length += 1
        for agent, reward in rewards.items():
            self._track(playing, agent).reward(float(reward))
        all_terminated, all_truncated = bool(terminateds.get(ALL)), bool(truncateds.get(ALL))
        if playing.length == self.spec.horizon and not all_terminated:
            all_truncated = True
            found = (*found[:3], {**truncateds, ALL: True}, found[4])
        agents = [*observations, *(agent for agent in playing.tracks if agent not in observations)]
        seen = []
        for agent in agents:
            if self._track(playing, agent).has_ended:
                continue
            terminated = all_terminated or bool(terminateds.get(agent))
            truncated = (all_truncated or bool(truncateds.get(agent))) and not terminated
            if agent in observations or terminated or truncated:
                track, own = self._track(playing, agent), observations.get(agent)
                seen.append(_Seen(track, own, agent in observations, terminated, truncated))
        if self._watch is not None:
            self._watch.stepped(place, actions, found)
        return seen, all_terminated or all_truncated

    def _observe(self, seen: list[_Seen], update: bool) -> None:
        """Encode observations, end the steps that waited for them, and let agents act by them."""
        for name, policy in self.policies.items():
            for has_ended in (False, True):
                own = [
                    each
                    for each in seen
                    if each.track.policy == name and each.has_ended == has_ended
                ]
                observed = [each for each in own if each.is_observed]
                encoded = iter(
                    policy.observe(
                        [each.observation for each in observed],
                        update and not has_ended,
                        _remembered(policy, [each.track for each in observed]),
                    )
                    if observed
                    else ()
                )
                for each in own:
                    following = next(encoded) if each.is_observed else None
                    each.track.close(following, each.terminated, each.truncated)
                    each.track.observation = None if has_ended else following
                    if following is not None or has_ended:
                        each.track.raw, each.track.done = each.observation, None

    def _drop(self, place: int, error: Exception) -> None:
        """Drop the open steps of an environment that raised, and begin again."""
        assert self._playing is not None
        self._cut(self._playing[place])
        self._recover(place, error, self._begin)

    def _end(self, place: int, update: bool) -> None:
        """Count an episode that is over, and begin the next one."""
        assert self._playing is not None
        playing = self._playing[place]
        self._cut(playing)
        agents = tuple(
            AgentReturn(str(track.agent), track.policy, track.value, track.length)
            for track in playing.tracks.values()
        )
        total = sum(each.value for each in agents)
        record = None if self._watch is None else self._watch.record_of(place)
        self._ended.append(EndedEpisode(total, playing.length, agents, record))
        try:
            self._begin(place, update=update)
        except EnvError:
            raise
        except Exception as error:
            self._recover(place, error, self._begin)

    # Columns.

    def _columns(self, name: str, fragments: list[list[AgentStep]]) -> Columns:
        """Return the steps of a policy as columns, of shape (steps, 1, ...)."""
        steps = [step for fragment in fragments for step in fragment]
        names = steps[0].columns
        stacked = {
            each: np.stack([step.columns[each] for step in steps])[:, None] for each in names
        }
        rewards = np.array([step.reward for step in steps], np.float32)
        stacked["rewards"] = self._clipped(rewards)[:, None]
        stacked["terminateds"] = np.array([step.terminated for step in steps])[:, None]
        stacked["truncateds"] = np.array([step.truncated for step in steps])[:, None]
        stacked["valid"] = np.ones((len(steps), 1), bool)
        if "values" in stacked:
            stacked["next_values"] = self._next_values(name, steps, stacked["values"])
        if self.spec.keeps_next_observations:
            stacked["next_observations"] = np.stack([step.following for step in steps])[:, None]
        return stacked

    def _next_values(self, name: str, steps: list[AgentStep], values: Array) -> Array:
        """Return the critic's values of the observations after the steps."""
        nexts = np.empty_like(values)
        nexts[:-1] = values[1:]
        # After the last step of a fragment comes another agent's; each has ended.
        last = [index for index, step in enumerate(steps) if step.terminated or step.truncated]
        following = np.stack([steps[index].following for index in last])
        policy = self.policies[name]
        assert isinstance(policy, ActingPolicy), "a rule leaves no steps"
        nexts[last, 0] = policy.policy.values(following)
        return nexts
