"""Run a module of this raycompat as a program: ``python run_module.py MODULE ARGUMENTS``.

A user's file can have the name of a module of the standard library or of an installed package, and lie
in the current folder, as ``code.py``. Python would import it in place of the other one. So programs of
raycompat do not import from the current folder (``-P``, which ``-m`` without it would do first), and
import the standard library before the folders of ``PYTHONPATH``. Packages in those folders, such as
another Dask, still come before installed ones.
"""

from __future__ import annotations

import sys


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this raycompat in a new process.

    The new interpreter imports from where this one does, and compiles as it does.
    """
    flags = sys.flags
    options = ["-P", *["-E"] * flags.ignore_environment, *["-s"] * flags.no_user_site]
    return [sys.executable, *options, *["-O"] * flags.optimize, __file__, module, *arguments]


def is_standard(folder: str) -> bool:
    """Return whether an entry of ``sys.path`` belongs to the standard library."""
    import os.path

    version = "".join(map(str, sys.version_info[:2]))
    library = os.path.dirname(os.__file__)
    return folder == library or os.path.basename(folder) in ("lib-dynload", f"python{version}.zip")


def _import_this_package() -> None:
    import importlib.util
    import os.path

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location(
        os.path.basename(folder),
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    sys.path.sort(key=lambda folder: not is_standard(folder))  # the others keep their order
    _import_this_package()
    import runpy

    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
