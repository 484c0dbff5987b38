"""`EnvRunner`: plays in some environments at once, and remembers what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raycompat.rllib.env.construction import EnvCreator, check_reset, check_step, make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.episode_watch import EpisodeWatch, LeftByCallbacks
from raycompat.rllib.filters import RunningStatistics, make_filter
from raycompat.rllib.networks import NetworkSpec, Weights
from raycompat.rllib.policies import Policy
from raycompat.rllib.spaces import ActionDecoder, ObservationEncoder
from raycompat.rllib.utils.error import EnvError

logger = logging.getLogger(__name__)

#: An environment that fails so often, without one step in between, will not recover.
MOST_FAILURES_IN_A_ROW = 5


@dataclass(frozen=True)
class EnvRunnerSpec:
    """Environments, policy and options of a runner.

    Parameters
    ----------
    create : callable
        Returns an environment for an `EnvContext`.
    described : object
        The user's name of the environment.
    env_config : dict
    num_envs : int
        How many environments play at once.
    num_runners : int
        How many runners there are, for the environments' contexts.
    policy_class : type of Policy
    network : NetworkSpec
    seed : int
        The seeds of runners and environments are made from it.
    observation_filter : str
        A key of `filters.FILTERS`.
    normalize_actions, clip_actions : bool
        See `ActionDecoder`.
    clip_rewards : bool or float
        Learn from the rewards' signs, or from rewards cut off at plus and minus a number.
    keeps_next_observations : bool
        Whether a sample has them.
    restarts_environments : bool
        Whether a failed environment is made again, instead of raising its error.
    make_hooks : callable, optional
        Returns the callbacks that see episodes; None where there are none.
    """

    create: EnvCreator
    described: Any
    env_config: dict[str, Any]
    num_envs: int
    num_runners: int
    policy_class: type[Any]
    network: NetworkSpec
    seed: int
    observation_filter: str = "NoFilter"
    normalize_actions: bool = True
    clip_actions: bool = False
    clip_rewards: bool | float = False
    keeps_next_observations: bool = False
    restarts_environments: bool = False
    make_hooks: Callable[[], list[Any]] | None = None


@dataclass
class RunnerState:
    """Weights and settings that a runner plays by.

    Parameters
    ----------
    weights : list of array
    statistics : RunningStatistics, optional
        Of all runners' observations, for the filter.
    epsilon : float
        The chance of a random action.
    """

    weights: Weights
    statistics: RunningStatistics | None = None
    epsilon: float = 0.0


@dataclass
class Sample:
    """The data of some steps.

    Parameters
    ----------
    columns : dict of arrays, each of shape (steps, environments, ...)
        ``observations``, ``actions``, ``rewards``, ``terminateds``, ``truncateds``; ``valid``, False
        for steps in which an environment failed; ``next_values`` where there is
        a critic; ``next_observations`` if asked for; and what the policy remembers.
    episodes : list of (float, int)
        Return and length of each episode that ended.
    news : RunningStatistics or None
        What the filter has counted.
    left : LeftByCallbacks or None
        What callbacks have left in the runner since its last sample.
    """

    columns: dict[str, NDArray[Any]]
    episodes: list[tuple[float, int]]
    news: RunningStatistics | None
    left: LeftByCallbacks | None = None

    @property
    def num_steps(self) -> int:
        """The number of steps, of all environments."""
        return int(self.columns["rewards"].size)

    @property
    def count(self) -> int:
        """The number of steps, by its name until 2024."""
        return self.num_steps


@dataclass
class _Row:
    """One step of all environments."""

    rewards: NDArray[Any]
    terminateds: NDArray[Any]
    truncateds: NDArray[Any]
    broken: list[int] = field(default_factory=list)
    #: The last observations of episodes that ended, by environment.
    finals: dict[int, Any] = field(default_factory=dict)


class EnvRunner:
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
        self.spec = spec
        self.index = index
        self._is_recreated = is_recreated
        hooks = spec.make_hooks() if spec.make_hooks else []
        self._watch = EpisodeWatch(self, hooks) if hooks else None
        self._rng = np.random.default_rng([spec.seed, index])
        self._envs = [self._make(place) for place in range(spec.num_envs)]
        env = self._envs[0]
        self._encode = ObservationEncoder(env.observation_space)
        self._decode = ActionDecoder(env.action_space, spec.normalize_actions, spec.clip_actions)
        self._filter = make_filter(spec.observation_filter, self._encode.shape)
        self._policy: Policy = spec.policy_class(spec.network, self._decode.is_discrete)
        self._observations: NDArray[Any] | None = None
        self._raw: list[Any] = [None] * spec.num_envs
        self._returns = np.zeros(spec.num_envs)
        self._lengths = np.zeros(spec.num_envs, np.int64)
        self._failures_in_a_row = 0
        if self._watch is not None:
            self._watch.made(self._envs)

    @property
    def worker_index(self) -> int:
        """The number of the runner: 0 is the algorithm's own process."""
        return self.index

    def _make(self, place: int) -> Any:
        spec = self.spec
        context = EnvContext(
            spec.env_config,
            self.index,
            place,
            num_workers=spec.num_runners,
            recreated_worker=self._is_recreated,
        )
        return make_env(spec.create, context, spec.described)

    def set_state(self, state: RunnerState) -> None:
        """Take the weights, the filter's statistics and the chance of random actions."""
        self._policy.set_weights(state.weights)
        self._policy.set_exploration(state.epsilon)
        if state.statistics is not None:
            self._filter.statistics = _copied(state.statistics)

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
            self._reset_all()
        columns: dict[str, list[Any]] = {}
        rows: list[_Row] = []
        nexts: list[NDArray[Any]] = []
        episodes: list[tuple[float, int]] = []
        for _ in range(num_steps):
            observations = self._observations
            assert observations is not None
            actions, extras = self._policy.act(observations, self._rng, explore)
            row = self._step(self._decode(actions), episodes)
            rows.append(row)
            for name, value in {
                "observations": observations,
                "actions": actions,
                **extras,
            }.items():
                columns.setdefault(name, []).append(value)
            self._observations = self._filter(self._encode(self._raw))
            nexts.append(self._with_finals(self._observations, row))
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
        sample = Sample(stacked, episodes, self._filter.take_news())
        if self._watch is not None:
            sample.left = self._watch.sampled(sample)
        return sample

    def play_episodes(
        self, num_episodes: int, state: RunnerState | None = None, explore: bool = False
    ) -> list[tuple[float, int]]:
        """Play whole episodes, from new beginnings.

        Parameters
        ----------
        num_episodes : int
        state : RunnerState, optional
            What to take first.
        explore : bool, default False
            Whether actions are drawn; if not, the best ones are taken.

        Returns
        -------
        list of (float, int)
            Return and length of each, in the order of their ends.

        Notes
        -----
        Each environment plays its part of them, so that short episodes do not count more often.
        """
        if state is not None:
            self.set_state(state)
        self._reset_all()
        num_envs = self.spec.num_envs
        left = [num_episodes // num_envs + (i < num_episodes % num_envs) for i in range(num_envs)]
        done: list[tuple[float, int]] = []
        while any(left):
            observations = self._filter(self._encode(self._raw), update=False)
            actions, _ = self._policy.act(observations, self._rng, explore)
            ended: dict[int, tuple[float, int]] = {}
            self._step(self._decode(actions), [], ended)
            for place, episode in ended.items():
                if left[place]:
                    left[place] -= 1
                    done.append(episode)
        self._observations = None
        return done

    def _reset_all(self) -> None:
        for place in range(self.spec.num_envs):
            self._returns[place], self._lengths[place] = 0, 0
            try:
                self._raw[place] = self._reset(place, self.spec.seed + 1000 * self.index + place)
            except EnvError:
                raise
            except Exception as error:
                self._after_failure(place, error)
        self._observations = self._filter(self._encode(self._raw))

    def _reset(self, place: int, seed: int | None = None) -> Any:
        if self._watch is not None:
            self._watch.begins(place)
        found = self._envs[place].reset(seed=seed)
        observation = check_reset(found, self.spec.described)
        if self._watch is not None:
            self._watch.began(place, *found)
        return observation

    def take_left(self) -> LeftByCallbacks | None:
        """Return what callbacks have left since the last call, or the last sample."""
        return None if self._watch is None else self._watch.take()

    def _step(
        self,
        actions: Sequence[Any],
        episodes: list[tuple[float, int]],
        ended: dict[int, tuple[float, int]] | None = None,
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
            self._failures_in_a_row = 0
            if episode is not None:
                episodes.append(episode)
                if ended is not None:
                    ended[place] = episode
        return row

    def _step_one(self, place: int, action: Any, row: _Row) -> tuple[float, int] | None:
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
        episode = float(self._returns[place]), int(self._lengths[place])
        self._returns[place], self._lengths[place] = 0, 0
        self._raw[place] = self._reset(place)
        return episode

    def _after_failure(self, place: int, error: Exception) -> None:
        """Make the environment again until it can be reset, and drop its episode; or raise."""
        failure: Exception | None = error
        while failure is not None:
            self._count_failure(place, failure)
            self._envs[place] = self._make(place)
            self._returns[place], self._lengths[place] = 0, 0
            try:
                self._raw[place] = self._reset(place)
                failure = None
            except EnvError:
                raise
            except Exception as another:
                failure = another

    def _count_failure(self, place: int, error: Exception) -> None:
        """Raise where the environment is not made again; or log that it is."""
        self._failures_in_a_row += 1
        name = self.spec.described
        if not self.spec.restarts_environments:
            raise EnvError(
                f"The environment {name!r} failed with {type(error).__name__}: {error}. To drop such "
                "an episode and go on with a new environment, set "
                "fault_tolerance(restart_failed_sub_environments=True)."
            ) from error
        if self._failures_in_a_row > MOST_FAILURES_IN_A_ROW:
            raise EnvError(
                f"The environment {name!r} failed {self._failures_in_a_row} times, without one good "
                f"step in between; the last time with {type(error).__name__}: {error}. Call its "
                "reset() and step() without an algorithm to find the cause."
            ) from error
        logger.warning(
            "The environment %r failed with %s: %s. Its episode is dropped after %d steps, and the "
            "environment is made again.",
            name,
            type(error).__name__,
            error,
            self._lengths[place],
        )

    def _with_finals(self, observations: NDArray[Any], row: _Row) -> NDArray[Any]:
        """Return the observations after a step; for ended episodes, their own last ones."""
        if not row.finals:
            return observations
        nexts = observations.copy()
        finals = self._filter(self._encode(list(row.finals.values())), update=False)
        nexts[list(row.finals)] = finals
        return nexts

    def _next_values(
        self, columns: dict[str, NDArray[Any]], nexts: list[NDArray[Any]]
    ) -> NDArray[Any]:
        """Return the critic's values of the observations after the steps."""
        values = np.empty_like(columns["values"])
        values[:-1] = columns["values"][1:]
        # These are not the values of the steps that follow.
        wanted = columns["truncateds"].copy()
        wanted[-1] = True
        values[wanted] = self._policy.values(np.stack(nexts)[wanted])
        return values

    def _clipped(self, rewards: NDArray[Any]) -> NDArray[Any]:
        limit = self.spec.clip_rewards
        if limit is True:
            signs: NDArray[Any] = np.sign(rewards)
            return signs
        if not limit:
            return rewards
        clipped: NDArray[Any] = np.clip(rewards, -limit, limit)
        return clipped

    def ping(self) -> int:
        """Return the runner's number."""
        return self.index

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            close = getattr(env, "close", None)
            if close is not None:
                close()


def _cut_before(broken: list[tuple[int, int]], columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Truncate the episodes that an error broke off before the broken steps; return the valid steps."""
    valid = np.ones(columns["rewards"].shape, bool)
    for step, place in broken:
        valid[step, place] = False
        if step:
            columns["truncateds"][step - 1, place] = True
    return valid


def _copied(statistics: RunningStatistics) -> RunningStatistics:
    found = RunningStatistics(statistics.mean.shape)
    found.merge(statistics)
    return found
