"""Code of notebooks' cells, so that tracebacks of other processes name the cell and show its line.

IPython gives the code of a cell the name of a file that only its kernel knows. So such code travels
with the name that IPython shows for the cell, and with the cell's source.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import CodeType
from typing import NamedTuple


class Cell(NamedTuple):
    """A cell that was executed."""

    name: str
    source: str


#: The sources of cells whose code was pickled, by their files: one copy serves all code of a pickle.
#: The names are not kept: a cell that is executed again has the same file and another name.
_sources: dict[str, str] = {}


def cell_of(filename: str) -> Cell | None:
    """Return the cell of this process whose code has the name of this file; None if there is none."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    shell = ipython.get_ipython()
    shown = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)
    if (words := shown(filename)) is None:
        return None
    if filename not in _sources:
        _sources[filename] = "".join(linecache.getlines(filename))
    return Cell(" ".join(words), _sources[filename])


def made(
    cell: tuple[str, str], make: Callable[..., CodeType], arguments: tuple[object, ...]
) -> object:
    """Return code of a cell, and let tracebacks find the cell's lines."""
    name, source = cell
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return make(*arguments)
