"""Run a module of this raycompat as a program: ``python run_module.py MODULE ARGUMENTS``.

``python -m MODULE`` looks in the current folder first, and would run another raycompat that lies there.
Everything else is imported as with ``-m``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import runpy
import sys
from pathlib import Path


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this raycompat in a new process."""
    return [sys.executable, __file__, module, *arguments]


def _look_in_the_current_folder() -> None:
    """Import from the current folder first, as ``-m`` does, and not from this file's."""
    if sys.flags.safe_path:
        return
    del sys.path[0]
    with contextlib.suppress(FileNotFoundError):  # it was removed
        sys.path.insert(0, os.getcwd())


def _import_this_package() -> None:
    folder = Path(__file__).parents[1]
    spec = importlib.util.spec_from_file_location(
        folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    _look_in_the_current_folder()
    _import_this_package()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
