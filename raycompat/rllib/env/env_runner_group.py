"""`RunnerGroup`: runners in this process or in actors, replaced when they die."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import raycompat as ray
from raycompat._host import clock
from raycompat._surface import forms
from raycompat._surface.modules import names_of
from raycompat.exceptions import GetTimeoutError, RayActorError, WorkerCrashedError
from raycompat.rllib._types import AlgorithmOptions, Array
from raycompat.util._internal_actors import internal_actor

if TYPE_CHECKING:
    from raycompat.rllib.env.runner import Runner, RunnerState

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

#: Seconds that a runner has to make its environments, before its first answer.
START_TIMEOUT_S = 300.0
#: A runner that dies so often, without one answer in between, will not recover.
MOST_DEATHS_IN_A_ROW = 3

#: Methods of runners that leave their weights to programs.
_KEEP_WEIGHTS = ("set_state", "apply", "apply_to_environments", "set_tasks", "take_left")


@dataclass(frozen=True)
class GroupOptions:
    """The placement of a group's runners, and the reaction to a dead one.

    Parameters
    ----------
    num_cpus, num_gpus : float
        Of each.
    resources : dict
        Other resources of each.
    restarts : bool
        Whether a dead runner is replaced.
    ignores_failures : bool
        Whether the group continues without dead runners; `restarts` has priority.
    max_restarts : int
        Of all runners together.
    timeout_s : float, optional
        Seconds without an answer after which a runner counts as dead. None: no limit.
    """

    num_cpus: float = 1
    num_gpus: float = 0
    resources: dict[str, float] = field(default_factory=dict)
    restarts: bool = True
    ignores_failures: bool = False
    max_restarts: int = 1000
    timeout_s: float | None = None

    @classmethod
    def of(cls, config: AlgorithmOptions) -> GroupOptions:
        """Return the options of runners that train, from those of an algorithm.

        Parameters
        ----------
        config : AlgorithmConfig
        """
        return cls(
            num_cpus=config.num_cpus_per_env_runner,
            num_gpus=config.num_gpus_per_env_runner,
            resources=config.custom_resources_per_env_runner,
            restarts=config.restart_failed_env_runners,
            ignores_failures=config.ignore_env_runner_failures,
            max_restarts=config.max_num_env_runner_restarts,
            timeout_s=None if config.plays_elsewhere else config.sample_timeout_s,
        )


@forms.has_old_members("ray.rllib.env.env_runner_group.EnvRunnerGroup")
class RunnerGroup:
    """Runners in actors, or a single one in this process.

    Parameters
    ----------
    make : callable
        Returns a runner for its number, from 1 (0 in this process), and whether it is a replacement.
    num_runners : int
        0 makes one in this process.
    options : GroupOptions, optional

    Attributes
    ----------
    num_restarts : int
        How many runners were replaced.
    """

    def __init__(
        self,
        make: Callable[[int, bool], Runner],
        num_runners: int,
        options: GroupOptions | None = None,
    ) -> None:
        self._make = make
        self._options = options or GroupOptions()
        self.local: Runner | None = None if num_runners else make(0, False)
        self._spare: Runner | None = None
        #: Returns the state that runners play by; set by the algorithm.
        self.state_of: Callable[[], RunnerState] | None = None
        #: The weights that programs find at all runners; None where these may have others.
        self._synced: dict[str, list[Array]] | None = None
        #: Whether the algorithm plays here itself. Then runners follow its weights, as in Ray after
        #: each training step; a program that plays in its own way calls `sync_weights`.
        self._is_led = False
        self.num_restarts = 0
        self._recreated: list[int] = []
        self._deaths_in_a_row: dict[int, int] = {}
        #: Answers of new runners, which come when their environments are made.
        self._starting: dict[int, Any] = {}
        #: For each call of `next_answer` without an answer: its runner, and when it was sent.
        self._in_flight: dict[Any, tuple[int, float]] = {}
        self._actors: dict[int, Any] = {
            index: self._start(index, False) for index in range(1, num_runners + 1)
        }

    def __len__(self) -> int:
        """Return the number of runners."""
        return len(self._actors) or 1

    def num_remote_workers(self) -> int:
        """Return the number of runners that are actors."""
        return len(self._actors)

    num_remote_env_runners = num_remote_workers

    @property
    def is_remote(self) -> bool:
        """Whether the runners are actors."""
        return self.local is None

    def _start(self, index: int, is_replacement: bool) -> Any:
        options = self._options
        actor = internal_actor(_RunnerActor).options(
            num_cpus=options.num_cpus, num_gpus=options.num_gpus, resources=dict(options.resources)
        )
        started: Any = actor.remote(self._make, index, is_replacement)
        self._starting[index] = started.call.remote("ping")
        return started

    def _wait_until_started(self, index: int) -> None:
        ref = self._starting.pop(index, None)
        if ref is not None:
            ray.get(ref, timeout=START_TIMEOUT_S)

    def call_all(self, method: str, *args: object) -> list[Any]:
        """Call a method of each runner, and return the answers in their order.

        A runner that dies in the meantime gives no answer, and is replaced.

        Raises
        ------
        RayActorError
            When no runner is left, or a replacement dies again and again.
        """
        self._note_call(method)
        if self.local is not None:
            return [getattr(self.local, method)(*args)]
        calls = {index: actor.call.remote(method, *args) for index, actor in self._actors.items()}
        answers = []
        for index, ref in calls.items():
            with self._replacing(index):
                self._wait_until_started(index)
                answers.append(ray.get(ref, timeout=self._options.timeout_s))
                self._deaths_in_a_row.pop(index, None)
        return answers or self.call_all(method, *args)

    def next_answer(self, method: str, args: Callable[[], tuple[object, ...]]) -> Any:
        """Call a method of each runner that has no call in flight, and return the first answer.

        Parameters
        ----------
        method : str
        args : callable
            Returns the arguments of a call.

        Notes
        -----
        The other calls stay in flight for the next `next_answer`; `forget_calls` drops them.
        """
        self._note_call(method)
        if self.local is not None:
            return getattr(self.local, method)(*args())
        while True:
            self._call_idle(method, args)
            ready, _ = ray.wait(
                list(self._in_flight), num_returns=1, timeout=self._options.timeout_s
            )
            self._replace_late()
            if not ready:
                continue
            index, _ = self._in_flight.pop(ready[0])
            with self._replacing(index):
                answer = ray.get(ready[0])
                self._deaths_in_a_row.pop(index, None)
                return answer

    def _call_idle(self, method: str, args: Callable[[], tuple[object, ...]]) -> None:
        busy = {index for index, _ in self._in_flight.values()}
        for index in sorted(self._actors.keys() - busy):
            with self._replacing(index):
                self._wait_until_started(index)
            if index in self._actors:
                call = self._actors[index].call.remote(method, *args())
                self._in_flight[call] = index, clock.monotonic()

    def _replace_late(self) -> None:
        """Replace the runners that have not answered in time, also while others answer."""
        if self._options.timeout_s is None:
            return
        oldest = clock.monotonic() - self._options.timeout_s
        old = [call for call, (_, sent_at) in self._in_flight.items() if sent_at <= oldest]
        if not old:
            return
        _, late = ray.wait(old, num_returns=len(old), timeout=0)
        for call in late:
            index, _ = self._in_flight[call]
            with self._replacing(index):
                raise GetTimeoutError(f"runner {index}")

    def take_recreated(self) -> list[int]:
        """Return the numbers of the runners that were replaced since the last call."""
        found, self._recreated = sorted(set(self._recreated)), []
        return found

    def forget_calls(self) -> None:
        """Drop the calls in flight: the runners still run them, but their answers are not read."""
        self._in_flight = {}

    @contextlib.contextmanager
    def _replacing(self, index: int) -> Iterator[None]:
        """Replace the runner where its process ends or does not answer."""
        try:
            yield
        except (RayActorError, WorkerCrashedError, GetTimeoutError) as error:
            self._after_death(index, error)

    def _after_death(self, index: int, error: Exception) -> None:
        options = self._options
        ray.kill(self._actors[index])
        self._in_flight = {
            call: (other, sent_at)
            for call, (other, sent_at) in self._in_flight.items()
            if other != index
        }
        what = "did not answer in time" if isinstance(error, GetTimeoutError) else "has died"
        deaths = self._deaths_in_a_row[index] = self._deaths_in_a_row.get(index, 0) + 1
        if options.restarts and self.num_restarts < options.max_restarts:
            if deaths > MOST_DEATHS_IN_A_ROW:
                raise error
            logger.warning("Env runner %d %s; another takes its place. %s", index, what, str(error))
            self.num_restarts += 1
            self._recreated.append(index)
            self._synced = None
            self._actors[index] = self._start(index, True)
            return
        del self._actors[index]
        self._starting.pop(index, None)
        if not options.ignores_failures or not self._actors:
            raise error
        left = len(self._actors)
        logger.warning("Env runner %d %s; %d are left. %s", index, what, left, str(error))

    # What callbacks and programs call, by the names of today and of until 2024.

    def local_worker(self) -> Any:
        """Return a runner of this process; where others play, it is one that does not."""
        if self._spare is None:
            self._spare = self.local or self._make(0, False)
        if self.state_of is not None:
            self._spare.set_state(self.state_of())
        return self._spare.for_program()

    @property
    def local_env_runner(self) -> Any:
        """The runner of this process."""
        return self.local_worker()

    def remote_workers(self) -> list[Any]:
        """Return the actors in which runners play."""
        self._sync_first()
        return list(self._actors.values())

    def sync_weights(self, *args: object, **options: object) -> None:
        """Let all runners play by the weights of now.

        Parameters
        ----------
        *args, **options
            They have no effect: all policies of all runners take them.
        """
        if self.state_of is not None:
            self._send(self.state_of())

    def _send(self, state: RunnerState) -> None:
        self._synced = state.weights
        self.call_all("set_state", state)

    def _note_call(self, method: str) -> None:
        if method not in _KEEP_WEIGHTS:
            self._synced, self._is_led = None, True

    def _sync_first(self) -> None:
        """Give runners their first weights, or new ones, before a program uses them."""
        if self.state_of is None or not (self._synced is None or self._is_led):
            return
        state = self.state_of()
        if self._synced is None or not _are_equal(self._synced, state.weights):
            self._send(state)

    def foreach_worker(self, func: Callable[[Any], _T], **options: object) -> list[_T]:
        """Call a function with each runner that plays, where it is, and return the results.

        Parameters
        ----------
        func : callable
        **options
            ``local_env_runner``, with any value, changes what the runner's ``sample()`` returns: a list
            of episodes, as in Ray today. Without it, ``sample()`` returns a `SampleBatch`, as until
            2024. The other options have no effect.
        """
        self._sync_first()
        return self.call_all("apply", func, "local_env_runner" in options)

    def foreach_worker_with_id(self, func: Callable[[int, Any], _T], **options: object) -> list[_T]:
        """Call a function with the number and the runner of each that plays; see `foreach_worker`.

        Parameters
        ----------
        func : callable
        **options
            As those of `foreach_worker`.
        """
        return self.foreach_worker(lambda worker: func(worker.worker_index, worker), **options)

    def foreach_env_runner(self, func: Callable[[Any], _T], **options: object) -> list[_T]:
        """Call a function with each runner that plays, where it is, and return the results.

        Parameters
        ----------
        func : callable
            The runner's ``sample()`` returns episodes.
        **options
            They have no effect.
        """
        self._sync_first()
        return self.call_all("apply", func, True)

    def foreach_env(self, func: Callable[[Any], _T]) -> list[list[_T]]:
        """Call a function with each environment, where it is; return lists of the runners' results.

        Parameters
        ----------
        func : callable
        """
        return self.call_all("apply_to_environments", func)

    def stop(self) -> None:
        """Close the environments, and end the actors."""
        for runner in {id(each): each for each in (self.local, self._spare) if each}.values():
            runner.close()
        for actor in self._actors.values():
            ray.kill(actor)
        self._actors, self._in_flight = {}, {}


class _RunnerActor:
    """Holds a runner; made in the first call, so that its errors arrive as the user's own."""

    def __init__(
        self, make: Callable[[int, bool], Runner], index: int, is_replacement: bool
    ) -> None:
        self._make = make
        self._place = index, is_replacement
        self._runner: Runner | None = None

    def call(self, method: str, *args: object) -> object:
        """Call a method of the runner."""
        if self._runner is None:
            self._runner = self._make(*self._place)
        return getattr(self._runner, method)(*args)

    # What programs call; see `WorkerOfProgram`.

    def _for_program(self, method: str, *args: object, **kwargs: object) -> object:
        if self._runner is None:
            self._runner = self._make(*self._place)
        return getattr(self._runner.for_program(), method)(*args, **kwargs)

    def sample(self, **options: object) -> object:
        """Play, and return the steps."""
        return self._for_program("sample", **options)

    def get_metrics(self) -> object:
        """Return the episodes that ended since the last call."""
        return self._for_program("get_metrics")

    def apply(self, func: Callable[..., object], *args: object, **kwargs: object) -> object:
        """Return what a function returns for the runner."""
        return self._for_program("apply", func, *args, **kwargs)

    def foreach_env(self, func: Callable[[Any], object]) -> object:
        """Return what a function returns for each environment."""
        return self._for_program("foreach_env", func)

    def for_policy(self, func: Callable[..., object], *args: object, **kwargs: object) -> object:
        """Return what a function returns for a policy."""
        return self._for_program("for_policy", func, *args, **kwargs)

    def foreach_env_with_context(self, func: Callable[..., object]) -> object:
        """Return what a function returns for each environment and its context."""
        return self._for_program("foreach_env_with_context", func)

    def sample_with_count(self) -> object:
        """Play, and return the steps, and their number."""
        return self._for_program("sample_with_count")

    def foreach_policy(self, func: Callable[..., object], **kwargs: object) -> object:
        """Return what a function returns for each policy."""
        return self._for_program("foreach_policy", func, **kwargs)

    def set_weights(self, weights: object, *args: object, **kwargs: object) -> None:
        """Replace the weights of policies."""
        self._for_program("set_weights", weights, *args, **kwargs)

    def get_weights(self, *args: object) -> object:
        """Return the weights of policies."""
        return self._for_program("get_weights", *args)


def _are_equal(some: dict[str, list[Array]], others: dict[str, list[Array]]) -> bool:
    return some.keys() == others.keys() and all(
        len(own) == len(others[name]) and all(map(np.array_equal, own, others[name]))
        for name, own in some.items()
    )


def num_affordable(wanted: int, num_cpus: float, cpus_each: float, least: int = 1) -> int:
    """Return how many runners some CPUs are enough for, and log where these are fewer than wanted.

    Parameters
    ----------
    wanted : int
    num_cpus, cpus_each : float
    least : int, default 1
        Which are made without enough CPUs, too.
    """
    most = max(least, int(num_cpus // cpus_each)) if cpus_each else wanted
    if wanted > most:
        logger.warning(
            "There are %g CPUs for env runners of %g each: %d run instead of %d (num_env_runners).",
            num_cpus,
            cpus_each,
            most,
            wanted,
        )
    return min(wanted, most)


__getattr__ = names_of(__name__)
