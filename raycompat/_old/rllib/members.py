"""Methods and properties that objects of RLlib had in older Rays: each takes the object first."""

from __future__ import annotations

import copy
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raycompat._old.rllib.workers import collect_metrics as metrics_of_workers
from raycompat.rllib.env.env_context import EnvContext
from raycompat.rllib.fixed_policies import MultiRLModuleSpec
from raycompat.rllib.policy_spec import specs_of

if TYPE_CHECKING:
    from raycompat.rllib.algorithms.algorithm import Algorithm
    from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
    from raycompat.rllib.env.env_runner_group import RunnerGroup
    from raycompat.rllib.env.multi_agent_episode import EpisodeType
    from raycompat.rllib.metrics_logger import MetricsLogger

# Policies are Any below: they are those of algorithms, or of programs.


# Of an algorithm.


def eval_env_runner(algorithm: Algorithm) -> Any:
    """Return the evaluations' env runner of this process; None before the first evaluation."""
    group = algorithm.eval_env_runner_group
    return None if group is None else group.local_env_runner


def collect_metrics(algorithm: Algorithm, selected_workers: Any = None) -> dict[str, Any]:
    """Return the means, minima and maxima of the episodes that a program has played in the runners.

    Parameters
    ----------
    algorithm : Algorithm
    selected_workers : list, optional
        Of which actors. Default: all.
    """
    group = algorithm.env_runner_group
    if selected_workers is None:
        return metrics_of_workers(group)
    return metrics_of_workers(None, selected_workers)


# Of options.


def option_of(config: AlgorithmConfig, key: str, default: object = None) -> Any:
    """Return an option; as in Ray, it stays."""
    return config.get(key, default)


def is_atari(config: AlgorithmConfig) -> bool:
    """Return whether the name of the environment is one of Atari."""
    return isinstance(config.env, str) and (
        config.env.startswith(("ALE/", "ale_py:ALE/")) or "NoFrameskip" in config.env
    )


def true(of: object) -> bool:
    """Return True."""
    return True


def config_of_evaluations(config: AlgorithmConfig) -> AlgorithmConfig:
    """Return a copy of the options with those of evaluations in their place."""
    changes = config.evaluation_config or {}
    options = changes if isinstance(changes, Mapping) else changes.to_dict()
    return config.copy(copy_frozen=False).update_from_dict(options)


def options_of(config: AlgorithmConfig) -> dict[str, Any]:
    """Return all options by name."""
    return config.to_dict()


def spec_of_modules(config: AlgorithmConfig, **kwargs: object) -> MultiRLModuleSpec:
    """Return the networks of all policies.

    Parameters
    ----------
    config : AlgorithmConfig
    **kwargs
        ``env``, ``spaces`` and ``inference_only`` of `AlgorithmConfig.get_rl_module_spec`.
    """
    given = config.rl_module_spec
    if isinstance(given, MultiRLModuleSpec):
        return given
    names = list(specs_of(config.policies))
    return MultiRLModuleSpec(
        rl_module_specs={name: config.get_rl_module_spec(**kwargs) for name in names}  # type: ignore[arg-type]
    )


# Of the context of an environment.


def copy_with_overrides(
    context: EnvContext, env_config: Mapping[str, object] | None = None, **places: Any
) -> EnvContext:
    """Return a copy with other values.

    Parameters
    ----------
    context : EnvContext
    env_config : dict, optional
        In place of all that it has.
    **places
        ``worker_index``, ``vector_index``, ``remote``, ``num_workers`` and ``recreated_worker``.
    """
    own = {name: each for name, each in places.items() if each is not None}
    values = dict(context) if env_config is None else copy.deepcopy(dict(env_config))
    return EnvContext(values, **{**vars(context), **own})


def with_vector_index(context: EnvContext, vector_index: int) -> EnvContext:
    """Return a copy with another number of the environment in its runner."""
    return copy_with_overrides(context, vector_index=vector_index)


def set_defaults(context: EnvContext, defaults: Mapping[str, Any]) -> None:
    """Add those values whose names are not there.

    Parameters
    ----------
    context : EnvContext
    defaults : dict
    """
    for name, each in defaults.items():
        context.setdefault(name, each)


# Of a group of env runners.


def foreach_policy(group: RunnerGroup, func: Callable[..., Any]) -> list[Any]:
    """Return what a function of policy and name returns for each policy of each runner.

    Parameters
    ----------
    group : RunnerGroup
    func : callable
    """
    found = group.foreach_worker(lambda worker: worker.foreach_policy(func))
    return [each for own in found for each in own]


def foreach_env_with_context(group: RunnerGroup, func: Callable[..., Any]) -> list[list[Any]]:
    """Call a function with each environment and its context; return lists of the runners' results.

    Parameters
    ----------
    group : RunnerGroup
    func : callable
    """
    return group.foreach_worker(lambda worker: worker.foreach_env_with_context(func))


def healthy_runners(group: RunnerGroup) -> list[int]:
    """Return the numbers of the actors that answer."""
    return group.call_all("ping") if group.is_remote else []


def num_healthy_runners(group: RunnerGroup) -> int:
    """Return how many runners answer: the actors, and that of this process."""
    return len(healthy_runners(group)) + 1


