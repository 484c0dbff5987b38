"""Lets ``import gym`` find `raycompat._old_forms.gym` in a process where gym is not installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

from raycompat._surface import era, forms, table

if TYPE_CHECKING:
    from importlib.abc import Loader

#: Modules of gym by the module that stands for them.
_MODULES = {
    "gym": "raycompat._old_forms.gym",
    "gym.core": "raycompat._old_forms.gym.core",
    "gym.envs": "raycompat._old_forms.gym.envs",
    "gym.envs.registration": "raycompat._old_forms.gym.registration",
    "gym.error": "gymnasium.error",
    "gym.logger": "gymnasium.logger",
    "gym.spaces": "gymnasium.spaces",
    "gym.utils": "raycompat._old_forms.gym.utils",
    "gym.utils.seeding": "raycompat._old_forms.gym.seeding",
    "gym.wrappers": "raycompat._old_forms.gym.wrappers",
}

#: Modules of these are found in gymnasium, as they are.
_THE_SAME = ("gym.spaces.", "gym.utils.")
_OF_CLASSES = "gym.envs."
_CLASSES = "raycompat._old_forms.gym.envs"
_USE = "gym in place of gymnasium"


def install() -> None:
    """Let ``import gym`` work in this process; an installed gym comes first."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


class _Finder:
    """Finds modules of gym, after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of gym; None for others, and without gymnasium."""
        if fullname.partition(".")[0] != "gym":
            return None
        row = table.use(_USE)
        assert row is not None
        if era.is_past(row.last) or importlib.util.find_spec("gymnasium") is None:
            return None
        name = _MODULES.get(fullname, "")
        if not name and fullname.startswith(_THE_SAME):
            name = f"gymnasium.{fullname.removeprefix('gym.')}"
        if not name and not fullname.startswith(_OF_CLASSES):
            return None
        if name and importlib.util.find_spec(name) is None:
            return None
        return ModuleSpec(fullname, cast("Loader", _Loader(name)), is_package=True)


class _Loader:
    """Loads a module under a name of gym.

    Parameters
    ----------
    name : str
        Of the module that stands for it; "" for a module of classes.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, or one whose classes have gym's form."""
        if not self._name:
            module = importlib.import_module(_CLASSES).Classes(spec.name)
            assert isinstance(module, ModuleType)
            return module
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Warn of the first use; the module keeps its own spec."""
        if self._name:
            module.__spec__ = self._spec
            forms.used(_USE, refusal=ModuleNotFoundError)
