"""The options of algorithms by group, with their defaults, and what values they take."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

#: The options that all algorithms have, by the method that sets them, with their defaults.
GROUPS: dict[str, dict[str, object]] = {
    "environment": {
        "env": None,
        "env_config": {},
        "observation_space": None,
        "action_space": None,
        "env_task_fn": None,
        "horizon": None,
        "clip_rewards": None,
        "normalize_actions": True,
        "clip_actions": False,
    },
    "env_runners": {
        "num_env_runners": 0,
        "num_envs_per_env_runner": 1,
        "num_cpus_per_env_runner": 1,
        "num_gpus_per_env_runner": 0,
        "custom_resources_per_env_runner": {},
        "rollout_fragment_length": "auto",
        "sample_timeout_s": 60.0,
        "observation_filter": "NoFilter",
        "remote_worker_envs": False,
        "env_to_module_connector": None,
        "module_to_env_connector": None,
        "explore": True,
        "env_runner_cls": None,
    },
    "training": {
        "gamma": 0.99,
        "lr": 0.001,
        "grad_clip": None,
        "train_batch_size_per_learner": 4000,
        "model": {},
        "learner_connector": None,
        "learner_class": None,
        "learner_config_dict": {},
    },
    "evaluation": {
        "evaluation_interval": None,
        "evaluation_duration": 10,
        "evaluation_duration_unit": "episodes",
        "evaluation_num_env_runners": 0,
        "evaluation_config": None,
        "custom_evaluation_function": None,
    },
    "reporting": {
        "metrics_num_episodes_for_smoothing": 100,
        "min_time_s_per_iteration": None,
        "min_sample_timesteps_per_iteration": 0,
        "min_train_timesteps_per_iteration": 0,
        "keep_per_episode_custom_metrics": False,
    },
    "debugging": {"seed": None, "logger_config": None},
    "fault_tolerance": {
        "restart_failed_env_runners": True,
        "ignore_env_runner_failures": False,
        "max_num_env_runner_restarts": 1000,
        "restart_failed_sub_environments": False,
    },
    "callbacks": {"callbacks_class": None},
    # What Ray has beside; only the value that says what happens here is taken.
    "learners": {"num_learners": 0, "num_gpus_per_learner": 0},
    "resources": {
        "num_gpus": 0,
        "num_cpus_for_main_process": 1,
        "custom_resources_for_main_process": {},
    },
    "framework": {"framework_str": "tf2"},
    "multi_agent": {
        "policies": None,
        "policy_mapping_fn": None,
        "policies_to_train": None,
        "observation_fn": None,
        "algorithm_config_overrides_per_module": {},
    },
    "rl_module": {"rl_module_spec": None},
    "offline_data": {
        "input_": "sampler",
        "input_config": {},
        "actions_in_input_normalized": True,
        "dataset_num_iters_per_learner": None,
        "offline_data_class": None,
        "prelearner_class": None,
        "output": None,
    },
    "checkpointing": {},
    "experimental": {"_torch_lr_scheduler_classes": None, "_torch_grad_scaler_class": None},
    "python_environment": {},
}

#: Options that methods of other groups took for some years, too.
ALSO = {
    "resources": ("learners", "env_runners"),
    "env_runners": ("fault_tolerance",),
}


#: Single options that two methods take: those of a learner are among ``training`` until 2025.
IN_TWO_METHODS = {
    "learners": ("learner_class", "learner_config_dict", "learner_connector"),
    "rl_module": ("algorithm_config_overrides_per_module",),
    "training": ("clip_actions",),
}


class _UpToOne:
    """The numbers from 0 to 1, and None, which is 0."""

    def __contains__(self, value: object) -> bool:
        return value is None or (isinstance(value, int | float) and 0 <= value <= 1)


_UP_TO_ONE = _UpToOne()

#: Options with few values here, and why.
FIXED: dict[str, tuple[Container[Any], str, str]] = {
    "num_learners": ((None, 0, 1), "The algorithm's own process learns", "use 0 or 1"),
    "num_gpus_per_learner": (_UP_TO_ONE, "One process learns, with the GPU it sees", "use 0 to 1"),
    "num_gpus": (_UP_TO_ONE, "One process learns, with the GPU it sees", "use 0 to 1"),
    "framework_str": (
        ("tf2", "tf", "torch"),
        "Algorithms learn in TensorFlow",
        "leave .framework(...) out",
    ),
    "evaluation_duration_unit": (
        ("episodes", "timesteps"),
        "Evaluation plays episodes or steps",
        'set it to "episodes" or "timesteps"',
    ),
}

#: The options of a network, with their defaults, as in ``training(model=...)``.
MODEL: dict[str, Any] = {
    "fcnet_hiddens": [256, 256],
    "fcnet_activation": "tanh",
    "fcnet_kernel_initializer": None,
    "fcnet_kernel_initializer_kwargs": None,
    "fcnet_bias_initializer": None,
    "fcnet_bias_initializer_kwargs": None,
    "conv_filters": None,
    "vf_share_layers": False,
    "free_log_std": False,
    "head_fcnet_hiddens": [],
    "custom_model": None,
    "custom_model_config": {},
    "custom_action_dist": None,
    "max_seq_len": 20,
    "use_lstm": False,
    "lstm_cell_size": 256,
    "lstm_use_prev_action": False,
    "lstm_use_prev_reward": False,
    "use_attention": False,
    "attention_num_transformer_units": 1,
    "attention_dim": 64,
    "attention_num_heads": 1,
    "attention_head_dim": 32,
    "attention_memory_inference": 50,
    "attention_position_wise_mlp_dim": 32,
    "attention_init_gru_gate_bias": 2.0,
}

#: Options of a network that are numbers of layers, steps or numbers.
SIZES_OF_MODEL = (
    "max_seq_len",
    "lstm_cell_size",
    *(name for name in MODEL if name.startswith("attention_") and name[-4:] != "bias"),
)

_POSITIVE_INTEGERS = (
    "num_envs_per_env_runner",
    "train_batch_size_per_learner",
    "minibatch_size",
    "num_epochs",
    "evaluation_duration",
    "metrics_num_episodes_for_smoothing",
    "n_step",
    "episodes_per_batch",
    "noise_size",
    "min_updates_per_iteration",
    "dataset_num_iters_per_learner",
)
_COUNTS = (
    "num_env_runners",
    "evaluation_num_env_runners",
    "max_num_env_runner_restarts",
    "min_train_timesteps_per_iteration",
    "target_network_update_freq",
)
_FRACTIONS = ("gamma", "lambda_", "tau", "eval_prob")
SCHEDULES = (
    "lr",
    "entropy_coeff",
    "epsilon",
    "clip_param",
    "actor_lr",
    "critic_lr",
    "alpha_lr",
)


#: Of the class of env runners whose client plays.
MODULE_OF_SERVER = "raycompat.rllib.env.external.env_runner_server_for_external_inference"
#: Of the classes of env runners that a config may name: an algorithm has the first two by itself.
MODULES_OF_RUNNERS = (
    "raycompat.rllib.env.env_runner",
    "raycompat.rllib.env.multi_agent_env_runner",
    MODULE_OF_SERVER,
)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive_integer(value: object) -> bool:
    """Return whether a value is an integer of 1 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


CHECKS: list[tuple[tuple[str, ...], Callable[[Any], bool], str]] = [
    (_POSITIVE_INTEGERS, is_positive_integer, "an integer of 1 or more"),
    (_COUNTS, lambda v: v == 0 or is_positive_integer(v), "an integer of 0 or more"),
    (_FRACTIONS, lambda v: _is_number(v) and 0 <= v <= 1, "a number from 0 to 1"),
    (
        ("grad_clip", "sample_timeout_s", "horizon", "noise_stdev", "stepsize"),
        lambda v: _is_number(v) and v > 0,
        "a number greater than 0",
    ),
]
