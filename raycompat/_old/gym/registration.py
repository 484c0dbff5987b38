"""`make`, `register` and `spec` of gym: its environments are registered with gymnasium."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium

from raycompat._old.gym.adapters import OfItsTime, of_today

#: Names of environments that gymnasium has under another one, with the same behaviour.
_RENAMED = {"Pendulum-v0": "Pendulum-v1"}


def make(id: Any, **kwargs: Any) -> Any:
    """Return an environment of gymnasium in the form of gym.

    Parameters
    ----------
    id : str
        Its name.
    **kwargs
        What it is made with.
    """
    return OfItsTime(gymnasium.make(_RENAMED.get(id, id), disable_env_checker=True, **kwargs))


def register(id: str, entry_point: Any = None, **kwargs: Any) -> None:
    """Register an environment of gym with gymnasium.

    Parameters
    ----------
    id : str
        Its name.
    entry_point : str or callable
        ``"module:Class"``, or what makes it.
    **kwargs
        As in gymnasium: ``max_episode_steps``, ``kwargs``.
    """

    def create(**options: Any) -> Any:
        return of_today(_found(entry_point)(**options))

    gymnasium.register(id, create, **kwargs)


def _found(entry_point: Any) -> Callable[..., Any]:
    if not isinstance(entry_point, str):
        return entry_point  # type: ignore[no-any-return]
    module, _, name = entry_point.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def spec(id: str) -> Any:
    """Return what gymnasium knows of an environment."""
    return gymnasium.spec(_RENAMED.get(id, id))


EnvSpec = gymnasium.envs.registration.EnvSpec
registry = gymnasium.registry

__all__ = ["EnvSpec", "make", "register", "registry", "spec"]
