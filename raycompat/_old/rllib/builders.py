"""Policies and trainers made of functions: ``build_tf_policy``, ``build_trainer`` and their successors.

What a policy is made of is in `raycompat._old.rllib.policy_functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from raycompat._old.rllib.algorithms import PG, PGConfig
from raycompat._old.rllib.execution import Planned
from raycompat._old.rllib.policies import PolicyClass
from raycompat._old.rllib.policy_functions import Functions, functions_of
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.rllib.agents.trainers import Agent

#: Functions of a trainer of a program.
_HOOKS = ("validate_config", "before_init", "after_init")


def build_policy_class(
    name: str, framework: str = "tf", *, loss_fn: Callable[..., Any] | None, **functions: Any
) -> type[Any]:
    """Return the class of a policy that learns by a loss of the program.

    Parameters
    ----------
    name : str
        Of the class.
    framework : str, default "tf"
        "torch": the loss computes in PyTorch; the network learns in TensorFlow all the same.
    loss_fn : callable
        Of policy, model, class of distributions and batch: returns the loss, one number or one for each
        row.
    **functions
        ``postprocess_fn``, ``stats_fn``, ``grad_stats_fn``, ``compute_gradients_fn``, ``before_init``,
        ``before_loss_init``, ``after_init`` and ``mixins``, as in Ray.

    Raises
    ------
    UnsupportedRayFeatureError
        When another function is given.

    Notes
    -----
    Ray source: ``ray.rllib.policy.policy_template.build_policy_class``, 2.60.0, where it belongs to the
    old API stack. Differs from Ray: the policy has a critic, and acts and makes its network as PG does.
    Other agents' batches are not given to ``postprocess_fn``, and pieces of episodes have no ``infos``.
    """
    if framework not in ("tf", "tf2", "tfe", "torch"):
        raise ValueError(f"framework={framework!r}: expected 'tf' or 'torch'.")
    base = Functions("torch" if framework == "torch" else "tf")
    made = functions_of(base, "build_policy_class", {"loss_fn": loss_fn, **functions})
    return type(name, (PolicyClass,), {"functions": made, "__module__": __name__})


def build_tf_policy(name: str, *, loss_fn: Callable[..., Any], **functions: Any) -> type[Any]:
    """Return the class of a policy with a loss in TensorFlow; see `build_policy_class`.

    Parameters
    ----------
    name : str
        Of the class.
    loss_fn : callable
        Of policy, model, class of distributions and batch.
    **functions
        As of `build_policy_class`.
    """
    return build_policy_class(name, "tf", loss_fn=loss_fn, **functions)


def build_torch_policy(name: str, *, loss_fn: Callable[..., Any], **functions: Any) -> type[Any]:
    """Return the class of a policy with a loss in PyTorch; see `build_policy_class`.

    Parameters
    ----------
    name : str
        Of the class.
    loss_fn : callable
        Of policy, model, class of distributions and batch.
    **functions
        As of `build_policy_class`.
    """
    return build_policy_class(name, "torch", loss_fn=loss_fn, **functions)


class CustomTrainerConfig(PGConfig):
    """Options of trainers that `build_trainer` makes: those of `PGConfig`.

    Parameters
    ----------
    algo_class : subclass of Algorithm, optional
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or CustomTrainer)
        self.lr = 1e-4


class CustomTrainer(PG):
    """What `build_trainer` makes trainers of: samples of all runners are learned from once."""

    config_class = CustomTrainerConfig


