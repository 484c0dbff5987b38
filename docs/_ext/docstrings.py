"""Docstrings in the API reference: their examples are tested where they are shown."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import generated
from docutils import nodes
from sphinx.application import Sphinx

from raycompat._surface import era

#: A parameter and its type, as napoleon writes them, up to the description.
_PARAMETER = re.compile(r"^(.*\*\*(?:\\\*|[^*])+\*\*(?: \(\*.*?\*\))?) -- ")
#: The type of a result, up to the description.
_RESULT = re.compile(r"^(\s*(?::(?:returns|Yields):)?\s*(?:\* )?\*[^*]+\*) -- ")

#: The names that are as in Ray, under their place here.
_SUPPORTED = {
    name.replace("ray", "raycompat", 1)
    for name, entry in tomllib.loads(generated.NAMES.read_text(encoding="utf-8")).items()
    if entry.get("status") == "supported"
}
#: Kinds of entries that say it.
_CALLABLE = ("class", "exception", "function", "method")
_AS_IN_RAY = f"No known difference from Ray {era.TODAY}."


def as_in_ray(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Say of a name that the table calls supported that it works as in Ray.

    Docstrings have the differences only; one that names its source in Ray says itself what differs.
    """
    if what not in _CALLABLE or _SUPPORTED.isdisjoint(_places(name, obj)):
        return
    if any("Ray source:" in line for line in lines):
        return
    if "Notes" in lines:
        first = lines.index("Notes") + 2
        lines[first:first] = [_AS_IN_RAY, ""]
    else:
        lines += ["", "Notes", "-----", _AS_IN_RAY, ""]


def _places(name: str, obj: Any) -> set[str]:
    """Return where the table may have an entry: as documented, as defined, and in the package above."""
    module, qualname = getattr(obj, "__module__", None) or "", getattr(obj, "__qualname__", "")
    return {name, f"{module}.{qualname}", f"{module.rpartition('.')[0]}.{qualname}"}


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
    # Before napoleon, which runs at 500.
    app.connect("autodoc-process-docstring", as_in_ray, priority=400)
    # After napoleon.
    app.connect("autodoc-process-docstring", examples_are_tests, priority=600)
    app.connect("autodoc-process-docstring", dashes, priority=600)
    app.connect("doctree-resolved", dash_of_errors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
