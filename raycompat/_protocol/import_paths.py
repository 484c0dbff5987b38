"""The folders from which a program imports, and its modules that hide others of the same name.

A process of the cluster imports what it needs before it looks into these folders (`run_module`). An
executor looks there first, as its driver does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from raycompat._protocol.run_module import is_standard

#: Endings of files that are modules.
_ENDINGS = (".py", ".so", ".pyc")


def current_folder() -> str | None:
    """Return the current folder; None if it was removed, or may not be looked for."""
    try:
        return os.getcwd()
    except OSError:
        return None


def of_this_process() -> list[str]:
    """Return the ``sys.path`` with which another process imports what this one can import."""
    here = current_folder()
    paths = [absolute(path, here) for path in sys.path]
    return [path for path in paths if path is not None and os.path.exists(path)]


def absolute(path: str, here: str | None) -> str | None:
    """Return an absolute path for one that begins in `here`; None if there is no such folder."""
    if os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(here, path)) if here is not None else None


def modules_that_hide_others() -> list[str]:
    """Return the names of this program's modules that executors must import, and not what they hide.

    An executor has imported some of the hidden ones already. A hidden one that this process has
    imported first, as most programs have ``types``, stays visible here, and is not returned. Packages
    that both have imported are not returned either: they are those of raycompat.
    """
    own, standard = own_folders(), sys.stdlib_module_names
    return [
        name
        for name in _hidden_names()
        if name not in sys.modules or (name in standard and _file_in(own, name) is not None)
    ]


def _hidden_names() -> list[str]:
    """Return the names of modules in this program's folders that standard or later ones have too.

    Packages may be in a folder of PYTHONPATH, which is one of the program's.
    """
    own = own_folders()
    others = [folder for folder in of_this_process() if folder not in own]
    hidden: set[str] = set()
    later = sys.stdlib_module_names | _names_in(others)
    for folder in reversed(own):
        names = _names_in([folder])
        hidden |= names & later
        later |= names
    return sorted(hidden)


def own_folders() -> list[str]:
    """Return the folders that come before the standard library: the program's, and PYTHONPATH's."""
    folders = of_this_process()
    first = next((at for at, path in enumerate(folders) if is_standard(path)), len(folders))
    return list(dict.fromkeys(folders[:first]))


def _file_in(folders: Iterable[str], name: str) -> str | None:
    """Return the file of an imported module if it is in one of these folders."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if isinstance(file, str) and any(file.startswith(f"{folder}{os.sep}") for folder in folders):
        return file
    return None


def _names_in(folders: Iterable[str]) -> set[str]:
    """Return the names of the modules and packages in folders."""
    found = set()
    for folder in folders:
        try:
            entries = [entry for entry in os.listdir(folder) if entry != "__pycache__"]
        except NotADirectoryError:
            found |= _names_in_archive(folder)
            continue
        except OSError:  # this user may not read it
            continue
        for entry in entries:
            name, dot, _ = entry.partition(".")
            if name.isidentifier() and (not dot or entry.endswith(_ENDINGS)):
                found.add(name)
    return found


def _names_in_archive(path: str) -> set[str]:
    import pkgutil  # which most programs do not need

    return {module.name for module in pkgutil.iter_modules([path])}


def forget_hidden(names: Iterable[str]) -> None:
    """Let the next import of these names find the program's modules, and not imported ones."""
    own = own_folders()
    for name in names:
        if _file_in(own, name) is None:
            for loaded in [each for each in sys.modules if each.partition(".")[0] == name]:
                del sys.modules[loaded]


def files_that_hide_others() -> list[str]:
    """Return the files of this program that were imported in place of standard or installed modules."""
    own = own_folders()
    files = (_file_in(own, name) for name in _hidden_names())
    return [file for file in files if file is not None]


class NamingHidden:
    """A context in which an error names the program's files that may be its cause.

    It is written without ``contextlib``, which may be hidden itself.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ImportError | AttributeError) and not hasattr(error, "__notes__"):
            for file in files_that_hide_others():
                error.add_note(
                    f"{file} was imported in place of the module that raycompat or one of its "
                    "libraries needs, because it has the same name and comes first in sys.path. Rename "
                    "this file."
                )