def build_trainer(
    name: str,
    *,
    default_policy: Any = None,
    default_config: Mapping[str, Any] | None = None,
    get_policy_class: Callable[[Any], Any] | None = None,
    validate_config: Callable[[Any], None] | None = None,
    before_init: Callable[[Any], None] | None = None,
    after_init: Callable[[Any], None] | None = None,
    mixins: list[type[Any]] | None = None,
    execution_plan: Callable[..., Any] | None = None,
    **others: Any,
) -> type[Any]:
    """Return a trainer whose policies are of a class of the program.

    Parameters
    ----------
    name : str
        Of the trainer.
    default_policy : type, optional
        What `build_policy_class` returned, or the policy of an algorithm, which then learns.
    default_config : mapping, optional
        Options that count where others are not given.
    get_policy_class : callable, optional
        Of the options: returns a class in place of `default_policy`, or None.
    validate_config : callable, optional
        Of the options, before the trainer is made.
    before_init, after_init : callable, optional
        Of the trainer, before and after it is made.
    mixins : list of classes, optional
        Of the trainer.
    execution_plan : callable, optional
        Of workers and options: returns an iterator over parts of the training, see
        `raycompat._old.rllib.execution`.
    **others
        Those of Ray that are None have no effect; the others are refused.

    Raises
    ------
    UnsupportedRayFeatureError
        For others that say how an algorithm goes on.

    Notes
    -----
    Ray source: ``ray.rllib.agents.trainer_template.build_trainer``, 1.13.0; Ray has removed it since.
    """
    return trainer_with(
        _base_of(default_policy),
        {
            "name": name,
            "default_policy": default_policy,
            "default_config": default_config,
            "get_policy_class": get_policy_class,
            "validate_config": validate_config,
            "before_init": before_init,
            "after_init": after_init,
            "mixins": mixins,
            "execution_plan": execution_plan,
            **others,
        },
        "build_trainer",
    )


def _base_of(policy: Any) -> type[Any]:
    name = getattr(policy, "algorithm", "")
    if not name:
        return CustomTrainer
    from raycompat.rllib.algorithms.registry import get_algorithm_class

    found: type[Any] = get_algorithm_class(name)
    return found


class _Hooked(Agent):
    """Calls functions of a program before and after a trainer is made."""

    #: By the names of `_HOOKS`; None where there is none.
    _trainer_hooks: ClassVar[Mapping[str, Callable[..., None] | None]]

    def setup(self, config: dict[str, Any]) -> None:
        validate, before, after = (self._trainer_hooks[name] for name in _HOOKS)
        if validate is not None:
            validate(self._config_of(config["config"], config["env"]))
        if before is not None:
            before(self)
        super().setup(config)
        if after is not None:
            after(self)


def trainer_with(base: type[Any], given: Mapping[str, Any], caller: str) -> type[Any]:
    """Return a subclass of a trainer, made as Ray's ``build_trainer`` and ``with_updates`` say.

    Parameters
    ----------
    base : subclass of Algorithm
    given : mapping
        What is not None counts. A hook replaces the one of `base`; None removes it.
    caller : str
        For errors.
    """
    hooks = {
        name: given.get(name, getattr(base, "_trainer_hooks", {}).get(name)) for name in _HOOKS
    }
    options = {k: v for k, v in given.items() if v is not None and k not in _HOOKS}
    name = options.pop("name", base.__name__)
    mixins = tuple(options.pop("mixins", ()))
    body: dict[str, Any] = {
        "__module__": __name__,
        "default_options": {**base.default_options, **(options.pop("default_config", None) or {})},
        "_trainer_hooks": hooks,
    }
    policy, chosen = options.pop("default_policy", None), options.pop("get_policy_class", None)
    plan = options.pop("execution_plan", None)
    if plan is not None:
        body["_execution_plan"] = staticmethod(plan)
    if policy is not None or chosen is not None:

        def get_default_policy_class(cls: Any, config: Any) -> Any:
            return (None if chosen is None else chosen(config)) or policy

        body["get_default_policy_class"] = classmethod(get_default_policy_class)
    if options:
        raise UnsupportedRayFeatureError(
            f"{caller}({', '.join(f'{each}=...' for each in sorted(options))})",
            "An algorithm samples and learns in its own training_step",
            "use a subclass of an algorithm with a method training_step",
        )
    parents = (base,) if issubclass(base, _Hooked) else (_Hooked, base)
    if plan is not None and not issubclass(base, Planned):
        parents = (Planned, *parents)
    return type(name, (*mixins, *parents), body)


__all__ = ["build_policy_class", "build_tf_policy", "build_torch_policy", "build_trainer"]
