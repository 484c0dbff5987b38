"""The rows of ``old/*.toml``: modules, names and options of older Rays.

A file has the rows of one library, so that a program that uses one does not wait for the others.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

#: Libraries with a file; other names are in ``core.toml``.
LIBRARIES = ("air", "data", "ml", "rllib", "train", "tune")

#: Why raycompat does without most of what is refused: rows write ``without = "machinery"``.
MACHINERY = "It is a part of Ray's own machinery, which raycompat has built in another way"


@dataclass(frozen=True)
class Row:
    """An old form of Ray.

    Parameters
    ----------
    name : str
        Its dotted name in Ray; of an option ``function(option=)``, of a method ``Class.method()``.
    last : str
        The last version of Ray that had it. Without one, Ray still has it.
    first : str
        The first version, where it is known.
    now : str
        The name of today's form, which means the same.
    here : str
        Where raycompat has it, if that is not the place of `now`. Of a member of a class: the function
        that takes the object, and of a method the arguments of the call.
    say : str
        Today's form in words, for warnings.
    without : str
        Why raycompat does without it: of a name or option that is refused. Of a module that has a
        place: why its other names are refused.
    harmless : list
        The values of a refused option that ask for nothing, beside None, False and what is empty.
    no_effect : str
        Why an option that is accepted changes nothing.
    convert : str
        The function that gives an old option its meaning of today: it takes the keywords of the call
        and the value, and changes the keywords.
    """

    name: str
    last: str = ""
    first: str = ""
    now: str = ""
    here: str = ""
    say: str = ""
    without: str = ""
    no_effect: str = ""
    convert: str = ""
    harmless: Sequence[Any] = ()

    @property
    def years(self) -> str:
        """The versions that had it, in words."""
        if not self.last:
            return f"since {self.first}" if self.first else "today"
        return f"{self.first} to {self.last}" if self.first else f"up to {self.last}"

    @property
    def today(self) -> str:
        """Today's form, in words."""
        return self.say or (f"use {self.now}" if self.now else "")

    @property
    def place(self) -> str:
        """Where raycompat has what the row names."""
        return self.here or (f"raycompat{self.now.removeprefix('ray')}" if self.now else "")


@dataclass(frozen=True)
class Rows:
    """The rows of one library."""

    modules: dict[str, Row]
    names: dict[str, Row]
    options: dict[str, dict[str, Row]]
    #: Old methods and properties, by the class of Ray and their names.
    members: dict[str, dict[str, Row]]
    #: Ways to use a name, in words: "ray.train.report in a trial".
    uses: dict[str, Row]


def library_of(name: str) -> str:
    """Return which file has a dotted name of Ray."""
    parts = name.split(" ", maxsplit=1)[0].rstrip(":").split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LIBRARIES else "core"


def file_of(library: str) -> Path:
    """Return the file with a library's rows."""
    return FOLDER / "old" / f"{library}.toml"


@functools.cache
def rows(library: str) -> Rows:
    """Read a library's rows."""
    path = file_of(library)
    read = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    of_all: dict[str, dict[str, Any]] = read.get("options", {})
    of_classes: dict[str, dict[str, Any]] = read.get("members", {})
    return Rows(
        {name: _row(name, fields) for name, fields in read.get("modules", {}).items()},
        {
            **{name: _row(name, fields) for name, fields in read.get("names", {}).items()},
            **{row.name: row for row in _machinery(read.get("machinery", []))},
        },
        {
            name: {option: _row(f"{name}({option}=)", fields) for option, fields in options.items()}
            for name, options in of_all.items()
        },
        {
            name: {
                member.removesuffix("()"): _row(f"{name}.{member}", fields)
                for member, fields in members.items()
            }
            for name, members in of_classes.items()
        },
        {words: _row(words, fields) for words, fields in read.get("uses", {}).items()},
    )


def _row(name: str, fields: dict[str, Any]) -> Row:
    row = Row(name, **fields)
    return replace(row, without=MACHINERY) if row.without == "machinery" else row


def _machinery(groups: list[dict[str, Any]]) -> Iterator[Row]:
    """Yield the rows of names that have one module, one last version and one reason."""
    for group in groups:
        fields = {key: value for key, value in group.items() if key not in ("module", "names")}
        for each in group["names"].split():
            yield Row(f"{group['module']}.{each}", **{"without": MACHINERY, **fields})


def module(name: str) -> Row | None:
    """Return the row of a module of Ray."""
    return rows(library_of(name)).modules.get(name)


def name(dotted: str) -> Row | None:
    """Return the row of a name in a module of Ray."""
    return rows(library_of(dotted)).names.get(dotted)


def option(of: str, parameter: str) -> Row | None:
    """Return the row of an old option."""
    return options(of).get(parameter)


def options(of: str) -> dict[str, Row]:
    """Return the old options of a function or class of Ray, by name."""
    return rows(library_of(of)).options.get(of, {})


def members(of: str) -> dict[str, Row]:
    """Return the old methods and properties of a class of Ray, by name."""
    return rows(library_of(of)).members.get(of, {})


def names_in(module_name: str) -> Iterator[str]:
    """Yield the old names of a module, without the module's."""
    for each in rows(library_of(f"{module_name}.x")).names:
        head, _, last = each.rpartition(".")
        if head == module_name:
            yield last


def use(words: str) -> Row | None:
    """Return the row of a way to use a name."""
    return rows(library_of(words)).uses.get(words)


def is_folder(module_name: str) -> bool:
    """Return whether a name is only known as the head of old modules' names."""
    head = f"{module_name}."
    return any(each.startswith(head) for each in rows(library_of(head)).modules)


def every() -> Iterator[Row]:
    """Yield all rows."""
    for library in ("core", *LIBRARIES):
        found = rows(library)
        yield from found.modules.values()
        yield from found.names.values()
        for each in (*found.options.values(), *found.members.values()):
            yield from each.values()
        yield from found.uses.values()


def refused(dotted: str) -> str:
    """Return why raycompat does without a name of today's Ray; an empty text for other names."""
    return _refused().get(dotted, "")


@functools.cache
def _refused() -> dict[str, str]:
    """Read the reasons once, when a program asks a module for a name that is not there."""
    names = tomllib.loads((FOLDER / "names.toml").read_text(encoding="utf-8"))
    rows = {name: row for name, row in names.items() if name != "additions"}
    return {name: row["reason"] for name, row in rows.items() if row["status"] == "refused"}


@functools.cache
def missing() -> dict[str, Any]:
    """Read ``missing.toml``."""
    return tomllib.loads((FOLDER / "missing.toml").read_text(encoding="utf-8"))
