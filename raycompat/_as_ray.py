"""`install_as_ray`: after it, ``import ray`` means raycompat in this process.

A finder at the front of ``sys.meta_path`` answers for ``ray`` and all names below it with the modules
of this package: the same objects under a second name, never copies. So pickles refer to raycompat, and
load everywhere. The executors of a driver that has installed it install it too.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from raycompat._surface import era, gym_finder, missing, old_python

if TYPE_CHECKING:
    from importlib.abc import Loader

_OURS, _THEIRS = "raycompat", "ray"

#: A folder with a package ``ray`` that replaces itself with raycompat.
_FOR_CHILDREN = str(Path(__file__).with_name("_as_ray_path"))


def install_as_ray() -> None:
    """Make ``import ray``, ``from ray import ...`` and ``import ray.util.queue`` mean raycompat here.

    It takes effect in this process, in Python processes that it starts (with `subprocess` or
    `multiprocessing`), and in the executors of its cluster; not in other programs. To run an unchanged
    program, use ``raycompat run script.py``. Parts of Ray that raycompat lacks, such as ``ray.serve``,
    can be imported, and raise `UnsupportedRayFeatureError` when used.

    ``__version__`` is then the version of Ray whose API raycompat follows, because packages compare it;
    or that which ``raycompat run --ray`` chose.

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
    Differs from Ray: Ray does not have this function.
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
    sys.meta_path.append(_MissingFinder())
    gym_finder.install()
    old_python.install()
    vars(sys.modules[_OURS])["__version__"] = era.shown()
    _tell_children()


def take_over() -> None:
    """Replace the module ``ray``, which is being imported, by raycompat."""
    sys.modules.pop(_THEIRS, None)
    install_as_ray()
    sys.modules[_THEIRS] = sys.modules[_OURS]


def _tell_children() -> None:
    """Make ``ray`` mean raycompat in Python processes that this process starts.

    Children of `multiprocessing` get ``sys.path``; other Python processes get the environment.
    """
    if _FOR_CHILDREN not in sys.path:
        sys.path.append(_FOR_CHILDREN)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _FOR_CHILDREN not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, paths), _FOR_CHILDREN])


def is_installed() -> bool:
    """Return whether ``ray`` means raycompat in this process."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


class _Finder:
    """Finds raycompat's module for a name of Ray."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of `fullname`; None for other packages, and for missing modules."""
        top, _, below = fullname.partition(".")
        if top != _THEIRS:
            return None
        return self._of_ours(fullname, below) or (
            missing.spec(fullname) if missing.is_rays(below) else None
        )

    def _of_ours(self, fullname: str, below: str) -> ModuleSpec | None:
        ours = f"{_OURS}.{below}" if below else _OURS
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:  # its parent package is missing
            return None
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, cast("Loader", _Alias(ours)), is_package=is_package)


class _MissingFinder:
    """Finds a part of Ray that raycompat lacks for ``from ray import serve``.

    Python asks for ``raycompat.serve`` then, because ``ray`` is raycompat. It comes last, so that it
    finds nothing that exists.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the missing module, under Ray's name."""
        top, _, below = fullname.partition(".")
        if top == _OURS and "." not in below and missing.is_rays(below):
            return missing.spec(f"{_THEIRS}.{below}")
        return None


class _Alias:
    """Loads a module of raycompat under another name."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself."""
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it was, and give all loaded modules below it their second names.

        The modules in ``sys.modules`` are not bound in their parents again: a function may have that
        name now. For example, ``ray.util.placement_group`` is a function and a module.
        """
        module.__spec__ = self._spec
        for name, there in list(sys.modules.items()):
            if name.startswith(f"{self._ours}."):
                sys.modules.setdefault(_THEIRS + name.removeprefix(_OURS), there)
