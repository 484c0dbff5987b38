"""Say which parameters of Ray's names their docstrings do not describe.

A parameter is described under "Parameters" (of a class also under "Attributes"), or by a sentence with
its name in backquotes: "Return the first `limit` rows." A docstring may leave the rest to another one:
"Parameters as in `run`." What begins with an underscore is private.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from numpydoc.docscrape import NumpyDocString

sys.path.insert(0, str(Path(__file__).parents[1] / "_ext"))

from complete import NAMES, find

from raycompat._protocol.id_types import Id

_SECTIONS = ("Parameters", "Other Parameters", "Attributes")
_IN_A_SENTENCE = re.compile(r"(?<!`)`\**(\w+)`(?!`)")
_DESCRIBED_BY_ANOTHER = re.compile(r"(?:[Aa]s in|[Tt]hose of|[Ss]ee)\s+`~?([\w.]+)`")
_OPTIONS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
#: Classes that programs do not call: they are raised, given a value, or returned by a function.
_NOT_CALLED = (BaseException, Id, enum.Enum, str)
_RETURNED = [
    "ActorClass",
    "ActorHandle",
    "ActorMethod",
    "Dataset",
    "DriverInfo",
    "DynamicObjectRefGenerator",
    "GroupedData",
    "JobDetails",
    "JobInfo",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroup",
    "RemoteFunction",
    "Result",
    "TrainContext",
    "TuneContext",
    "ValidationFn",
]


def public() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the classes, functions and methods that are as in Ray, under one name each."""
    seen: dict[int, object] = {}
    for name, entry in tomllib.loads(NAMES.read_text(encoding="utf-8")).items():
        place = name.replace("ray", "raycompat", 1)
        found = find(place) if entry.get("status") in ("supported", "partial") else None
        code = getattr(found, "__func__", found)
        is_class = inspect.isclass(code) and not issubclass(code, _NOT_CALLED)
        is_called = is_class and code.__name__ not in _RETURNED
        if id(code) not in seen and (is_called or inspect.isfunction(code)):
            seen[id(code)] = code
            yield place, code


def described(code: Callable[..., object], place: str, *, follow: bool = True) -> set[str]:
    """Return the names of the parameters that a docstring, or one that it refers to, describes."""
    text = inspect.getdoc(code) or ""
    sections = NumpyDocString(text)
    listed = (entry.name for section in _SECTIONS for entry in sections[section])
    names = {name.strip().lstrip("\\*") for line in listed for name in line.split(",")}
    for other in _DESCRIBED_BY_ANOTHER.findall(text) if follow else ():
        # A method of the same class, a name where Ray has this one, of its module, or a full one.
        owner, module = place.rpartition(".")[0], code.__module__
        places = (f"{owner}.{other}", f"{module}.{other}", other)
        known = next(filter(None, map(find, places)), None)
        if known is not None:
            names |= described(known, place, follow=False)
    return names | set(_IN_A_SENTENCE.findall(text))


def undescribed(code: Callable[..., object], place: str) -> list[str]:
    """Return the parameters that no docstring describes."""
    taken = [
        each
        for each in inspect.signature(code).parameters.values()
        if each.name not in ("self", "cls")
    ]
    names = described(code, place)
    # Options are described by their names.
    others = names - {each.name for each in taken}
    return [
        each.name
        for each in taken
        if not each.name.startswith("_")
        and each.name not in names
        and not (each.kind in _OPTIONS and others)
    ]


def main() -> int:
    """Print what is missing; return the exit status."""
    missing = {place: names for place, code in public() if (names := undescribed(code, place))}
    for place, names in missing.items():
        print(f"{place}: the docstring does not describe {', '.join(names)}")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
