"""The core says what its values are: `Any` is rare there, and `object` is what nobody looks into."""

from __future__ import annotations

import ast
from pathlib import Path

import raycompat

PACKAGE = Path(raycompat.__file__).parent
ROOMS = (
    "_caller _common _connect _dask _executor _host _job_submission _launch _local _messages _node _pickling "
    "_protocol _scheduler"
).split()

#: The most uses of `Any`, without imports, in a thousand lines of the core.
MOST = 10.0


def test_the_core_has_few_values_of_any_type():
    uses, lines = {}, 0
    for path in (file for room in ROOMS for file in (PACKAGE / room).rglob("*.py")):
        text = path.read_text()
        lines += text.count("\n")
        names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
        uses[path.relative_to(PACKAGE)] = sum(name.id == "Any" for name in names)
    most = sorted(uses, key=lambda path: -uses[path])[:5]
    per_thousand = 1000 * sum(uses.values()) / lines
    assert per_thousand <= MOST, f"{per_thousand:.1f}; the most are in {', '.join(map(str, most))}"
