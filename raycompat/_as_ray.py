"""`install_as_ray`: from then on ``import ray`` means raycompat in this process.

A finder at the front of ``sys.meta_path`` answers for ``ray`` and all names below it with the modules
of this package: the same objects under a second name, never copies. So what is pickled names
raycompat, and loads anywhere. The executors of a driver that has installed it install it too.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from raycompat import _missing

_OURS, _THEIRS = "raycompat", "ray"

#: A folder with a package ``ray`` that makes itself raycompat.
_FOR_CHILDREN = str(Path(__file__).with_name("_as_ray_path"))


def install_as_ray() -> None:
    """Make ``import ray``, ``from ray import ...`` and ``import ray.util.queue`` mean raycompat here.

    It holds in this process from now on, in the Pythons that it starts (by `subprocess` or
    `multiprocessing`), and in the executors of the cluster that it connects to; not in other programs.
    ``raycompat run script.py`` does it for a program that is not to be changed. What raycompat does not
    have, such as ``ray.serve``, can be imported, and raises `UnsupportedRayFeatureError` when used.

    Raises
    ------
    RuntimeError
        When Ray itself has been imported already.

    Examples
    --------
    >>> import raycompat
    >>> raycompat.install_as_ray()
    >>> import ray
    >>> ray is raycompat
    True

    Notes
    -----
    Differs from Ray: Ray has no such thing.
    """
    if is_installed():
        return
    there = sys.modules.get(_THEIRS)
    if there is not None and there is not sys.modules[_OURS]:
        raise RuntimeError(
            f"install_as_ray(): {there.__name__} has been imported already, from "
            f"{getattr(there, '__file__', None)}. Call it before anything imports ray."
        )
    sys.meta_path.insert(0, _Finder())
    _tell_children()


def take_over() -> None:
    """Put raycompat in the place of the module ``ray`` that is being imported here."""
    sys.modules.pop(_THEIRS, None)
    install_as_ray()
    sys.modules[_THEIRS] = sys.modules[_OURS]


def _tell_children() -> None:
    """Make ``ray`` mean raycompat in the Pythons that this process starts.

    Children of `multiprocessing` get ``sys.path``, other Pythons the environment.
    """
    if _FOR_CHILDREN not in sys.path:
        sys.path.append(_FOR_CHILDREN)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _FOR_CHILDREN not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, paths), _FOR_CHILDREN])


def is_installed() -> bool:
    """Whether ``ray`` means raycompat in this process."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


class _Finder(MetaPathFinder):
    """Finds our module for a name of Ray's."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how to load `fullname`; None if it is not Ray's, or we do not have it."""
        top, _, below = fullname.partition(".")
        if top != _THEIRS:
            return None
        return self._of_ours(fullname, below) or (
            _missing.spec(fullname) if _missing.is_rays(below) else None
        )

    def _of_ours(self, fullname: str, below: str) -> ModuleSpec | None:
        ours = f"{_OURS}.{below}" if below else _OURS
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:  # we do not have what it is in
            return None
        if found is None:
            return None
        return ModuleSpec(
            fullname, _Alias(ours), is_package=found.submodule_search_locations is not None
        )


class _Alias(Loader):
    """Loads a module of ours under another name."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself."""
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it was, and give all below it that is there their second names.

        What is found in ``sys.modules`` is not bound in its parent again, where a function may have the
        name by now: ``ray.util.placement_group`` is one, and a module.
        """
        module.__spec__ = self._spec
        for name, there in list(sys.modules.items()):
            if name.startswith(f"{self._ours}."):
                sys.modules.setdefault(_THEIRS + name.removeprefix(_OURS), there)