def num_healthy_actors(group: RunnerGroup) -> int:
    """Return how many actors answer."""
    return len(healthy_runners(group))


def num_restarts(group: RunnerGroup) -> int:
    """Return how many actors were replaced."""
    return group.num_restarts


# Of an episode.


def add_of_step(episode: EpisodeType, key: str, data: object) -> None:
    """Keep a value of a step until the episode is made numpy.

    Parameters
    ----------
    episode : SingleAgentEpisode or MultiAgentEpisode
    key : str
    data : object
    """
    _check_is_open(episode)
    episode.custom_data.setdefault(key, []).append(data)


def of_steps(episode: EpisodeType, key: str) -> list[Any]:
    """Return the values that were kept under a key.

    Raises
    ------
    KeyError
        When there are none.
    ValueError
        When the episode was made numpy.
    """
    _check_is_open(episode)
    if key not in episode.custom_data:
        raise KeyError(f"{key!r}: expected one of {sorted(episode.custom_data)}.")
    found: list[Any] = episode.custom_data[key]
    return found


def _check_is_open(episode: EpisodeType) -> None:
    if episode.is_numpy:
        raise ValueError(
            f"{episode!r} has arrays, and no values of steps: expected one that to_numpy() has not "
            "changed. Keep them in custom_data."
        )


# Of a logger of metrics.


def results(logger: MetricsLogger, results: Any) -> Any:
    """Return results as they are: they are numbers."""
    return results


def set_value(
    logger: MetricsLogger, key: str | tuple[str, ...], value: object, **options: Any
) -> None:
    """Log a value in place of all that were logged under its key.

    Parameters
    ----------
    logger : MetricsLogger
    key : str or tuple of str
    value : object
    **options
        See `MetricsLogger.log_value`.
    """
    logger.forget(*([key] if isinstance(key, str) else key))
    logger.log_value(key, value, **options)


def reset(logger: MetricsLogger) -> None:
    """Forget all that was logged."""
    logger.forget()


def delete(logger: MetricsLogger, *key: Any, key_error: bool = True) -> None:
    """Forget what was logged under a key.

    Parameters
    ----------
    logger : MetricsLogger
    *key : str or tuple of str
    key_error : bool, default True
        Whether a key without values is an error.

    Raises
    ------
    KeyError
        When there are none.
    """
    path = key[0] if len(key) == 1 and isinstance(key[0], tuple) else key
    if not logger.forget(*path) and key_error:
        raise KeyError(path)


# Of a policy.


def apply(policy: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a function returns for the policy.

    Parameters
    ----------
    policy : Policy
    func : callable
    *args, **kwargs
        Its other arguments.
    """
    return func(policy, *args, **kwargs)


def is_recurrent(policy: Any) -> bool:
    """Return whether it has states."""
    return num_state_tensors(policy) > 0


def num_state_tensors(policy: Any) -> int:
    """Return how many states it has."""
    return len(policy.get_initial_state())


def get_host(policy: Any) -> str:
    """Return the name of this machine."""
    return platform.node()


def exploration_of(policy: Any) -> dict[str, Any]:
    """Return the chance of a random action now, by the name ``cur_epsilon``; nothing of a rule."""
    algorithm = vars(policy).get("_algorithm")
    return {} if algorithm is None else {"cur_epsilon": algorithm.exploration()}


def count_steps(policy: Any, global_vars: Any) -> None:
    """Do nothing: the algorithm counts the steps."""


def compute_single_action(
    policy: Any,
    obs: Any = None,
    state: Sequence[Any] | None = None,
    *,
    input_dict: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return the action of a rule for one observation, the next states, and what it says of it.

    Parameters
    ----------
    policy : Policy
    obs : object
    state : list, optional
    input_dict : dict, optional
        In place of the others: ``obs``, and ``state_in_0`` and so on.
    **options
        Of `Policy.compute_actions`, of one observation.
    """
    if input_dict is not None:
        obs, state = input_dict["obs"], _states_of(input_dict)
    columns = [np.asarray(each)[None] for each in state or []]
    explore = options.get("explore")
    actions, states, known = policy.compute_actions(np.asarray(obs)[None], columns, explore=explore)
    return actions[0], [each[0] for each in states], {k: v[0] for k, v in known.items()}


def compute_actions_from_input_dict(
    policy: Any,
    input_dict: Mapping[str, Any],
    explore: bool | None = None,
    timestep: int | None = None,
    **kwargs: Any,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return the actions for the observations of a batch.

    Parameters
    ----------
    policy : Policy
    input_dict : SampleBatch or dict
        ``obs``; of a network with a memory also ``state_in_0`` and so on, ``prev_actions`` and
        ``prev_rewards``.
    explore : bool, optional
    timestep, **kwargs
        They have no effect.
    """
    found: tuple[Any, list[Any], dict[str, Any]] = policy.compute_actions(
        input_dict["obs"],
        _states_of(input_dict) or None,
        input_dict.get("prev_actions"),
        input_dict.get("prev_rewards"),
        explore=explore,
    )
    return found


def _states_of(columns: Mapping[str, Any]) -> list[Any]:
    names = [name for name in columns if name.startswith("state_in_")]
    return [columns[f"state_in_{place}"] for place in range(len(names))]
