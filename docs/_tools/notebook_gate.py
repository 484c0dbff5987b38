"""What the gates ask of notebooks: they are valid, and have the same code in both languages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nbformat


def problems(source: Path, translation: Path) -> Iterator[str]:
    """Yield what is wrong with the notebooks of two languages, given the languages' folders."""
    found = {
        folder: {f.relative_to(folder).as_posix(): f for f in sorted(folder.rglob("*.ipynb"))}
        for folder in (source, translation)
    }
    for name in sorted(found[source].keys() ^ found[translation].keys()):
        yield f"NOTEBOOK {name} is in one language alone"
    for name in sorted(found[source].keys() & found[translation].keys()):
        codes = []
        for folder in (source, translation):
            try:
                codes.append(_code(found[folder][name]))
            except (ValueError, SyntaxError, nbformat.ValidationError) as error:
                yield f"NOTEBOOK {folder.name}/{name}: {error}"
        if len(codes) == 2 and (codes[0] != codes[1] or not codes[0]):
            yield f"NOTEBOOK {name}: {len(codes[0])} cells of code, which differ or are none"


def _code(file: Path) -> list[str]:
    """Return a notebook's code, after a look at whether it is a valid one."""
    made = nbformat.read(file, as_version=nbformat.NO_CONVERT)
    nbformat.validate(made)
    sources = [cell.source for cell in made.cells if cell.cell_type == "code"]
    for source in sources:
        # A cell that writes a file begins with a magic command, which is not Python.
        code = source.partition("\n")[2] if source.startswith("%%writefile ") else source
        compile(code, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return sources
