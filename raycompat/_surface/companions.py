"""Files beside Ray's example programs, which import them as ``ray.rllib.examples.env`` and others.

They are not part of raycompat. A program that lies among them, in a checkout or an unpacked package of
Ray, finds them there.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

_FOLDERS = {"examples", "tuned_examples"}


def spec_of(fullname: str) -> ModuleSpec | None:
    """Return the spec of a module whose file lies in the same tree as the program; None without one.

    Parameters
    ----------
    fullname : str
        Its name in raycompat.

    Notes
    -----
    A package has no folders to search: another module of it may have a place in raycompat, so the
    finder of old modules is asked for each.
    """
    parts = fullname.split(".")[1:]
    if not _FOLDERS & set(parts):
        return None
    for tree in _trees():
        folder = tree.joinpath(*parts)
        for file, locations in ((folder / "__init__.py", []), (folder.with_suffix(".py"), None)):
            if file.is_file():
                return importlib.util.spec_from_file_location(
                    fullname, file, submodule_search_locations=locations
                )
    return None


def _trees() -> list[Path]:
    """Return the folders above those of the program that are among Ray's examples."""
    found = {}
    for entry in sys.path:
        if _FOLDERS & set(Path(entry).parts):
            found.update(dict.fromkeys(Path(entry).parents))
    return list(found)
