"""The options of tasks and actors that the methods of data sets take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError

#: The name of `ray_remote_args_fn` among the options.
_FUNCTION = "ray_remote_args_fn"


def remote_args(
    more: Mapping[str, Any] | None,
    *,
    fallback_strategy: Any = None,
    ray_remote_args_fn: Callable[[], Mapping[str, Any]] | None = None,
    **named: Any,
) -> dict[str, Any]:
    """Return a method's options for `ray.remote`, without those that are None.

    `ray_remote_args_fn` is kept among them, for `split`.
    """
    if fallback_strategy is not None:
        raise UnsupportedRayFeatureError(
            "fallback_strategy of raycompat.data",
            "tasks have fixed options",
            "give the options themselves",
        )
    given = {name: value for name, value in named.items() if value is not None}
    if ray_remote_args_fn is not None:
        if not callable(ray_remote_args_fn):
            raise ValueError(
                f"ray_remote_args_fn={ray_remote_args_fn!r} should be a function without parameters, "
                "which returns the options of a task or an actor in a dictionary."
            )
        given[_FUNCTION] = ray_remote_args_fn
    return {**given, **(more or {})}


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], Mapping[str, Any]]]:
    """Return the fixed options, and the function that gives those of each task or actor."""
    fixed = dict(options)
    function = fixed.pop(_FUNCTION, dict)
    return fixed, function


def refuse_options(what: str, **options: Any) -> None:
    """Raise an error for options that are not None."""
    given = sorted(name for name, value in options.items() if value is not None)
    if given:
        raise UnsupportedRayFeatureError(
            f"{what}({', '.join(f'{name}=...' for name in given)})",
            "its tasks have fixed options",
            "leave them out",
        )
