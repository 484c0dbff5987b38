"""Classes that inherit from a class of a library which is imported only when one is made.

A program can import such a class without the library, and libraries take its instances as their own.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any, ClassVar

from raycompat._old_forms.packages import require


class Joined:
    """A class that is joined with one of a library when an instance is made.

    Subclasses say which by `_library`: modules, of which the first that is installed is taken, and the
    name of the class in it.
    """

    _library: ClassVar[tuple[tuple[str, ...], str]]
    #: The class as the program knows it, of one that is joined.
    _plain: ClassVar[type[Joined]]

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        return _blank(cls)

    def __reduce__(self) -> Any:
        return _blank, (self._plain,), self.__dict__


@functools.cache
def _joined(cls: Any) -> type[Joined]:
    modules, name = cls._library
    base = getattr(first_of(modules, cls.__name__), name)
    return type(cls.__name__, (cls, base), {"__module__": cls.__module__, "_plain": cls})


def _blank(cls: Any) -> Any:
    return object.__new__(_joined(cls))


def first_of(modules: tuple[str, ...], what: str) -> Any:
    """Import one of these modules: of the package that the program has imported, or else is installed.

    Raises
    ------
    ImportError
        Says how to install the package of the last.
    """
    for module in modules:
        if module.partition(".")[0] in sys.modules:
            return require(module, what)
    for module in modules[:-1]:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            return require(module, what)
    return require(modules[-1], what)
