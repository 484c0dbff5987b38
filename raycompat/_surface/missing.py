"""Ray's names that raycompat lacks: they can be imported, and raise an error when they are used.

A program works if it only imports ``ray.serve`` for a branch that never runs. A program that uses it
gets an error with the missing name and an alternative.
"""

from __future__ import annotations

import importlib
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never, cast

from raycompat._surface import era, table
from raycompat.exceptions import UnsupportedRayFeatureError

if TYPE_CHECKING:
    from importlib.abc import Loader  # the import takes 20 ms


def is_rays(below: str) -> bool:
    """Return whether Ray has a module with this dotted name, without the ``ray.``."""
    former = table.module(f"ray.{below}")
    if former is not None and former.last and era.is_past(former.last):
        return False
    missing = table.missing()
    first, _, rest = below.partition(".")
    if first == "util" and rest:
        return rest.partition(".")[0] in missing["util_modules"]
    return first in missing["modules"]


class MissingName:
    """Placeholder for a Ray function, class or module that raycompat lacks."""

    def __init__(self, name: str, reason: str = "", alternative: str = "") -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self._name, self._reason, self._alternative = name, reason, alternative

    def _refuse(self, *args: Any, **kwargs: Any) -> Never:
        parts = self._name.split(".")[1:]
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        alternatives: dict[str, str] = table.missing()["alternatives"]
        alternative = self._alternative or next(
            (alternatives[each] for each in prefixes if each in alternatives), ""
        )
        raise UnsupportedRayFeatureError(self._name, self._reason, alternative)

    __call__ = __getitem__ = __setitem__ = __delitem__ = __iter__ = _refuse
    __enter__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __fspath__ = __add__ = __radd__ = __truediv__ = __rtruediv__ = _refuse

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type[Any], ...]:
        # A program may define a class and not use it, such as a model for each of two frameworks.
        return (_stand_in(self),)

    def __or__(self, other: object) -> Any:
        return Any  # in an annotation

    __ror__ = __or__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self._name} is not in raycompat, nor is its {name}.")
        return MissingName(f"{self._name}.{name}", self._reason, self._alternative)

    def __reduce__(self) -> tuple[type[MissingName], tuple[str, str, str]]:
        # By its name: `__getattr__` needs `_name`, which an object without its state does not have.
        return MissingName, (self._name, self._reason, self._alternative)

    def __instancecheck__(self, instance: object) -> bool:
        return False  # it has no instances

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}, which raycompat does not have>"


def _stand_in(missing: MissingName) -> type[Any]:
    """Return a class to derive from, of which no object can be made."""

    def __new__(cls: type[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        missing()

    def __init_subclass__(cls: type[Any], /, **kwargs: Any) -> None:  # noqa: N807
        """Take the keywords of the class that it stands for."""

    body = {"__new__": __new__, "__init_subclass__": classmethod(__init_subclass__)}
    return type(missing.__name__, (), body)


def advice_on_command(error: BaseException) -> str:
    """Return what a program can do that lacks a command of Ray; "" for another error."""
    if not isinstance(error, FileNotFoundError) or error.filename != "serve":
        return ""
    alternative = table.missing()["alternatives"]["serve"]
    return f"The command serve is that of ray.serve, which raycompat does not have: {alternative}."


class _MissingModule(ModuleType):
    """A Ray module that raycompat lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return MissingName(f"{self.__name__}.{name}")

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


class _MissingLoader:
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _MissingModule(
            spec.name, f"{spec.name} is part of Ray that raycompat does not have."
        )

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: its names are made on request."""


def spec(fullname: str) -> ModuleSpec:
    """Return the spec of a Ray module that raycompat lacks."""
    return ModuleSpec(fullname, cast("Loader", _MissingLoader()), is_package=True)
