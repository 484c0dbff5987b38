"""An import hook: a function that is called with a module when the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterImport:
    """Finds one module as the finders behind it do, and calls a function after the import.

    Put it first into ``sys.meta_path``; it leaves the list at that import.
    """

    def __init__(self, name: str, then: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the finders behind this one, with a loader that calls the function."""
        if fullname != self._name:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            # The loader is given back as it was: a second import of the module only executes it.
            loader.exec_module = execute
            sys.meta_path.remove(self)
            self._then(module)

        loader.exec_module = exec_module
