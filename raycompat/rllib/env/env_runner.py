"""`EnvRunner`: plays in some environments of one agent at once, and remembers what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Array, Observation
from raycompat.rllib.acting import ActingPolicy, RecordedRule
from raycompat.rllib.env.construction import check_reset, check_step
from raycompat.rllib.env.episode import Episode
from raycompat.rllib.env.episode_watch import EpisodeWatch
from raycompat.rllib.env.runner import EnvRunnerSpec, Runner, RunnerState, Sample
from raycompat.rllib.policies import Extras
from raycompat.rllib.results import EndedEpisode
from raycompat.rllib.utils.error import EnvError


@dataclass
class _Row:
    """One step of all environments."""

    rewards: Array
    terminateds: Array
    truncateds: Array
    broken: list[int] = field(default_factory=list)
    #: The last observations of episodes that ended, by environment.
    finals: dict[int, Observation] = field(default_factory=dict)


class EnvRunner(Runner):
    """Samples from several environments at the same time, with its own copy of the policy.

    Parameters
    ----------
    spec : EnvRunnerSpec
    index : int
        The number of the runner, from 1; 0 is the algorithm's own process.
    is_recreated : bool, default False
        Whether it takes the place of one that died.

    Raises
    ------
    EnvError
        When the environment cannot be made or used.
    UnsupportedSpaceException
        When one of its spaces cannot be handled.
    """

    def __init__(self, spec: EnvRunnerSpec, index: int = 0, is_recreated: bool = False) -> None:
        super().__init__(spec, index, is_recreated)
        ((self._policy_id, acting),) = self.policies.items()
        self._acting: Any = acting if isinstance(acting, ActingPolicy) else RecordedRule(acting)
        make = spec.make_action_connectors
        self._connect = None if make is None else make(self._together)
        if make is not None and self._acting.memory is not None and self._acting.memory.actions:
            raise UnsupportedRayFeatureError(
                "module_to_env_connector with lstm_use_prev_action or attention_use_n_prev_actions",
                "The network sees the actions that it has chosen itself",
                "leave one of them out",
            )
        self._observations: Array | None = None
        self._raw: list[Observation] = [None] * spec.num_envs
        self._returns = np.zeros(spec.num_envs)
        self._lengths = np.zeros(spec.num_envs, np.int64)

    def sample(
        self, num_steps: int, state: RunnerState | None = None, explore: bool = True
    ) -> Sample:
        """Sample some steps; unfinished episodes continue in the next sample.

        Parameters
        ----------
        num_steps : int
            Of each environment.
        state : RunnerState, optional
            What to take first.
        explore : bool, default True
            Whether actions are drawn; if not, the best ones are taken.

        Returns
        -------
        Sample
        """
        if state is not None:
            self.set_state(state)
        if self._observations is None:
            self._reset_all(self._seeds())
        columns: dict[str, list[Array]] = {}
        rows: list[_Row] = []
        nexts: list[Array] = []
        episodes: list[EndedEpisode] = []
        custom_data: list[list[dict[str, object]]] = []
        for _ in range(num_steps):
            custom_data.append([] if self._watch is None else self._watch.custom_data())
            observations = self._observations
            assert observations is not None
            actions, extras, for_env = self._act(observations, explore)
            left = extras.pop("memories", None)
            row = self._step(for_env, episodes)
            rows.append(row)
            for name, value in {
                "observations": observations,
                "actions": actions,
                **extras,
            }.items():
                columns.setdefault(name, []).append(value)
            memories = self._remembered(left, row, begins=True)
            self._observations = self._acting.observe(self._raw, memories=memories)
            nexts.append(self._with_finals(self._observations, row, left))
        stacked = {name: np.stack(values) for name, values in columns.items()}
        stacked["rewards"] = self._clipped(np.stack([row.rewards for row in rows]))
        stacked["terminateds"] = np.stack([row.terminateds for row in rows])
        stacked["truncateds"] = np.stack([row.truncateds for row in rows])
        broken = [(step, place) for step, row in enumerate(rows) for place in row.broken]
        stacked["valid"] = _cut_before(broken, stacked)
        if not stacked["valid"].any():
            raise EnvError(
                f"The environment {self.spec.described!r} failed in all {num_steps} steps of a sample."
            )
        if "values" in stacked:
            stacked["next_values"] = self._next_values(stacked, nexts)
        if self.spec.keeps_next_observations:
            stacked["next_observations"] = np.stack(nexts)
        name, news = self._policy_id, self._acting.filter.take_news()
        sample = Sample({name: stacked}, stacked["rewards"].size, episodes, {name: news})
        if self._watch is not None:
            self._show(sample, custom_data)
        return sample

    def _act(self, observations: Array, explore: bool) -> tuple[Array, Extras, list[Action]]:
        """Return actions, what to remember of them, and the actions as environments take them."""
        actions, extras = self._acting.act(observations, self._rng, explore)
        if self._connect is None:
            return actions, extras, self._acting.decode(actions)
        assert self._watch is not None, "connectors see episodes"
        kept = {name: extras.pop(name) for name in ("memories",) if name in extras}
        episodes = self._watch.single_agent_episodes()
        given = {"actions": actions, **extras}
        logger = self._watch.metrics_logger
        columns, for_env = self._connect(given, episodes, explore, self.module, logger)
        actions = columns.pop("actions")
        plan = self.spec.policies[self._policy_id]
        if (
            for_env is None or plan.normalize_actions or plan.clip_actions
        ):  # as in Ray, they are made again
            for_env = self._acting.decode(actions)
        return actions, {**columns, **kept}, for_env

    def _show(self, sample: Sample, custom_data: list[list[dict[str, object]]]) -> None:
        """Show a sample to callbacks, and add what they leave: for learner connectors, of each step."""
        assert self._watch is not None
        sample.left = self._watch.sampled(sample)
        if self.spec.keeps_next_observations:
            # Callbacks of later steps change those of episodes that go on.
            sample.custom_data = np.array([[dict(each) for each in row] for row in custom_data])

    def play_episodes(
        self,
        count: int,
        state: RunnerState | None = None,
        explore: bool = False,
        by_steps: bool = False,
    ) -> list[EndedEpisode]:
        """Play whole episodes, from new beginnings.

        Parameters
        ----------
        count : int
            Of episodes, or of steps.
        state : RunnerState, optional
            What to take first.
        explore : bool, default False
            Whether actions are drawn; if not, the best ones are taken.
        by_steps : bool, default False
            End after so many steps; episodes that have not ended do not count.

        Returns
        -------
        list of EndedEpisode
            In the order of their ends.

        Notes
        -----
        Each environment plays its part of them, so that short episodes do not count more often.
        """
        if state is not None:
            self.set_state(state)
        self._reset_all(self._seeds(again=True))
        num_envs = self.spec.num_envs
        left = [count // num_envs + (i < count % num_envs) for i in range(num_envs)]
        done: list[EndedEpisode] = []
        memories = None
        while any(left):
            if by_steps:
                left = [max(each - 1, 0) for each in left]
            observations = self._acting.observe(self._raw, update=False, memories=memories)
            _, extras, for_env = self._act(observations, explore)
            ended: dict[int, EndedEpisode] = {}
            row = self._step(for_env, [], ended)
            memories = self._remembered(extras.get("memories"), row, begins=True)
            for place, episode in ended.items():
                if by_steps or left[place]:
                    left[place] -= not by_steps
                    done.append(episode)
        self._observations = None
        return done

    def restart(self) -> None:
        """Begin new episodes in the next sample."""
        self._observations = None

    def _show_open(self, watch: EpisodeWatch) -> None:
        """Let a watch that has not seen the last steps know the open episodes, from now on."""
        if self._observations is None:
            return
        for place, observation in enumerate(self._raw):
            begun = int(self._lengths[place])
            watch.begins(place, Episode(observations=[observation], t_started=begun))

    def _reset_all(self, seeds: list[int | None]) -> None:
        for place, seed in enumerate(seeds):
            self._returns[place], self._lengths[place] = 0, 0
            try:
                self._raw[place] = self._reset(place, seed)
            except EnvError:
                raise
            except Exception as error:
                self._after_failure(place, error)
        self._observations = self._acting.observe(self._raw)

    def _reset(self, place: int, seed: int | None = None) -> Observation:
        if self._watch is not None:
            self._watch.begins(place, Episode())
        found = self._envs[place].reset(seed=seed)
        observation = check_reset(found, self.spec.described)
        if self._watch is not None:
            self._watch.began(place, *found)
        return observation

    def _step(
        self,
        actions: Sequence[Action],
        episodes: list[EndedEpisode],
        ended: dict[int, EndedEpisode] | None = None,
    ) -> _Row:
        """Step each environment once, and begin a new episode where one ended."""
        num_envs = len(actions)
        row = _Row(
            np.zeros(num_envs, np.float32), np.zeros(num_envs, bool), np.zeros(num_envs, bool)
        )
        for place, action in enumerate(actions):
            try:
                episode = self._step_one(place, action, row)
            except EnvError:
                raise
            except Exception as error:
                self._after_failure(place, error)
                row.broken.append(place)
                row.truncateds[place] = True
                row.finals[place] = self._raw[place]
                continue
            self._num_steps += 1
            if episode is not None:
                episodes.append(episode)
                if ended is not None:
                    ended[place] = episode
        return row

    def _step_one(self, place: int, action: Action, row: _Row) -> EndedEpisode | None:
        """Step one environment; return the episode's return and length if it ended."""
        found = self._envs[place].step(action)
        if type(found) is not tuple or len(found) != 5:
            check_step(found, self.spec.described)
        observation, reward, terminated, truncated, _ = found
        row.rewards[place] = reward
        self._returns[place] += reward
        self._lengths[place] += 1
        self._raw[place] = observation
        if self._watch is not None:
            self._watch.stepped(place, action, found)
        if not (terminated or truncated):
            return None
        row.terminateds[place], row.truncateds[place] = terminated, truncated and not terminated
        row.finals[place] = observation
        record = None if self._watch is None else self._watch.record_of(place)
        length = int(self._lengths[place])
        episode = EndedEpisode(float(self._returns[place]), length, record=record)
        self._returns[place], self._lengths[place] = 0, 0
        self._raw[place] = self._reset(place)
        return episode

    def _after_failure(self, place: int, error: Exception) -> None:
        """Make the environment again until it can be reset, and drop its episode; or raise."""
        self._recover(place, error, self._begin)

    def _begin(self, place: int) -> None:
        self._returns[place], self._lengths[place] = 0, 0
        self._raw[place] = self._reset(place)

    def _length_of(self, place: int) -> int:
        return int(self._lengths[place])

    def _remembered(self, left: Array | None, row: _Row, begins: bool) -> Any:
        """Return what the policy remembers after a step; where an episode `begins`, its beginning."""
        if left is None:
            return None
        memories = [None if begins and n in row.finals else each for n, each in enumerate(left)]
        return self._acting.remembered(memories, row.rewards.tolist())

    def _with_finals(self, observations: Array, row: _Row, left: Array | None) -> Array:
        """Return the observations after a step; for ended episodes, their own last ones."""
        if not row.finals:
            return observations
        nexts = observations.copy()
        places = list(row.finals)
        memories = self._remembered(left, row, begins=False)
        nexts[places] = self._acting.observe(
            list(row.finals.values()),
            update=False,
            memories=None if memories is None else memories[places],
        )
        return nexts

    def _next_values(self, columns: dict[str, Array], nexts: list[Array]) -> Array:
        """Return the critic's values of the observations after the steps."""
        values = np.empty_like(columns["values"])
        values[:-1] = columns["values"][1:]
        # These are not the values of the steps that follow.
        wanted = columns["truncateds"].copy()
        wanted[-1] = True
        values[wanted] = self._acting.policy.values(np.stack(nexts)[wanted])
        return values


def _cut_before(broken: list[tuple[int, int]], columns: dict[str, Array]) -> Array:
    """Truncate the episodes that an error broke off before the broken steps; return the valid steps."""
    valid = np.ones(columns["rewards"].shape, bool)
    for step, place in broken:
        valid[step, place] = False
        if step:
            columns["truncateds"][step - 1, place] = True
    return valid
