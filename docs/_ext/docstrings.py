"""Docstrings in the API reference: their examples are tested where they are shown."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

#: A parameter and its type, as napoleon writes them, up to the description.
_PARAMETER = re.compile(r"^(.*\*\*[^*]+\*\*(?: \(\*.*?\*\))?) -- ")


def examples_are_tests(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Have each example of a docstring be a ``doctest`` directive; one ends at an empty line."""
    result: list[str] = []
    indent = None
    for line in lines:
        if indent is None and line.lstrip().startswith(">>>"):
            indent = line[: len(line) - len(line.lstrip())]
            result += [f"{indent}.. doctest::", ""]
        if not line.strip():
            indent = None
        result.append(line if indent is None else f"   {line}")
    lines[:] = result


def dashes(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Set the dash between a parameter and its description, for which napoleon has two hyphens."""
    lines[:] = [_PARAMETER.sub(r"\1 – ", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    # After napoleon, which has its say at 500.
    app.connect("autodoc-process-docstring", examples_are_tests, priority=600)
    app.connect("autodoc-process-docstring", dashes, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
