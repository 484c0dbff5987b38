"""Modules of the past: where Ray had a module that is elsewhere today, its row makes one.

A finder at the end of ``sys.meta_path`` is asked for modules of raycompat that have no file. A module
of the past takes each name from where the rows say it is today: the same objects, never copies.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from raycompat._surface import companions, era, forms, table
from raycompat._surface.table import Row

if TYPE_CHECKING:
    from importlib.abc import Loader

_OURS, _THEIRS = "raycompat", "ray"

#: Modules that Ray itself imports with the package above them, so that they need no import.
_IMPORTED_BY_RAY = frozenset(
    {
        "ray.air.config",
        "ray.train.constants",
        "ray.tune.utils",
        "ray.util.accelerators",
        "ray.util.annotations",
    }
)

_T = TypeVar("_T")


def of_ray(name: str) -> str:
    """Return Ray's name of a module of raycompat."""
    return _THEIRS + name.removeprefix(_OURS)


def install() -> None:
    """Let this process find modules of the past."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def names_of(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module of today that had more names in older Rays.

    Parameters
    ----------
    module : str
        ``__name__`` of the module.
    """
    theirs = of_ray(module)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if not name.startswith("__"):
            row = table.name(f"{theirs}.{name}")
            if row is not None and not (row.last and era.is_past(row.last)):
                return value_of(row)
            if f"{theirs}.{name}" in _IMPORTED_BY_RAY or _is_there(f"{theirs}.{name}"):
                return importlib.import_module(f"{module}.{name}")
        is_asked = theirs != _THEIRS and not name.startswith("_")
        if is_asked and (reason := table.refused(f"{theirs}.{name}")):
            return _without(f"{theirs}.{name}", Row(name, without=reason.removesuffix(".")))
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def lacks(of: str, *names: str) -> Callable[[type[_T]], type[_T]]:
    """Give a class its attributes of today's Ray that raycompat does without: each refuses when used.

    Parameters
    ----------
    of : str
        The dotted name of the class in Ray. ``names.toml`` has the reason of each attribute.
    names : str
        The attributes. They are named here, because a ``__getattr__`` would make each attribute of the
        class slower, and reading the table takes time at the import.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        for name in names:
            setattr(cls, name, _Refused(f"{of}.{name}"))
        return cls

    return decorate


class _Refused:
    """An attribute of a class, with its reason in the table."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        reason = table.refused(self._name).removesuffix(".")
        return _without(self._name, Row(self._name, without=reason))


def _is_there(module: str) -> bool:
    """Return whether a module has a row, and the program's version of Ray still had it."""
    row = table.module(module)
    return row is not None and not (row.last and era.is_past(row.last))


def value_of(row: Row) -> Any:
    """Return what a name of the past is here; one that raycompat does without refuses when used."""
    if row.without:
        return _without(row.name, row)
    if row.last:
        forms.use(row, refusal=AttributeError)
    return forms.find(row.place)


def _without(name: str, row: Row) -> Any:
    from raycompat._surface.missing import MissingName

    return MissingName(name, row.without, row.today)


class _OldModule(ModuleType):
    """A module of an older Ray."""

    def __init__(self, name: str, row: Row | None) -> None:
        super().__init__(name, f"A module of Ray {row.years if row else ''}.".replace(" .", "."))
        self._theirs, self._row = of_ray(name), row
        self.__file__ = str(table.file_of(table.library_of(self._theirs)))

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._listed()
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        row = table.name(f"{self._theirs}.{name}")
        if row is not None:
            return value_of(row)
        if _is_there(f"{self._theirs}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        place = self._row.place if self._row else ""
        if place:
            try:
                return getattr(importlib.import_module(place), name)
            except AttributeError:
                pass
        if self._row is not None and self._row.without:
            return _without(f"{self._theirs}.{name}", self._row)
        raise AttributeError(
            f"module {self._theirs!r} has no {name!r}"
            + (f": it is {self._row.now or place} today." if self._row and place else ".")
        )

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def _listed(self) -> list[str]:
        place = self._row.place if self._row else ""
        today = importlib.import_module(place) if place else None
        return [*table.names_in(self._theirs), *getattr(today, "__all__", ())]

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._listed()})


def _row_of(module: str) -> Row | None:
    """Return a module's row; modules within one that raycompat does without have that one's."""
    row, within = table.module(module), ""
    if row is None and table.name(module) is not None:
        return None  # a name of a module, with a row of its own
    while row is None and module.count(".") > 1:
        module, _, within = module.rpartition(".")
        row = table.module(module)
        if row is not None:
            if not row.without or (row.place and _has(row.place, within)):
                return None
            return dataclasses.replace(row, now="", here="")
    return row


def _has(place: str, name: str) -> bool:
    """Return whether a module has a name, which is not one of a module then."""
    return hasattr(importlib.import_module(place), name)


def _goes_with_parent(row: Row) -> bool:
    """Return whether a module has moved with the one that it is in: one warning is enough."""
    head, _, last = row.name.rpartition(".")
    parent = table.module(head)
    return parent is not None and bool(parent.now) and row.now == f"{parent.now}.{last}"


class _Finder:
    """Finds modules that only older Rays had."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the past; None for other modules."""
        if not fullname.startswith(f"{_OURS}."):
            return None
        theirs = of_ray(fullname)
        row = _row_of(theirs)
        if row is None:
            return self._spec(fullname, None) if table.is_folder(theirs) else None
        if row.last and era.is_past(row.last):
            return None
        companion = companions.spec_of(fullname) if not row.place else None
        return companion or self._spec(fullname, row)

    def _spec(self, fullname: str, row: Row | None) -> ModuleSpec:
        return ModuleSpec(fullname, cast("Loader", _Loader(row)), is_package=True)


class _Loader:
    def __init__(self, row: Row | None) -> None:
        self._row = row

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module; its names are found at their first use."""
        return _OldModule(spec.name, self._row)

    def exec_module(self, module: ModuleType) -> None:
        """Take note of the use; what is the module of today is imported with it."""
        if self._row is None or not self._row.place:
            return
        if not _goes_with_parent(self._row):
            forms.use(dataclasses.replace(self._row, without=""), refusal=ModuleNotFoundError)
        importlib.import_module(self._row.place)
