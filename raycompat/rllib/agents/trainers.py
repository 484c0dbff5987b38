"""Algorithms in the forms of 2017 to 2022: agents and trainers, with a dict of options.

Their options have the names of their time; `old_keys` translates them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raycompat._upper import upper
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.algorithm_config import AlgorithmConfig
from raycompat.tune.trainable.nested import merge_dicts

#: What options of today were called by the trainers of 2018 to 2022.
_NAMES_OF_TRAINERS = {
    "custom_resources_per_env_runner": "custom_resources_per_worker",
    "framework_str": "framework",
    "lambda_": "lambda",
    "minibatch_size": "sgd_minibatch_size",
    "num_cpus_per_env_runner": "num_cpus_per_worker",
    "num_env_runners": "num_workers",
    "num_envs_per_env_runner": "num_envs_per_worker",
    "num_epochs": "num_sgd_iter",
    "num_gpus_per_env_runner": "num_gpus_per_worker",
    "num_steps_sampled_before_learning_starts": "learning_starts",
    "train_batch_size_per_learner": "train_batch_size",
}


def defaults_of_trainers(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the options of today by the names that trainers had, for ``DEFAULT_CONFIG``."""
    options = {name: getattr(config, name) for name in config.names() if hasattr(config, name)}
    return {_NAMES_OF_TRAINERS.get(name, name): value for name, value in options.items()}


class _OfClass:
    """A value that a class computes when it is read."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def __get__(self, instance: object, owner: object) -> Any:
        return self._function(owner)


class Agent(Algorithm):
    """The form of an algorithm from 2017 to 2022; `save` returns a path.

    Parameters
    ----------
    config : dict, optional
        Options by the names of their time or of today. In the first place may be the environment's
        name, as in Ray 0.2.
    env : str, class or callable, optional
        In place of the config's.
    logger_creator, registry : optional
        They have no effect.
    storage : optional
        The place of the trial in an experiment; Tune gives it.

    Notes
    -----
    Ray source: ``ray.rllib.agent.Agent``, 0.3.1.
    """

    @classmethod
    def with_updates(cls, **overrides: object) -> type[Agent]:
        """Return a subclass with other defaults: the form of 2019 to 2022.

        Parameters
        ----------
        **overrides
            ``name``, ``default_policy``, ``default_config``, ``get_policy_class``, ``validate_config``,
            ``before_init``, ``after_init`` and ``mixins``, as of Ray's ``build_trainer``.
        """
        builders = upper("_old.rllib.builders")
        made: type[Agent] = builders.trainer_with(cls, overrides, f"{cls.__name__}.with_updates")
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "execution_plan" in vars(cls):
            raise UnsupportedRayFeatureError(
                f"{cls.__name__}.execution_plan",
                "A plan of a program is an option of a trainer",
                f"use {cls.__mro__[1].__name__}.with_updates(execution_plan=...)",
            )

    @classmethod
    def merge_trainer_configs(
        cls,
        config1: Mapping[str, Any],
        config2: Mapping[str, Any],
        _allow_unknown_configs: bool | None = None,
    ) -> dict[str, Any]:
        """Return the options of two dicts in one; dicts in them are merged, too.

        Parameters
        ----------
        config1, config2 : dict
            The second one counts.
        _allow_unknown_configs : bool, optional
            Has no effect: the trainer checks the names.
        """
        return merge_dicts(config1, config2)

    @_OfClass
    def _default_config(cls) -> dict[str, Any]:  # noqa: N805
        """Return the options that count where others are not given."""
        config = cls.get_default_config()
        return {**config.to_dict(), **defaults_of_trainers(config)}

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Save the state as a checkpoint.

        Returns
        -------
        str
            The folder; in a trial of Tune, Tune's record of it.
        """
        made = super().save(checkpoint_dir)
        return made if self._place is not None or made.checkpoint is None else made.checkpoint.path


def agent_class(
    algorithm: type[Algorithm], name: str, module: str, defaults: Mapping[str, object] | None = None
) -> type[Any]:
    """Return an algorithm in its old form.

    Parameters
    ----------
    algorithm : subclass of Algorithm
    name, module : str
        Of the class.
    defaults : mapping, optional
        Options in place of those of today.
    """
    body = {
        "__module__": module,
        "__doc__": f"{algorithm.__name__} in the form of its time; see `raycompat.rllib.agent.Agent`.",
        "default_options": dict(defaults or {}),
    }
    return type(name, (Agent, algorithm), body)
