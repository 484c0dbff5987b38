"""The options of tasks and actors that the methods of data sets take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError

#: The name of `ray_remote_args_fn` among the options.
_FUNCTION = "ray_remote_args_fn"


#: The named options of tasks and actors.
_NAMED = (
    *("num_cpus", "num_gpus", "memory", "label_selector", "max_calls", "resources"),
    *("accelerator_type", "runtime_env"),
)


def remote_args(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options for `ray.remote`, without those that are None.

    `parameters` are the method's ``locals()``: each option is written once, in the method's signature.
    `ray_remote_args_fn` is kept among the options, for `split`.
    """
    if parameters.get("fallback_strategy") is not None:
        raise UnsupportedRayFeatureError(
            "fallback_strategy of raycompat.data",
            "tasks have fixed options",
            "give the options themselves",
        )
    options = {name: parameters[name] for name in _NAMED if parameters.get(name) is not None}
    function = parameters.get(_FUNCTION)
    if function is not None:
        if not callable(function):
            raise ValueError(
                f"ray_remote_args_fn={function!r} should be a function without parameters, "
                "which returns the options of a task or an actor in a dictionary."
            )
        options[_FUNCTION] = function
    return {**options, **(parameters.get("ray_remote_args") or {})}


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], Mapping[str, Any]]]:
    """Return the fixed options, and the function that gives those of each task or actor."""
    fixed = dict(options)
    function = fixed.pop(_FUNCTION, dict)
    return fixed, function


def refuse_options(what: str, **options: object) -> None:
    """Raise an error for options that are not None."""
    given = sorted(name for name, value in options.items() if value is not None)
    if given:
        raise UnsupportedRayFeatureError(
            f"{what}({', '.join(f'{name}=...' for name in given)})",
            "its tasks have fixed options",
            "leave them out",
        )
