"""Docstrings in the API reference: their examples are tested where they are shown."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

#: A parameter and its type, as napoleon writes them, up to the description.
_PARAMETER = re.compile(r"^(.*\*\*(?:\\\*|[^*])+\*\*(?: \(\*.*?\*\))?) -- ")
#: The type of a result, up to the description.
_RESULT = re.compile(r"^(\s*(?::(?:returns|Yields):)?\s*(?:\* )?\*[^*]+\*) -- ")


def examples_are_tests(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make each example of a docstring a ``doctest`` directive; it ends at an empty line."""
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
    """Set the dash before the description of a parameter or result; napoleon has two hyphens."""
    lines[:] = [_RESULT.sub(r"\1 – ", _PARAMETER.sub(r"\1 – ", line)) for line in lines]


def dash_of_errors(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Set the dash before the description of an error, where Sphinx has two hyphens."""
    if app.builder.format == "html":
        for text in list(doctree.findall(nodes.Text)):
            if text == " -- " and isinstance(text.parent, nodes.paragraph):
                text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    # After napoleon, which runs at 500.
    app.connect("autodoc-process-docstring", examples_are_tests, priority=600)
    app.connect("autodoc-process-docstring", dashes, priority=600)
    app.connect("doctree-resolved", dash_of_errors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
