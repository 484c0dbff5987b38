"""The options of tasks and actors that the methods of data sets take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raycompat.exceptions import UnsupportedRayFeatureError


def remote_args(
    more: Mapping[str, Any] | None,
    *,
    fallback_strategy: Any = None,
    ray_remote_args_fn: Any = None,
    **named: Any,
) -> dict[str, Any]:
    """Return a method's options for `ray.remote`, without those that are None."""
    for name, value in [
        ("fallback_strategy", fallback_strategy),
        ("ray_remote_args_fn", ray_remote_args_fn),
    ]:
        if value is not None:
            raise UnsupportedRayFeatureError(
                f"{name} of raycompat.data",
                "tasks have fixed options",
                "give the options themselves",
            )
    given = {name: value for name, value in named.items() if value is not None}
    return {**given, **(more or {})}


def refuse_options(what: str, **options: Any) -> None:
    """Raise an error for options that are not None."""
    given = sorted(name for name, value in options.items() if value is not None)
    if given:
        raise UnsupportedRayFeatureError(
            f"{what}({', '.join(f'{name}=...' for name in given)})",
            "its tasks have fixed options",
            "leave them out",
        )
