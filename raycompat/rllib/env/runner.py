"""`Runner`: what all env runners have: environments, policies, callbacks, and a way to fail."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from raycompat._old_forms.gym.adapters import of_its_time
from raycompat._surface import era
from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, AgentID, AlgorithmOptions, Array, Env, Observation
from raycompat.rllib.acting import ActingPolicy, ActingRule, PolicyPlan
from raycompat.rllib.env.construction import EnvCreator, make_env
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.env.episode import Environments
from raycompat.rllib.env.episode_watch import EpisodeWatch, LeftByCallbacks
from raycompat.rllib.filters import RunningStatistics
from raycompat.rllib.modules_by_name import Modules
from raycompat.rllib.networks import Weights
from raycompat.rllib.results import EndedEpisode
from raycompat.rllib.utils.error import EnvError

if TYPE_CHECKING:
    from raycompat.rllib.callbacks.callbacks import RLlibCallback
    from raycompat.rllib.env.multi_agent_episode import WatchedEpisode
    from raycompat.rllib.env.single_agent_episode import SingleAgentEpisode
    from raycompat.rllib.metrics_logger import MetricsLogger

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

#: An environment that fails more often than this within so many steps of a runner will not recover.
MOST_FAILURES = 5
FAILURE_WINDOW_STEPS = 1000

#: The policy of an algorithm that learns for one agent.
POLICY_ID = "default_policy"

#: Columns of steps by name.
Columns = dict[str, NDArray[Any]]


class ConnectsActions(Protocol):
    """What lies between the actions of a network and environments; see `ActionConnectors`."""

    def __call__(
        self,
        columns: Mapping[str, Array],
        episodes: list[SingleAgentEpisode],
        explore: bool,
        rl_module: object = None,
        metrics: MetricsLogger | None = None,
    ) -> tuple[dict[str, Array], list[Action] | None]:
        """Return the columns as they are after it, and what environments take instead of actions."""


@dataclass(frozen=True)
class EnvRunnerSpec:
    """Environments, policies and options of a runner.

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
    policies : dict of PolicyPlan
    seed : int
        The seeds of runners and environments are made from it.
    clip_rewards : bool or float
        Learn from the rewards' signs, or from rewards cut off at plus and minus a number.
    keeps_next_observations : bool
        Whether a sample has them.
    restarts_environments : bool
        Whether a failed environment is made again, instead of raising its error.
    make_hooks : callable, optional
        Returns the callbacks that see episodes; None where there are none.
    make_action_connectors : callable, optional
        Returns what changes the actions of a network, see `ActionConnectors`; None where nothing does.
    policy_mapping_fn : callable, optional
        Returns the policy of an agent, see `multi_agent_env.call_mapping`.
    observation_fn : callable, optional
        Returns what several agents see, for what their environment has returned.
    horizon : int, optional
        Of several agents: after how many steps an episode is truncated.
    config : AlgorithmConfig, optional
        The options of the algorithm, where callbacks see episodes.
    for_programs : dict
        What functions of programs see a runner with, see `WorkerOfProgram`.
    shows_handles : bool
        Whether functions of programs see environments as handles, see `EnvironmentHandle`.
    """

    create: EnvCreator
    described: object
    env_config: Mapping[str, Any]
    num_envs: int
    num_runners: int
    policies: dict[str, PolicyPlan]
    seed: int
    clip_rewards: bool | float = False
    keeps_next_observations: bool = False
    restarts_environments: bool = False
    make_hooks: Callable[[], list[RLlibCallback]] | None = None
    make_action_connectors: Callable[[Environments], ConnectsActions] | None = None
    policy_mapping_fn: Callable[..., str] | None = None
    observation_fn: Callable[..., dict[AgentID, Observation]] | None = None
    horizon: int | None = None
    config: AlgorithmOptions | None = None
    for_programs: dict[str, object] = field(default_factory=dict)
    shows_handles: bool = False


@dataclass
class RunnerState:
    """Weights and settings that a runner plays by.

    Parameters
    ----------
    weights : dict of lists of array
        By policy.
    statistics : dict of RunningStatistics or None
        By policy: of all runners' observations, for the filters.
    epsilon : float
        The chance of a random action.
    """

    weights: dict[str, Weights]
    statistics: dict[str, RunningStatistics | None] = field(default_factory=dict)
    epsilon: float = 0.0


@dataclass
class Sample:
    """The data of some steps.

    Parameters
    ----------
    policies : dict of dict of arrays, each of shape (steps, environments, ...)
        By policy: ``observations``, ``actions``, ``rewards``, ``terminateds``, ``truncateds``;
        ``valid``, False for steps in which an environment failed; ``next_values`` where there is a
        critic; ``next_observations`` if asked for; and what the policy remembers. Of several agents,
        each part of an agent's episode follows the one before it, ends with a step that terminated or
        was truncated, and there is one column of environments.
    num_steps : int
        Of all environments.
    episodes : list of EndedEpisode
    news : dict of RunningStatistics or None
        What each policy's filter has counted.
    left : LeftByCallbacks or None
        What callbacks have left in the runner since its last sample.
    """

    policies: dict[str, Columns]
    num_steps: int
    episodes: list[EndedEpisode]
    news: dict[str, RunningStatistics | None]
    left: LeftByCallbacks | None = None
    #: For `on_sample_end`: the episodes that ended in the sample, and those that go on.
    played: Sequence[WatchedEpisode] = ()
    #: For learner connectors: what callbacks have left in the episode of each step, an array of dicts.
    custom_data: Array | None = None

    def __iter__(self) -> Iterator[WatchedEpisode]:
        """Iterate over the episodes, as `on_sample_end` sees them."""
        return iter(self.played)

    @property
    def columns(self) -> Columns:
        """The columns of the only policy."""
        (columns,) = self.policies.values()
        return columns

    @property
    def count(self) -> int:
        """The number of steps, by its name until 2024."""
        return self.num_steps


class PlayedEpisodes(list[EndedEpisode]):
    """Episodes that ended in samples of programs, and the number of all steps of these samples."""

    num_steps = 0


class Runner:
    """Environments that a runner plays in, with its own copies of the policies.

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
        # Connectors of actions see episodes, too.
        is_watched = hooks or spec.make_action_connectors is not None
        self._watch = EpisodeWatch(self, hooks) if is_watched else None
        self._rng = np.random.default_rng([spec.seed, index])
        self._envs = [self._make(place) for place in range(spec.num_envs)]
        self._together = Environments(self._envs)
        self.policies: dict[str, ActingPolicy | ActingRule] = {
            name: plan.make() for name, plan in spec.policies.items()
        }
        #: What programs see as its network, of several policies by name; None where a Keras model acts.
        self.module: Any = _module_of(self.policies)
        #: Steps of all its environments, and how many there were at the last failures.
        self._num_steps = 0
        self._failed_at: deque[int] = deque(maxlen=MOST_FAILURES + 1)
        self._is_seeded = False
        #: Keeps the open episodes between calls of `sample_episodes`, where there are no callbacks.
        self._collector = EpisodeWatch(self, [])
        self._collected_until = 0
        #: Episodes that ended in samples of programs, which collect them.
        self.metrics = PlayedEpisodes()
        if self._watch is not None:
            self._watch.made(self._together)

    @property
    def config(self) -> Any:
        """The options of the algorithm, for callbacks."""
        return self.spec.config

    @property
    def worker_index(self) -> int:
        """The number of the runner: 0 is the algorithm's own process."""
        return self.index

    @property
    def sampler(self) -> Any:
        """How steps are collected, the form of 2020 to 2022."""
        return upper("_old.rllib.batch_builder").SAMPLER

    @property
    def env(self) -> Any:
        """The environments together; for a program of Ray 2.39 or less, the first one.

        It has the form of gym for one of 2.2 or less.
        """
        if not era.is_within("2.39"):
            return self._together
        return of_its_time(self._envs[0]) if era.is_within("2.2") else self._envs[0]

    def _make(self, place: int) -> Env:
        return make_env(self.spec.create, self.context(place), self.spec.described)

    def context(self, place: int) -> EnvContext:
        """Return what an environment of the runner is made with.

        Parameters
        ----------
        place : int
            Which environment, from 0.
        """
        spec = self.spec
        return EnvContext(
            spec.env_config,
            self.index,
            place,
            num_workers=spec.num_runners,
            recreated_worker=self._is_recreated,
        )

    def set_tasks(self, function: Callable[..., object], result: Mapping[str, object]) -> None:
        """Give each environment the task that a function of a program returns for it.

        Parameters
        ----------
        function : callable
            Of the result of an iteration, an environment and its config.
        result : dict
        """
        for place, each in enumerate(self._envs):
            env: Any = each  # a `TaskSettableEnv`
            task = function(result, env, self.context(place))
            if env.get_task() != task:
                env.set_task(task)

    def set_state(self, state: RunnerState) -> None:
        """Take the weights, the filters' statistics and the chance of random actions."""
        for name, policy in self.policies.items():
            policy.set_state(state.weights.get(name, []), state.statistics.get(name), state.epsilon)

    def take_left(self) -> LeftByCallbacks | None:
        """Return what callbacks have left since the last call, or the last sample."""
        return None if self._watch is None else self._watch.take()

    def restart(self) -> None:
        """Begin new episodes in the next sample."""
        raise NotImplementedError

    def sample_episodes(
        self,
        num_episodes: int | None = None,
        num_timesteps: int | None = None,
        explore: bool = True,
    ) -> list[WatchedEpisode]:
        """Play, and return the episodes as objects.

        Parameters
        ----------
        num_episodes : int, optional
            How many whole episodes: new ones begin before them and after them.
        num_timesteps : int, optional
            How many steps of the environments together, at least. Open episodes continue, and are
            returned from their first step in this sample. One of the two is required.
        explore : bool, default True
            Whether actions are drawn; if not, the best ones are taken.

        Raises
        ------
        ValueError
            When both are given, or neither.
        """
        if (num_episodes is None) == (num_timesteps is None):
            raise ValueError(
                f"sample(num_episodes={num_episodes!r}, num_timesteps={num_timesteps!r}): expected "
                "one of the two."
            )
        if num_episodes is not None:
            self.restart()
        own = self._watch
        if own is None and self._collected_until != self._num_steps:
            self._show_open(self._collector)
        watch = self._watch = self._collector if own is None else own

        def play() -> int:
            sample: Sample = self.sample(1, None, explore)  # type: ignore[attr-defined]
            self.metrics.extend(sample.episodes)
            self.metrics.num_steps += sample.num_steps
            if own is not None and sample.left is not None:
                own.put_back(sample.left)
            return sample.num_steps

        try:
            found = watch.collect(play, num_episodes, num_timesteps)
            self._collected_until = self._num_steps
            return found
        finally:
            self._watch = own
            if num_episodes is not None:
                self.restart()

    def _show_open(self, watch: EpisodeWatch) -> None:
        """Let a watch that has not seen the last steps know the open episodes, or begin new ones."""
        raise NotImplementedError

    def encode_batch(self, policy: str, batch: dict[str, Array]) -> None:
        """Let a batch for callbacks have observations as the network sees them.

        Parameters
        ----------
        policy : str
        batch : SampleBatch
        """
        acting = self.policies.get(policy)
        for name in ("obs", "new_obs"):
            if isinstance(acting, ActingPolicy):
                batch[name] = acting.encode(list(batch[name]))
            else:
                batch[name].setflags(write=False)

    def take_changes(self, place: int, agent: Hashable, begin: int, observations: Array) -> None:
        """Learn from observations that a callback has changed in a batch.

        Parameters
        ----------
        place : int
            Of the environment.
        agent : object
        begin : int
            The first step of the agent's episode that is in the batch.
        observations : array
            As the network sees them.

        Raises
        ------
        UnsupportedRayFeatureError
            In an environment of one agent.
        """
        raise UnsupportedRayFeatureError(
            "on_postprocess_trajectory that changes observations of one agent",
            "The runner has recorded them",
            "change them in the environment, or with env_to_module_connector",
        )

    def _seeds(self, again: bool = False) -> list[int | None]:
        """Return the seeds for a reset of all environments.

        Only the first reset has seeds, so that later episodes differ. With `again`, a reset has those
        of the first one.
        """
        is_first, self._is_seeded = not self._is_seeded, True
        first = self.spec.seed + 1000 * self.index
        return [first + place if is_first or again else None for place in range(len(self._envs))]

    def _recover(self, place: int, error: Exception, begin: Callable[[int], None]) -> None:
        """Make the environment again until `begin` resets it; or raise.

        Parameters
        ----------
        place : int
            Which environment.
        error : Exception
            What it raised.
        begin : callable
            Begins an episode in it.
        """
        failure: Exception | None = error
        while failure is not None:
            if self._watch is not None and self._watch.error is failure:
                raise failure
            self._count_failure(place, failure)
            self._envs[place] = self._make(place)
            try:
                begin(place)
                failure = None
            except EnvError:
                raise
            except Exception as another:
                failure = another

    def _length_of(self, place: int) -> int:
        """Return how many steps the episode of an environment has."""
        raise NotImplementedError

    def _count_failure(self, place: int, error: Exception) -> None:
        """Raise where the environment is not made again; or log that it is."""
        name = self.spec.described
        if not self.spec.restarts_environments:
            error.add_note(
                f"The environment {name!r} raised this. To drop such an episode and go on with a new "
                "environment, set fault_tolerance(restart_failed_sub_environments=True)."
            )
            raise error
        self._failed_at.append(self._num_steps)
        num_steps = self._num_steps - self._failed_at[0]
        if len(self._failed_at) > MOST_FAILURES and num_steps < FAILURE_WINDOW_STEPS:
            raise EnvError(
                f"The environment {name!r} failed {len(self._failed_at)} times within {num_steps} "
                f"steps; the last time with {type(error).__name__}: {error}. Call its reset() and "
                "step() without an algorithm to find the cause."
            ) from error
        logger.warning(
            "The environment %r failed with %s: %s. Its episode is dropped after %d steps, and the "
            "environment is made again.",
            name,
            type(error).__name__,
            error,
            self._length_of(place),
        )

    def _clipped(self, rewards: Array) -> Array:
        limit = self.spec.clip_rewards
        if limit is True:
            signs: Array = np.sign(rewards)
            return signs
        if not limit:
            return rewards
        clipped: Array = np.clip(rewards, -limit, limit)
        return clipped

    def apply(self, function: Callable[[Any], _T], gives_episodes: bool = False) -> _T:
        """Return what a function of a program makes of the runner; see `WorkerOfProgram`."""
        return function(self.for_program(gives_episodes))

    def for_program(self, gives_episodes: bool = False) -> Any:
        """Return the runner as functions of programs see it."""
        cls = upper("_old.rllib.workers").WorkerOfProgram
        return cls(self, **self.spec.for_programs, gives_episodes=gives_episodes)

    def apply_to_environments(self, function: Callable[[Any], _T]) -> list[_T]:
        """Return what a function of a program makes of each environment."""
        if self.spec.shows_handles:
            return [
                function(upper("_old.rllib.workers").EnvironmentHandle(env)) for env in self._envs
            ]
        return [function(env) for env in self._envs]

    def foreach_env(self, func: Callable[[Any], _T]) -> list[_T]:
        """Call a function with each environment; the name for programs.

        Parameters
        ----------
        func : callable
        """
        return self.apply_to_environments(func)

    def ping(self) -> int:
        """Return the runner's number."""
        return self.index

    def close(self) -> None:
        """Close the environments."""
        self._together.close()


def _module_of(policies: dict[str, ActingPolicy | ActingRule]) -> Any:
    found = {
        n: getattr(getattr(each, "policy", None), "module", None) for n, each in policies.items()
    }
    if list(found) == [POLICY_ID]:
        return found[POLICY_ID]
    return None if None in found.values() else Modules(found)
