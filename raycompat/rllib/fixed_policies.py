"""Policies of users that act by a rule, and do not learn: one of several, to play against.

`Policy` is the form until 2024 (``compute_actions``), `RLModule` that of today
(``_forward_inference``).
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib._types import Action, Nested, Observation, Options, Space, Values
from raycompat.rllib.checkpoint_state import (
    folder_of_state,
    policies_of,
    read_module,
    read_state,
)
from raycompat.rllib.modules_by_name import Modules, MultiRLModule

_NO_LEARNING = "A policy that learns is one of the algorithm"
_HAS_TO = (
    "leave it out, or give a subclass of Policy with compute_actions, or of RLModule with "
    "_forward_inference"
)


@forms.has_old_members("ray.rllib.policy.policy.Policy")
class Policy:
    """A policy that acts by a rule. Subclass it, and write `compute_actions`.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        Of its agents.
    config : dict
        The options of its `PolicySpec`.

    Notes
    -----
    Ray source: ``ray.rllib.policy.policy.Policy``, 2.60.0. Differs from Ray: it does not learn.
    """

    def __init__(
        self, observation_space: Space, action_space: Space, config: Mapping[str, object] | None
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.config: Options = dict(config or {})
        self.view_requirements: dict[str, ViewRequirement] = {}

    def compute_actions(
        self,
        obs_batch: Values,
        state_batches: list[Values] | None = None,
        prev_action_batch: Values = None,
        prev_reward_batch: Values = None,
        info_batch: Values = None,
        episodes: Any = None,
        explore: bool | None = None,
        timestep: int | None = None,
        **kwargs: object,
    ) -> tuple[Values, list[Values], dict[str, Values]]:
        """Return actions, the next states, and an empty dict.

        Parameters
        ----------
        obs_batch : array of float32, shape (agents, ...)
            Observations; choices are one-hot vectors.
        state_batches : list of list
            For each number of `get_initial_state` its values for these agents.
        """
        raise NotImplementedError(f"{type(self).__name__}.compute_actions is not written.")

    def get_initial_state(self) -> list[Values]:
        """Return the state of an agent at the beginning of an episode."""
        return []

    @staticmethod
    def from_checkpoint(checkpoint: Any, policy_ids: Collection[str] | None = None) -> Any:
        """Return the policy of a checkpoint; of that of an algorithm, all policies by name.

        Parameters
        ----------
        checkpoint : str, path-like or Checkpoint
            What `Algorithm.export_policy_checkpoint` wrote, the checkpoint of an algorithm, or the
            folder ``policies/default_policy`` in it. It is unpickled: it must come from a trusted
            source.
        policy_ids : collection of str, optional
            Of an algorithm, which policies to return. Default: all.

        Returns
        -------
        PolicyOfAlgorithm, or dict of these

        Raises
        ------
        ValueError
            When there is no checkpoint, or it has no such policy.
        """
        return policies_of(checkpoint, policy_ids)

    def _create_exploration(self) -> None:
        """Do nothing: the rule says how it explores."""


@dataclass
class RLModuleConfig:
    """What a module is made with; its constructor took it until 2024.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
    model_config_dict : dict, optional
    inference_only : bool
    catalog_class : subclass of Catalog, optional
    """

    # Spaces are Any and not optional: modules use them without a check.
    observation_space: Any = None
    action_space: Any = None
    model_config_dict: Options | None = None
    inference_only: bool = False
    catalog_class: Callable[..., Any] | None = None

    @property
    def model_config(self) -> Options | None:
        """The same as ``model_config_dict``."""
        return self.model_config_dict

    def get_catalog(self) -> Any:
        """Return what makes the parts of the module; None without a class."""
        if self.catalog_class is None or self.observation_space is None:
            return None
        return self.catalog_class(
            self.observation_space, self.action_space, self.model_config_dict or {}
        )


class RLModule:
    """A policy that acts by a rule. Subclass it, and write ``_forward`` or ``_forward_inference``.

    Parameters
    ----------
    observation_space : gymnasium.Space or RLModuleConfig
        Of its agents. The second holds all parameters, the form until 2024.
    action_space : gymnasium.Space
    inference_only, learner_only : bool
        They have no effect.
    model_config : dict or DefaultModelConfig, optional
        The options of its `RLModuleSpec`.
    catalog_class : subclass of Catalog, optional
        Makes ``catalog``, which the module may ask for its parts.
    config : RLModuleConfig, optional
        The same as an `RLModuleConfig` given as `observation_space`.
    **kwargs
        They have no effect.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.rl_module.RLModule``, 2.60.0. Differs from Ray: it does not
    learn.
    """

    #: Makes the parts of a class whose spec names no other one.
    default_catalog: Callable[..., Any] | None = None

    def __init__(
        self,
        observation_space: Space | RLModuleConfig | None = None,
        action_space: Space | None = None,
        *,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: object = None,
        catalog_class: Callable[..., Any] | None = None,
        config: RLModuleConfig | None = None,
        **kwargs: object,
    ) -> None:
        if isinstance(observation_space, RLModuleConfig):
            given = observation_space
        elif config is not None:
            given = config
        else:
            given = RLModuleConfig(
                observation_space,
                action_space,
                model_config_of(model_config),
                inference_only,
                catalog_class,
            )
        given = copy.copy(given)  # the caller may make modules of other classes with it
        given.catalog_class = given.catalog_class or self.default_catalog
        #: The parameters in one, the form until 2024.
        self.config = given
        self.observation_space, self.action_space = given.observation_space, given.action_space
        self.model_config = given.model_config_dict or {}
        self.inference_only = given.inference_only
        self.catalog: Any = given.get_catalog()
        if self.catalog is not None:
            self.action_dist_cls = self.catalog.get_action_dist_cls(framework="torch")
        self.setup()

    def setup(self) -> None:
        """Make what the rule needs."""

    @staticmethod
    def from_checkpoint(path: str | os.PathLike[str], **kwargs: object) -> Any:
        """Return the network of a policy from a checkpoint.

        Parameters
        ----------
        path : str or path-like
            What a module's ``save_to_path`` returned; or the checkpoint of an algorithm, or a folder
            within it: ``learner_group/learner/rl_module/default_policy``; without the last part,
            modules by name. It is unpickled: it must come from a trusted source.
        **kwargs
            They have no effect.

        Returns
        -------
        keras.Model or TorchRLModule, or mapping of these
            With ``forward_inference``, as `Algorithm.get_module` returns it.

        Raises
        ------
        ValueError
            When there is no checkpoint.
        """
        saved = read_module(path)
        if saved is not None and saved.spec is not None:
            made = saved.spec.build()
            made.set_state(saved.state)
            return made
        folder, name = folder_of_state(path), Path(path).name
        algorithm = read_state(folder)["class"].from_checkpoint(folder, num_env_runners=0)
        try:
            modules = {each: algorithm.get_module(each) for each in algorithm.learners}
        finally:
            algorithm.stop()
        if name == "rl_module":
            return Modules(modules)
        if name not in modules and len(modules) > 1:
            raise ValueError(
                f"{path} is of {len(modules)} policies: expected one of {sorted(modules)} at its end, "
                "after learner_group/learner/rl_module."
            )
        return modules.get(name) or next(iter(modules.values()))

    def _forward(self, batch: dict[str, Values], **kwargs: object) -> dict[str, Values]:
        raise NotImplementedError(f"{type(self).__name__}._forward is not written.")

    def _forward_inference(self, batch: dict[str, Values], **kwargs: object) -> dict[str, Values]:
        return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Values], **kwargs: object) -> dict[str, Values]:
        return self._forward(batch, **kwargs)


@dataclass
class RLModuleSpec:
    """The network of a policy, for ``config.rl_module(rl_module_spec=...)``.

    Parameters
    ----------
    module_class : subclass of RLModule, optional
        A network of a program, a `TorchRLModule`, or a policy that acts by a rule. Default: the network
        of the algorithm.
    observation_space, action_space : gymnasium.Space, optional
        Default: those of the agents that are mapped to the policy.
    inference_only : bool
        It has no effect.
    learner_only : bool
        Only for a module that no agent acts by, see `MultiRLModuleSpec`.
    model_config : dict or DefaultModelConfig, optional
        As ``training(model=...)``, or what the class is made with.
    catalog_class : subclass of Catalog, optional
        Makes the parts of a module in PyTorch. Without `module_class`, the module is the default one.
    load_state_path : str or path-like, optional
        The weights that a module in PyTorch begins with: a folder as `RLModule.from_checkpoint` takes
        it. Layers that are not in the folder begin with random weights.
    model_config_dict : dict, optional
        The name of `model_config` until 2024.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.rl_module.RLModuleSpec``, 2.60.0. Differs from Ray:
    a `TorchRLModule` learns in PPO.
    """

    module_class: Any = None
    # Spaces are Any and not optional: `build` raises for None, and all others use them without a check.
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config: object = None
    catalog_class: Callable[..., Any] | None = None
    load_state_path: str | os.PathLike[str] | None = None
    model_config_dict: object = None
    #: Of a module among others that share layers: the spec of all, and its name.
    part_of: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.model_config_dict is not None:
            self.model_config = self.model_config_dict

    def build(self) -> Any:
        """Return the module.

        Raises
        ------
        ValueError
            When the spec lacks a class or a space, or its weights do not fit.
        """
        missing = [
            name
            for name in ("module_class", "observation_space", "action_space")
            if getattr(self, name) is None
        ]
        if missing:
            raise ValueError(
                f"RLModuleSpec.build(): {', '.join(missing)} is None: expected a value for each of "
                "module_class, observation_space and action_space."
            )
        made = self._made()
        if self.load_state_path is not None:
            made.restore_from_path(self.load_state_path)
        return made

    def _made(self) -> Any:
        """Return the module, by the constructor that its class has."""
        if not is_torch_module(self):
            rule_of(self)
        cls, spaces = self.module_class, (self.observation_space, self.action_space)
        parameters = inspect.signature(cls.__init__).parameters
        if [*parameters][1:2] == ["config"]:  # until 2024
            options = model_config_of(self.model_config)
            return cls(RLModuleConfig(*spaces, options, self.inference_only, self.catalog_class))
        if not is_torch_module(self):
            return cls(*spaces, model_config=self.model_config)
        given = {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "inference_only": self.inference_only,
            "learner_only": self.learner_only,
            "model_config": model_config_of(self.model_config),
            "catalog_class": self.catalog_class,
        }
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        return cls(**{name: v for name, v in given.items() if takes_all or name in parameters})


def model_config_of(given: object) -> Options | None:
    """Return the options of a model as a dict; a `DefaultModelConfig` is an object."""
    return given if isinstance(given, dict | None) else dict(vars(given))


def is_torch_module(spec: object) -> bool:
    """Return whether a spec names a network of a program in PyTorch."""
    cls = getattr(spec, "module_class", None)
    if cls is None:
        return any(getattr(spec, each, None) for each in ("catalog_class", "load_state_path"))
    return getattr(cls, "framework", None) == "torch"


class MultiRLModuleSpec:
    """The networks of several policies, for ``config.rl_module(rl_module_spec=...)``.

    Parameters
    ----------
    multi_rl_module_class : subclass of MultiRLModule, optional
        For modules that share layers, in an algorithm with a ``training_step`` of the program.
    rl_module_specs : dict of RLModuleSpec, or RLModuleSpec
        By policy, or for all. Those of other names are modules that no agent acts by; with
        ``learner_only=True`` they learn where a learner of PyTorch has a batch for them.
    model_config : dict, optional
        Of `multi_rl_module_class`.

    Notes
    -----
    Ray source: ``ray.rllib.core.rl_module.multi_rl_module.MultiRLModuleSpec``, 2.60.0. Differs from
    Ray: see `RLModuleSpec`.
    """

    def __init__(
        self,
        multi_rl_module_class: Callable[..., Modules] | None = None,
        *,
        rl_module_specs: RLModuleSpec | Mapping[str, RLModuleSpec] | None = None,
        module_specs: RLModuleSpec | Mapping[str, RLModuleSpec] | None = None,
        marl_module_class: Callable[..., Modules] | None = None,
        model_config: object = None,
        **refused: object,
    ) -> None:
        cls = multi_rl_module_class or marl_module_class
        if cls is not None and not (isinstance(cls, type) and issubclass(cls, MultiRLModule)):
            refused = {"multi_rl_module_class": cls, **refused}
        for name, value in refused.items():
            if value:
                raise UnsupportedRayFeatureError(
                    f"MultiRLModuleSpec({name}={value!r})",
                    "Modules that share layers are those of a MultiRLModule",
                    "leave it out, or give a subclass of MultiRLModule as multi_rl_module_class",
                )
        self.multi_rl_module_class, self.model_config = cls, model_config
        self.rl_module_specs = rl_module_specs if module_specs is None else module_specs

    def build(self) -> Modules:
        """Return the modules, by name.

        Raises
        ------
        ValueError
            When the specs have no names, or one of them lacks a class or a space.
        """
        if not isinstance(self.rl_module_specs, Mapping):
            raise ValueError(
                f"MultiRLModuleSpec.build(): rl_module_specs={self.rl_module_specs!r}: expected a dict "
                "of RLModuleSpec by policy."
            )
        if self.multi_rl_module_class is not None:
            made: Modules = self.multi_rl_module_class(
                model_config=self.model_config, rl_module_specs=self.rl_module_specs
            )
            return made
        return Modules({name: each.build() for name, each in self.rl_module_specs.items()})

    def of_policy(self, name: str) -> RLModuleSpec | None:
        """Return the spec of a policy; None for that of the algorithm."""
        specs = self.rl_module_specs
        found = specs.get(name) if isinstance(specs, Mapping) else specs
        if found is None or self.multi_rl_module_class is None:
            return found
        part: RLModuleSpec = copy.copy(found)
        #: The spec of all modules, and the name of this one.
        part.part_of = self, name
        return part

    def learner_only(self, spaces: Mapping[str, tuple[Space, Space]]) -> dict[str, RLModuleSpec]:
        """Return the specs of the modules that learn beside policies, and by which no agent acts.

        Parameters
        ----------
        spaces : dict of tuples
            Observation space and action space by policy. Those of a single policy are the default.

        Raises
        ------
        ValueError
            When a spec has no spaces, and there are several policies.
        """
        specs = self.rl_module_specs if isinstance(self.rl_module_specs, Mapping) else {}
        found = {
            name: copy.copy(each)
            for name, each in specs.items()
            if each.learner_only and name not in spaces
        }
        for name, each in found.items():
            if each.observation_space is None and len(spaces) > 1:
                raise ValueError(
                    f"RLModuleSpec(learner_only=True) of {name!r}: expected observation_space and "
                    f"action_space, because the policies {sorted(spaces)} may have different ones."
                )
            if each.observation_space is None:
                ((each.observation_space, each.action_space),) = spaces.values()
        return found

    def take_spaces(self, spaces: Mapping[str, tuple[Space, Space]]) -> None:
        """Set the spaces of the modules that have none.

        Parameters
        ----------
        spaces : dict of tuples
            Observation space and action space by policy.
        """
        specs = self.rl_module_specs if isinstance(self.rl_module_specs, Mapping) else {}
        for name in set(spaces) & set(specs):
            own = specs[name]
            if own.observation_space is None:
                own.observation_space, own.action_space = spaces[name]


@dataclass(frozen=True)
class Rule:
    """The class of a policy that acts by a rule, and what it is made with."""

    cls: object
    options: object = None


def rule_of(spec: RLModuleSpec) -> Rule:
    """Return the rule that a spec names.

    Raises
    ------
    UnsupportedRayFeatureError
        When the spec has what only modules in PyTorch have.
    """
    for name in ("catalog_class", "load_state_path"):
        if getattr(spec, name, None) is not None:
            raise UnsupportedRayFeatureError(
                f"RLModuleSpec({name}={getattr(spec, name)!r}) of {spec.module_class!r}",
                "A module that acts by a rule has no layers",
                f"leave {name} out, or derive the class from TorchRLModule",
            )
    return Rule(spec.module_class, spec.model_config)


def is_rule(policy_class: object) -> bool:
    """Return whether a policy class acts by a rule; None is the algorithm's.

    Raises
    ------
    UnsupportedRayFeatureError
        When it is something else.
    """
    if policy_class is None or getattr(policy_class, "is_of_algorithm", False):
        return False
    if not hasattr(policy_class, "compute_actions"):
        raise UnsupportedRayFeatureError(f"policy_class={policy_class!r}", _NO_LEARNING, _HAS_TO)
    return True


class FixedPolicy:
    """Lets an object of a user act where a policy of an algorithm acts.

    Parameters
    ----------
    rule : Policy or RLModule
    """

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        #: Modules see observations as they are; the older form sees them encoded.
        self.takes_raw = not hasattr(rule, "compute_actions")

    def initial_state(self) -> list[Values]:
        """Return the state of an agent at the beginning of an episode."""
        return [] if self.takes_raw else list(self.rule.get_initial_state())

    def choose(
        self, observations: list[Observation], states: list[list[Values]], explore: bool
    ) -> tuple[list[Action], list[list[Values]]]:
        """Return the actions of some agents as their environments take them, and their next states."""
        count = len(observations)
        batch = stacked(observations)
        if self.takes_raw:
            forward = self.rule._forward_exploration if explore else self.rule._forward_inference
            return _rows(forward({"obs": batch})["actions"], count), states
        columns = [list(column) for column in zip(*states, strict=True)]
        actions, nexts, *_ = self.rule.compute_actions(batch, columns, explore=explore)
        following = [list(row) for row in zip(*nexts, strict=True)] if nexts else [[]] * count
        return _rows(actions, count), following


def fixed_policy(
    cls: Callable[..., Any], observation_space: Space, action_space: Space, options: object
) -> FixedPolicy:
    """Return a policy of a user's class.

    Raises
    ------
    UnsupportedRayFeatureError
        When the class cannot act.
    """
    is_module = hasattr(cls, "_forward_inference")
    if not (is_module or hasattr(cls, "compute_actions")):
        raise UnsupportedRayFeatureError(f"The policy {cls!r}", _NO_LEARNING, _HAS_TO)
    if is_module:
        return FixedPolicy(cls(observation_space, action_space, model_config=options))
    return FixedPolicy(cls(observation_space, action_space, options or {}))


def stacked(observations: Sequence[Observation]) -> Nested:
    """Return observations as one batch; of dicts and tuples, a batch of each part."""
    first = observations[0]
    if isinstance(first, Mapping):
        return {name: stacked([each[name] for each in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(stacked([each[i] for each in observations]) for i in range(len(first)))
    return np.asarray(observations)


def _rows(actions: Values, count: int) -> list[Action]:
    """Return a batch of actions as a list; of dicts and tuples, the rows of each part."""
    if isinstance(actions, Mapping):
        parts = {name: _rows(each, count) for name, each in actions.items()}
        return [{name: rows[i] for name, rows in parts.items()} for i in range(count)]
    if isinstance(actions, tuple):
        columns = [_rows(each, count) for each in actions]
        return [tuple(rows[i] for rows in columns) for i in range(count)]
    return [
        each.item() if np.ndim(each) == 0 and hasattr(each, "item") else each for each in actions
    ]


class ViewRequirement:
    """What a network of a class sees of earlier steps.

    Of a `Policy` it has no effect: `compute_actions` sees its arguments.

    Parameters
    ----------
    data_col : str, optional
        "obs" or "rewards". Default: the name under which it is in ``view_requirements``.
    space : gymnasium.Space, optional
        Has no effect.
    shift : int, str or list of int, default 0
        A step up to the newest one, which is 0; a range of them, "-3:0" is the newest four; or a list.
    used_for_compute_actions, used_for_training : bool, default True
        They have no effect.
    **options
        They have no effect.
    """

    def __init__(
        self,
        data_col: str | None = None,
        space: Space | None = None,
        shift: int | str | Sequence[int] = 0,
        used_for_compute_actions: bool = True,
        used_for_training: bool = True,
        **options: object,
    ) -> None:
        self.data_col, self.space, self.shift = data_col, space, shift
        self.used_for_compute_actions = used_for_compute_actions
        self.used_for_training = used_for_training
