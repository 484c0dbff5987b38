"""The package says what its values are: `Any` is rare there, and `object` is what nobody looks into."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

import raycompat

PACKAGE = Path(raycompat.__file__).parent
CORE = (
    "_caller _common _connect _dask _executor _host _job_submission _launch _local _messages _node _pickling "
    "_protocol _scheduler"
).split()

#: The most uses of `Any`, without imports, in a thousand lines of the core.
MOST_IN_CORE = 10.0

#: The same of a library, whose programs bring values of any types: rows, metrics, configurations.
MOST_IN_LIBRARY = 30.0


def _defined_as_any(tree: ast.Module) -> set[str]:
    """Return the names that a module defines as `Any`."""
    found = set()
    for statement in tree.body:
        match statement:
            case (
                ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
                | ast.Assign(targets=[ast.Name(name)], value=value)
            ) if ast.unparse(value).strip("'\"") == "Any":
                found.add(name)
    return found


def _uses_of_any(tree: ast.Module, defined: set[str]) -> int:
    """Return how often a module names `Any`, or a name that the package has defined as it."""
    names = {"Any", *_defined_as_any(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("raycompat."):
            names |= {each.asname or each.name for each in node.names if each.name in defined}
    return sum(
        isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    )


def _check(rooms: Iterable[str], most: float) -> None:
    texts = {file: file.read_text() for room in rooms for file in (PACKAGE / room).rglob("*.py")}
    trees = {file.relative_to(PACKAGE): ast.parse(text) for file, text in texts.items()}
    defined = set().union(*map(_defined_as_any, trees.values()))
    uses = {path: _uses_of_any(tree, defined) for path, tree in trees.items()}
    worst = sorted(uses, key=lambda path: -uses[path])[:5]
    per_thousand = 1000 * sum(uses.values()) / sum(text.count("\n") for text in texts.values())
    assert per_thousand <= most, f"{per_thousand:.1f}; the most are in {', '.join(map(str, worst))}"


def test_a_name_that_is_defined_as_any_counts_as_any():
    one = ast.parse("X: TypeAlias = Any\nY = 'Any'\nZ: TypeAlias = list[Any]\nw: Any = 3\nv: X")
    assert _defined_as_any(one) == {"X", "Y"}
    assert _uses_of_any(one, set()) == 4  # a text is not a use
    other = ast.parse("from raycompat._one import X as U\nfrom abc import Y\na: U\nb: Y")
    assert _uses_of_any(other, {"X", "Y"}) == 1


def test_the_core_has_few_values_of_any_type():
    _check(CORE, MOST_IN_CORE)


@pytest.mark.parametrize("room", ["data", "rllib", "train", "tune"])
def test_a_library_has_few_values_of_any_type(room):
    _check([room], MOST_IN_LIBRARY)
