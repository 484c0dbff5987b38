"""``gym.envs``: the classes of gymnasium's environments, with gym's form."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Any

from raycompat._old_forms.gym import registration
from raycompat._old_forms.gym.adapters import class_of_its_time
from raycompat._old_forms.gym.registration import make, register, registry, spec

__all__ = ["make", "register", "registration", "registry", "spec"]

#: Python looks for ``gym.envs.classic_control`` only below a package.
__path__: list[str] = []


class Classes(ModuleType):
    """A module ``gym.envs.X`` whose classes are made of those of ``gymnasium.envs.X``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        today = importlib.import_module(f"gymnasium.{self.__name__.removeprefix('gym.')}")
        found = getattr(today, name)
        return _class(found) if isinstance(found, type) else found


_class = cache(class_of_its_time)
