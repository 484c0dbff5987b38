"""List what a release of Ray has and raycompat's table does not: modules, names, and parameters.

The release is an unpacked wheel, which is read and never imported::

    .venv/bin/python tests/compat/compare_release.py FOLDER_WITH_THE_PACKAGE_RAY [ray.tune ray.train ...]

With ``--members``, it lists the methods and fields of classes, too. Many of them are for Ray's own code, so it is
a list to choose from: rows ``[members]`` of the table serve those that programs use.

A name is known when it works under its own dotted name, or when a row gives the reason why it does not. A
parameter is known when today's function has it, or when the table has it as an old option.
"""

import argparse
import ast
import functools
import inspect
import sys
import tomllib
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from raycompat._surface import forms, modules, table
from raycompat._surface.missing import MissingName, _MissingModule

#: Folders of a release that are not for programs.
NOT_PUBLIC = ("tests", "examples", "benchmarks", "test_utils", "thirdparty_files", "core", "jars")

#: Parts of Ray that raycompat leaves out as a whole.
LEFT_OUT = (
    "ray.autoscaler",
    "ray.cloudpickle",
    "ray.dashboard",
    "ray.job_submission",
    "ray.llm",
    "ray.new_dashboard",
    "ray.pyarrow_files",
    "ray.scripts",
    "ray.serve",
    "ray.setup-dev",
    "ray.streaming",
    "ray.thirdparty_files",
    "ray.workflow",
)


class Found(NamedTuple):
    """A public name of a release; of a function or class also its parameters, of a class its members."""

    module: str
    name: str
    parameters: tuple[str, ...] | None
    #: Of a method also its parameters.
    members: dict[str, tuple[str, ...] | None] = {}


def public_modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and file of each public module."""
    for path in sorted((folder / "ray").rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        is_private = any(part.startswith("_") or part in NOT_PUBLIC for part in parts[1:])
        dotted = ".".join(parts)
        is_out = any(dotted == out or dotted.startswith(f"{out}.") for out in LEFT_OUT)
        if not is_private and not is_out and "test" not in parts[-1]:
            yield dotted, path


def public_names(dotted: str, path: Path) -> Iterator[Found]:
    """Yield what a module's ``__all__`` lists, or else what it defines."""
    tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    defined = {
        node.name: node
        for node in ast.walk(ast.Module([n for n in tree.body if not isinstance(n, ast.If)], []))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        and node in tree.body
    }
    names = listed(tree)
    if names is None:
        names = [name for name in defined if not name.startswith("_")]
        if path.name == "__init__.py":
            names += imported(tree)
    for name in dict.fromkeys(names):
        yield Found(dotted, name, parameters(defined.get(name)), members(defined.get(name)))


def listed(tree: ast.Module) -> list[str] | None:
    """Return the texts of ``__all__``; None without one."""
    found: list[str] | None = None
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
            texts = [
                each.value
                for each in ast.walk(node.value)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            found = [*(found or []), *texts]
    return found


def imported(tree: ast.Module) -> list[str]:
    """Return the names that a package takes from its own modules."""
    return [
        each.asname or each.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ray")
        for each in node.names
        if not (each.asname or each.name).startswith("_") and each.name != "*"
    ]


def parameters(node: ast.AST | None) -> tuple[str, ...] | None:
    """Return the names of the parameters of a function, or of a class's ``__init__``."""
    if isinstance(node, ast.ClassDef):
        inits = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        if not inits:
            return None
        return tuple(each for each in parameters(inits[0]) or () if each != "self")
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(each.arg for each in every if not each.arg.startswith("_"))


def members(node: ast.AST | None) -> dict[str, tuple[str, ...] | None]:
    """Return the public methods and fields of a class, of methods with their parameters."""
    found: dict[str, tuple[str, ...] | None] = {}
    for each in node.body if isinstance(node, ast.ClassDef) else []:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(made) for made in each.decorator_list)
            given = tuple(name for name in parameters(each) or () if name not in ("self", "cls"))
            found[each.name] = None if is_property else given
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = None
    return {name: given for name, given in found.items() if not name.startswith("_")}


def unknown_members(found: Found) -> list[str]:
    """Return the members, and parameters of methods, that the class of today does not have."""
    dotted = f"{found.module}.{found.name}"
    cls = forms.find("raycompat" + dotted.removeprefix("ray"))
    lines: list[str] = []
    for name, given in found.members.items() if isinstance(cls, type) else ():
        if has_member(cls, name):
            unknown = unknown_parameters(name, getattr(cls, name, None), given)
            lines += [f"{dotted}.{name}({each}=)" for each in unknown]
        else:
            lines.append(f"{dotted}.{name}")
    return lines


