"""Names of options from 2017 to 2024, and their names today; and those that have no effect here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from raycompat._surface import forms, table
from raycompat._surface.table import Row
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Options

logger = logging.getLogger(__name__)

#: Names with the same meaning, for all algorithms.
RENAMED = {
    "batch_size": "rollout_fragment_length",
    "custom_eval_function": "custom_evaluation_function",
    "buffer_size": "replay_buffer_config.capacity",
    "custom_resources_per_worker": "custom_resources_per_env_runner",
    "evaluation_num_episodes": "evaluation_duration",
    "evaluation_num_workers": "evaluation_num_env_runners",
    "framework": "framework_str",
    "grad_norm_clipping": "grad_clip",
    "ignore_worker_failures": "ignore_env_runner_failures",
    "lambda": "lambda_",
    "learning_starts": "num_steps_sampled_before_learning_starts",
    "max_num_worker_restarts": "max_num_env_runner_restarts",
    "metrics_smoothing_episodes": "metrics_num_episodes_for_smoothing",
    "min_iter_time_s": "min_time_s_per_iteration",
    "min_sample_timesteps_per_reporting": "min_sample_timesteps_per_iteration",
    "min_train_timesteps_per_reporting": "min_train_timesteps_per_iteration",
    "min_time_s_per_reporting": "min_time_s_per_iteration",
    "mini_batch_size_per_learner": "minibatch_size",
    "num_cpus_for_driver": "num_cpus_for_main_process",
    "num_cpus_for_local_worker": "num_cpus_for_main_process",
    "num_cpus_per_worker": "num_cpus_per_env_runner",
    "num_envs": "num_envs_per_env_runner",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "num_gpus_per_learner_worker": "num_gpus_per_learner",
    "num_gpus_per_worker": "num_gpus_per_env_runner",
    "num_learner_workers": "num_learners",
    "num_rollout_workers": "num_env_runners",
    "num_sgd_iter": "num_epochs",
    "num_workers": "num_env_runners",
    "prioritized_replay_alpha": "replay_buffer_config.alpha",
    "prioritized_replay_beta": "replay_buffer_config.beta",
    "prioritized_replay_beta0": "replay_buffer_config.beta",
    "prioritized_replay_eps": "replay_buffer_config.epsilon",
    "recreate_failed_env_runners": "restart_failed_env_runners",
    "recreate_failed_workers": "restart_failed_env_runners",
    "sample_batch_size": "rollout_fragment_length",
    "sgd_batchsize": "minibatch_size",
    "sgd_minibatch_size": "minibatch_size",
    "sgd_stepsize": "lr",
    "timesteps_per_batch": "train_batch_size_per_learner",
    "timesteps_per_iteration": "min_sample_timesteps_per_iteration",
    "train_batch_size": "train_batch_size_per_learner",
}

#: Old names that configs of 2022 to 2025 had as attributes, which programs set.
OLD_ATTRIBUTES = frozenset(
    {
        "custom_resources_per_worker",
        "entropy_coeff_schedule",
        "evaluation_num_workers",
        "exploration_config",
        "grad_norm_clipping",
        "ignore_worker_failures",
        "lr_schedule",
        "max_num_worker_restarts",
        "metrics_smoothing_episodes",
        "mini_batch_size_per_learner",
        "num_cpus_for_local_worker",
        "num_cpus_per_worker",
        "num_envs_per_worker",
        "num_gpus_per_learner_worker",
        "num_gpus_per_worker",
        "num_learner_workers",
        "num_rollout_workers",
        "num_sgd_iter",
        "num_workers",
        "recreate_failed_env_runners",
        "recreate_failed_workers",
        "sgd_minibatch_size",
        "train_batch_size",
        "vf_share_layers",
    }
)

#: The rows of options that are not carried out here, and of those of a network.
_OPTIONS = "ray.rllib.algorithms.algorithm_config.AlgorithmConfig"
OF_BUFFERS = "ray.rllib.utils.replay_buffers.ReplayBuffer"
OF_MODELS = "ray.rllib.models.MODEL_DEFAULTS"
_PAST = "lstm_use_prev_action_reward"

#: Options that `AlgorithmConfig.to_dict` writes under the names that dicts of options have.
IN_DICTS = {"lambda_": "lambda", "framework_str": "framework"}

#: Old options whose values need more than another name.
_EXPLORATION = ("schedule_max_timesteps", "exploration_fraction", "exploration_final_eps")
_SAID: set[str] = set()


def with_new_names(given: Mapping[str, object], rows: str = "") -> Options:
    """Return options by the names of today; each old name is logged once.

    Parameters
    ----------
    given : mapping
        Old names, new ones, or both. Of one option under both names, that one counts which
        `AlgorithmConfig.to_dict` does not write: programs that change such a dict put it there.
    rows : str, optional
        The name under which the table has options that one algorithm does not carry out.

    Returns
    -------
    dict
        ``replay_buffer_config`` is a dict with the values of the old names.
    """
    given = carried_out(_OPTIONS, given)
    found = {name: value for name, value in given.items() if not _is_old(name)}
    for name, value in given.items():
        new_name = RENAMED.get(name)
        if new_name is None or (new_name in given and IN_DICTS.get(new_name) == name):
            continue
        _put(found, new_name, value)
        _say(name, new_name)
    for name, convert in _CONVERTED.items():
        if name in given:
            _say(name, convert(found, given[name], given))
    entropy = found.get("entropy_coeff")
    if isinstance(entropy, int | float) and entropy < 0:
        found["entropy_coeff"] = -entropy
        _say("entropy_coeff < 0", "entropy_coeff > 0")
    if any(name in given for name in _EXPLORATION):
        steps = given.get("schedule_max_timesteps", 100_000) * given.get(
            "exploration_fraction", 0.1
        )
        found["epsilon"] = [(0, 1.0), (int(steps), given.get("exploration_final_eps", 0.02))]
        for name in _EXPLORATION:
            if name in given:
                _say(name, "epsilon")
    return carried_out(rows, found) if rows else found


def carried_out(of: str, given: Mapping[str, object]) -> Options:
    """Return options without those of Ray that have no effect here; each of these is logged once.

    Parameters
    ----------
    of : str
        The name under which the table has their rows.
    given : mapping

    Raises
    ------
    UnsupportedRayFeatureError
        When one asks for what raycompat does not do.
    """
    rows = table.options(of)
    found = {name: value for name, value in given.items() if name not in rows}
    for name, value in given.items():
        row = rows.get(name)
        if row is None:
            continue
        if row.now:
            found.setdefault(row.now, value)
            _say(name, row.now)
        else:
            _take_note(name, value, row)
    return found


def options_of_model(given: Mapping[str, object]) -> Options:
    """Return the options of a network that are carried out here, by their names of today."""
    found = dict(given)
    if _PAST in found:  # until 2020
        both = found.pop(_PAST)
        for name in ("lstm_use_prev_action", "lstm_use_prev_reward"):
            found.setdefault(name, both)
            _say(_PAST, name)
    return carried_out(OF_MODELS, found)


def options_of_buffer(given: Mapping[str, object]) -> Options:
    """Return the options of a replay buffer that are carried out here, by their names of today."""
    head = "replay_buffer_config."
    inner = {old: new.removeprefix(head) for old, new in RENAMED.items() if new.startswith(head)}
    found: Options = {}
    for name, value in given.items():
        found[inner.get(name, name)] = value
        if name in inner:
            _say(name, f"{inner[name]} in replay_buffer_config")
    return carried_out(OF_BUFFERS, found)


def is_without_effect(name: str, rows: str) -> bool:
    """Return whether an option of Ray is not carried out here, or not by one algorithm."""
    return name in table.options(_OPTIONS) or name in table.options(rows)


def learns_in(framework: str) -> str:
    """Return in what algorithms learn when a program asks for `framework`."""
    if framework == "tfe":
        forms.used('ray.rllib with framework "tfe"', refusal=ValueError)
        return "tf2"
    if framework in ("torch", "jax"):
        if framework not in _SAID:
            _SAID.add(framework)
            logger.warning("framework=%r has no effect: algorithms learn in TensorFlow.", framework)
        return "tf2"
    return framework


def _take_note(name: str, value: object, row: Row) -> None:
    """Refuse an option, or log that it has no effect."""
    if row.no_effect:
        if name not in _SAID:
            _SAID.add(name)
            logger.warning("The option %r has no effect: %s.", name, row.no_effect)
        return
    for each in _values_of(value):
        if each not in _asks_for_nothing(row) and each not in ({}, [], ()):
            raise UnsupportedRayFeatureError(f"{name}={each!r}", row.without, row.today)


def _values_of(value: Any) -> list[Any]:
    """Return what an option may become: each value of a grid that Tune searches, or itself."""
    is_grid = isinstance(value, Mapping) and [*value] == ["grid_search"]
    return list(value["grid_search"]) if is_grid else [value]


def _asks_for_nothing(row: Row) -> tuple[object, ...]:
    """Return the values that a refused option may have: 0 and False, unless its default is another."""
    return (None, "", *row.harmless) if any(row.harmless) else (None, "", False, *row.harmless)


def _is_old(name: str) -> bool:
    return name in RENAMED or name in _CONVERTED or name in _EXPLORATION


def _put(found: Options, name: str, value: object) -> None:
    group, _, option = name.rpartition(".")
    if group:
        found[group] = {**found.get(group, {}), option: value}
    else:
        found[name] = value


#: Old names that Ray still uses; they are not logged.
_STILL_IN_USE = ("framework", "lambda", "train_batch_size")


def _say(old: str, new: str) -> None:
    if old not in _SAID and old not in _STILL_IN_USE:
        _SAID.add(old)
        logger.warning("The option %r is called %r today.", old, new)


#: Sets options of today from the value of an old one and all that was given; returns their name.
Converter = Callable[[Options, Any, Mapping[str, object]], str]


def _prioritized(found: Options, value: object, given: Mapping[str, object]) -> str:
    kind = "PrioritizedEpisodeReplayBuffer" if value else "EpisodeReplayBuffer"
    _put(found, "replay_buffer_config.type", kind)
    return "replay_buffer_config"


def _optimizer(found: Options, value: Any, given: Mapping[str, object]) -> str:
    if "grads_per_step" in value:
        found["min_updates_per_iteration"] = value["grads_per_step"]
    found.update({name: each for name, each in value.items() if name != "grads_per_step"})
    return "min_updates_per_iteration"


#: The kinds of exploration that algorithms have: by an epsilon, or by drawing from a distribution.
_KINDS_OF_EXPLORATION = (
    "EpsilonGreedy",
    "PerWorkerEpsilonGreedy",
    "Random",
    "StochasticSampling",
)


def _exploration_config(found: Options, value: Any, given: Mapping[str, object]) -> str:
    kind = (value or {}).get("type", "EpsilonGreedy")
    if kind not in _KINDS_OF_EXPLORATION:
        raise UnsupportedRayFeatureError(
            f"exploration_config={value!r}",
            "The kind of exploration belongs to the algorithm",
            "set explore and epsilon of the config",
        )
    if not value:
        return "epsilon"
    names = ("initial_epsilon", "epsilon_timesteps", "final_epsilon")
    if any(name in value for name in names):
        begin, steps, end = (
            value.get(n, d) for n, d in zip(names, (1.0, 10000, 0.02), strict=True)
        )
        found["epsilon"] = [(0, begin), (steps, end)]
    return "epsilon"


def _use_lstm(found: Options, value: object, given: Mapping[str, object]) -> str:
    _put(found, "model.use_lstm", bool(value))
    return "model"


def _learning_rates(found: Options, value: object, given: Mapping[str, object]) -> str:
    if value is not None:
        found["lr"] = value
    return "lr"


def _optimization_config(found: Options, value: Any, given: Mapping[str, object]) -> str:
    rates = {"actor": "actor_lr", "critic": "critic_lr", "entropy": "alpha_lr"}
    for part, name in rates.items():
        if f"{part}_learning_rate" in (value or {}):
            found[name] = value[f"{part}_learning_rate"]
    return "actor_lr, critic_lr and alpha_lr"


def _entropy_coeffs(found: Options, value: object, given: Mapping[str, object]) -> str:
    if value is not None:
        found["entropy_coeff"] = value
    return "entropy_coeff"


def _shared_layers(found: Options, value: object, given: Mapping[str, object]) -> str:
    if isinstance(value, bool):
        _put(found, "model.vf_share_layers", value)
    return "model"


def _pytorch(found: Options, value: object, given: Mapping[str, object]) -> str:
    if value:
        found["framework_str"] = "torch"
    return "framework"


def _multiagent(found: Options, value: Any, given: Mapping[str, object]) -> str:
    inner = dict(value or {})
    if "policy_graphs" in inner:  # the name until 2019
        inner["policies"] = inner.pop("policy_graphs")
    found.update(carried_out(_OPTIONS, inner))
    return "policies, policy_mapping_fn and policies_to_train"


_CONVERTED: dict[str, Converter] = {
    "multiagent": _multiagent,
    "entropy_coeff_schedule": _entropy_coeffs,
    "lr_schedule": _learning_rates,
    "optimization_config": _optimization_config,
    "use_pytorch": _pytorch,
    "vf_share_layers": _shared_layers,
    "exploration_config": _exploration_config,
    "optimizer": _optimizer,
    "prioritized_replay": _prioritized,
    "use_lstm": _use_lstm,
}
