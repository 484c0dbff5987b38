"""`RLlibCallback`: callbacks of the training of an algorithm."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import psutil

from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import AgentID, Env, Metrics
from raycompat.rllib.env.episode import call_hook

if TYPE_CHECKING:
    from raycompat.rllib.env.episode import Episode

# The type of `algorithm` is Any, because a method of a program may name the class that it is for.

#: The methods that runners call, in the processes that play.
RUNNER_HOOKS = (
    "on_environment_created",
    "on_episode_created",
    "on_episode_end",
    "on_episode_start",
    "on_episode_step",
    "on_postprocess_trajectory",
    "on_sample_end",
    "on_sub_environment_created",
)

#: The methods that are called.
HOOKS = (
    "on_algorithm_init",
    "on_checkpoint_loaded",
    "on_evaluate_end",
    "on_evaluate_start",
    "on_env_runners_recreated",
    "on_learn_on_batch",
    "on_train_result",
    *RUNNER_HOOKS,
)


#: Of `MemoryTrackingCallbacks`: lines that are reported, and figures of the process.
_MOST_LINES = 10
_OF_PROCESS = ("rss", "vms", "data")

#: Older names of methods: until 2020 in dicts of functions, until 2022 and until 2024.
OLD_HOOKS = {
    "on_postprocess_traj": "on_postprocess_trajectory",
    "on_trainer_init": "on_algorithm_init",
    "on_workers_recreated": "on_env_runners_recreated",
}

#: Methods of classes alone. What the second one is for never happens here.
_OF_CLASSES = ("on_create_policy", "on_offline_eval_runners_recreated")


class RLlibCallback:
    """Methods that an algorithm and its env runners call. Subclass it for your callbacks.

    Methods may name those keywords that they need: ``episode``, ``env_runner`` (or ``worker``),
    ``env``, ``env_index``, ``metrics_logger``, ``algorithm``, ``result`` and others.

    Parameters
    ----------
    legacy_callbacks_dict : dict, optional
        Functions of one dict by the names of methods: the form of 2018 to 2020.

    Examples
    --------
    >>> from raycompat.rllib.callbacks import RLlibCallback
    >>> class Announce(RLlibCallback):
    ...     def on_train_result(self, *, algorithm, result, **kwargs):
    ...         result["announced"] = True

    Notes
    -----
    Ray source: ``ray.rllib.callbacks.callbacks.RLlibCallback``, 2.60.0. Differs from Ray: batches
    can be read, not changed; ``policies`` is empty, and ``rl_module`` None.
    """

    def __init__(self, legacy_callbacks_dict: Mapping[str, Any] | None = None) -> None:
        for name, function in (legacy_callbacks_dict or {}).items():
            setattr(self, OLD_HOOKS.get(name, name), of_info(function))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if name in OLD_HOOKS:
                setattr(cls, OLD_HOOKS[name], method)
            elif name.startswith("on_") and name not in (*HOOKS, *_OF_CLASSES):
                raise UnsupportedRayFeatureError(
                    f"{cls.__name__}.{name}", alternative=f"the methods are {', '.join(HOOKS)}"
                )

    @staticmethod
    def of_functions(functions: dict[str, list[Callable[..., Any]]]) -> RLlibCallback:
        """Return a callback whose methods call functions."""
        return _Functions(functions)

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Take note that the algorithm is ready to train."""

    def on_create_policy(self, *, policy_id: str, policy: Any) -> None:
        """Inspect a policy of an algorithm when it has been made, before `on_algorithm_init`."""

    def on_trainer_init(self, **kwargs: Any) -> None:
        """Do nothing: a subclass until 2022 has it in place of `on_algorithm_init`."""

    def on_workers_recreated(self, **kwargs: Any) -> None:
        """Do nothing: a subclass until 2024 has it in place of `on_env_runners_recreated`."""

    def on_train_result(self, *, algorithm: Any, result: Metrics, **kwargs: Any) -> None:
        """Inspect a result, or add to it, before `train` returns it."""

    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Take note that an evaluation begins."""

    def on_evaluate_end(
        self, *, algorithm: Any, evaluation_metrics: Metrics, **kwargs: Any
    ) -> None:
        """Inspect the result of an evaluation."""

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Handle the restoring of the algorithm from a checkpoint."""

    def on_env_runners_recreated(
        self,
        *,
        algorithm: Any,
        env_runner_group: Any,
        env_runner_indices: list[int],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """Take note of runners that took the place of dead ones, at the end of an iteration.

        ``env_runner_group.foreach_env_runner(func)`` calls a function with each runner.
        """

    def on_environment_created(self, *, env: Env, **kwargs: Any) -> None:
        """Inspect the environments of a runner, ``env.envs``, when they have been made."""

    def on_sub_environment_created(self, *, sub_environment: Env, **kwargs: Any) -> None:
        """Inspect one environment when it has been made."""

    def on_episode_created(self, *, episode: Episode, **kwargs: Any) -> None:
        """Prepare an episode, before its environment is reset."""

    def on_episode_start(self, *, episode: Episode, **kwargs: Any) -> None:
        """Inspect an episode after the reset of its environment."""

    def on_episode_step(self, *, episode: Episode, **kwargs: Any) -> None:
        """Inspect an episode after each of its steps."""

    def on_episode_end(self, *, episode: Episode, **kwargs: Any) -> None:
        """Inspect an episode that has ended, and leave metrics in it."""

    def on_postprocess_trajectory(
        self,
        *,
        episode: Episode,
        agent_id: AgentID,
        policy_id: str,
        postprocessed_batch: Any,
        **kwargs: Any,
    ) -> None:
        """Inspect the steps of an agent since the last call, when they go into a sample.

        ``postprocessed_batch`` has what the environment returned; advantages are estimated later.
        """

    def on_learn_on_batch(
        self, *, policy: Any, train_batch: Any, result: Metrics, **kwargs: Any
    ) -> None:
        """Inspect the steps that a policy learns from next; add metrics of them to ``result``."""

    def on_sample_end(self, *, samples: Any, **kwargs: Any) -> None:
        """Inspect a sample, whose ``columns`` are arrays of shape (steps, environments, ...)."""


def overridden(hook: RLlibCallback, names: Iterable[str]) -> bool:
    """Return whether a callback has one of these methods itself."""
    return any(
        name in vars(hook) or getattr(type(hook), name) is not getattr(RLlibCallback, name)
        for name in names
    )


def of_info(function: Callable[[dict[str, Any]], Any]) -> Callable[..., None]:
    """Return a function of keywords that calls one of a dict, with the names of 2018 to 2020."""

    def call(**given: Any) -> None:
        function(given)

    return call


class MemoryTrackingCallbacks(RLlibCallback):
    """Report at the end of each episode where Python has allocated memory; to find a leak.

    ``custom_metrics`` have ``tracemalloc/LINE/size`` (KiB) and ``tracemalloc/LINE/count`` of the ten
    lines that hold the most, and the memory of the process (bytes) as ``tracemalloc/worker/rss`` and
    ``tracemalloc/worker/vms``. Python runs several times slower.

    Notes
    -----
    Ray source: ``ray.rllib.callbacks.callbacks.MemoryTrackingCallbacks``, 2.60.0. No known difference.
    """

    def on_episode_created(self, *, episode: Episode, **kwargs: Any) -> None:
        """Begin to trace, with the first episode: modules would take minutes to import."""
        if not tracemalloc.is_tracing():
            tracemalloc.start(_MOST_LINES)

    def on_episode_end(self, *, episode: Episode, **kwargs: Any) -> None:
        """Add the figures to the episode."""
        gc.collect()
        found: dict[str, float] = {}
        for each in tracemalloc.take_snapshot().statistics("lineno")[:_MOST_LINES]:
            found[f"{each.traceback}/size"] = each.size / 1024
            found[f"{each.traceback}/count"] = each.count
        memory = psutil.Process().memory_info()._asdict()
        found |= {f"worker/{name}": memory[name] for name in _OF_PROCESS if name in memory}
        episode.custom_metrics.update({f"tracemalloc/{name}": v for name, v in found.items()})


class _Functions(RLlibCallback):
    """Calls functions, by the names of methods."""

    def __init__(self, functions: dict[str, list[Callable[..., Any]]]) -> None:
        for name, each in functions.items():
            if each:
                setattr(self, name, _calling(each))


def _calling(functions: list[Callable[..., Any]]) -> Callable[..., None]:
    def call(**kwargs: Any) -> None:
        for function in functions:
            call_hook(function, kwargs)

    return call
