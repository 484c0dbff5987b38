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


def _check(rooms: Iterable[str], most: float) -> None:
    uses, lines = {}, 0
    for path in (file for room in rooms for file in (PACKAGE / room).rglob("*.py")):
        text = path.read_text()
        lines += text.count("\n")
        names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
        uses[path.relative_to(PACKAGE)] = sum(name.id == "Any" for name in names)
    worst = sorted(uses, key=lambda path: -uses[path])[:5]
    per_thousand = 1000 * sum(uses.values()) / lines
    assert per_thousand <= most, f"{per_thousand:.1f}; the most are in {', '.join(map(str, worst))}"


def test_the_core_has_few_values_of_any_type():
    _check(CORE, MOST_IN_CORE)


@pytest.mark.parametrize("room", ["data", "rllib", "train", "tune"])
def test_a_library_has_few_values_of_any_type(room):
    _check([room], MOST_IN_LIBRARY)