def has_member(cls: type, name: str) -> bool:
    """Return whether objects of a class have a member: its own, a field, or one of the table."""
    in_table = (
        name in rows
        for library in ("core", *table.LIBRARIES)
        for of, rows in table.rows(library).members.items()
        if of.endswith(f".{cls.__name__}")
    )
    return (
        hasattr(cls, name)
        or any(in_table)
        or any(name in inspect.get_annotations(base) for base in cls.__mro__)
        or name in assigned(cls)
    )


def assigned(cls: type) -> set[str]:
    """Return the attributes that the files of a class's methods set."""
    values = [value for base in cls.__mro__ for value in vars(base).values()]
    files = {
        inspect.unwrap(each).__code__.co_filename for each in values if inspect.isfunction(each)
    }
    return {name for path in files if path.endswith(".py") for name in set_in(path)}


@functools.cache
def set_in(path: str) -> frozenset[str]:
    """Return the attributes of ``self`` that a file sets."""
    return frozenset(
        node.attr
        for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def state_of(found: Found) -> tuple[str, list[str]]:
    """Return how raycompat has a name, and which parameters are not known.

    The states are "has", "reason" (a row says why not, or an error says which package to install) and
    "missing".
    """
    dotted = f"{found.module}.{found.name}"
    today = TODAY.get(dotted)
    if today is not None and today["status"] == "refused":
        return "reason", []
    try:
        value = forms.find("raycompat" + dotted.removeprefix("ray"))
    except ImportError as error:
        return ("reason" if "pip install" in str(error) else "missing"), []
    except AttributeError:
        return "missing", []
    if is_refused(value):
        return "reason", []
    return "has", unknown_parameters(dotted, value, found.parameters)


def is_refused(value: Any) -> bool:
    """Return whether a value stands for something that raycompat does without, under any name."""
    if isinstance(value, types.ModuleType):
        if not isinstance(value, modules._OldModule):
            return isinstance(value, _MissingModule)
        row = modules._row_of(modules.of_ray(value.__name__))
        return row is not None and bool(row.without) and not row.place
    return isinstance(value, MissingName) or id(value) in refused_values()


@functools.cache
def refused_values() -> dict[int, Any]:
    """Return the functions and classes of today that are refused, by their ids."""
    found = {}
    for dotted, row in TODAY.items():
        if row["status"] == "refused":
            try:
                value = forms.find("raycompat" + dotted.removeprefix("ray"))
            except (AttributeError, ImportError):
                continue
            if isinstance(value, type | types.FunctionType):
                found[id(value)] = value
    return found


def unknown_parameters(dotted: str, value: Any, given: tuple[str, ...] | None) -> list[str]:
    """Return the parameters that the function of today does not take."""
    if given is None or isinstance(value, types.ModuleType):
        return []
    try:
        today = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return []
    if any(each.kind is each.VAR_KEYWORD for each in today.values()):
        return []
    known = {
        *today,
        *old_options(getattr(value, "__name__", "")),
        *old_options(dotted.rpartition(".")[2]),
    }
    if "*" in known:  # the row says how programs get such an object
        return []
    return [each for each in given if each not in known]


def old_options(name: str) -> set[str]:
    """Return the old options in the table of a function or class of this name, in any module."""
    found: set[str] = set()
    for library in ("core", *table.LIBRARIES):
        for owner, options in table.rows(library).options.items():
            if owner.rpartition(".")[2] == name:
                found.update(options)
    return found


def compared(
    folder: Path, below: list[str], *, with_members: bool = False
) -> tuple[dict[str, int], list[str]]:
    """Compare a release; return the count of each state, and lines for what is missing."""
    counts = {"has": 0, "reason": 0, "missing": 0, "parameter": 0}
    lines: list[str] = []
    for dotted, path in public_modules(folder):
        if below and not any(dotted == each or dotted.startswith(f"{each}.") for each in below):
            continue
        for found in public_names(dotted, path):
            state, unknown = state_of(found)
            counts[state] += 1
            if state == "missing":
                lines.append(f"{dotted}.{found.name}")
            counts["parameter"] += len(unknown)
            lines += [f"{dotted}.{found.name}({each}=)" for each in unknown]
            if with_members and state == "has":
                lines += unknown_members(found)
    return counts, lines


TODAY: dict[str, Any] = {}


def read_today() -> None:
    """Read the table of the names of today."""
    names = tomllib.loads((table.FOLDER / "names.toml").read_text(encoding="utf-8"))
    TODAY.update({name: row for name, row in names.items() if name != "additions"})


def main() -> None:
    """Print what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("below", nargs="*")
    parser.add_argument("--members", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    read_today()
    counts, lines = compared(given.folder, given.below, with_members=given.members)
    print("\n".join(lines))
    print(counts, file=sys.stderr)


if __name__ == "__main__":
    main()
