"""The gate that runs notebooks: what a notebook lacks makes it fail."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from docutils import nodes
from docutils.utils import new_document
from nbformat import v4
from sphinx import addnodes

DOCS = Path(__file__).parents[2] / "docs"
sys.path += [str(DOCS / "_tools"), str(DOCS / "_ext")]

notebooks = pytest.importorskip("notebooks", reason="needs Sphinx and nbformat")
run_notebooks = pytest.importorskip("run_notebooks", reason="needs a kernel of notebooks")

PROGRAM = "print('of the program')\n"
RUNS_PROGRAM = ">>> import runpy\n>>> _ = runpy.run_path('program.py')\nof the program\n"
MEANT = ">>> start = 1\n>>> start / 0\nTraceback (most recent call last):\nZeroDivisionError: ...\n"
COROUTINE = (
    ">>> import asyncio\n>>> async def two():\n...     return 2\n>>> asyncio.run(two())\n2\n"
)


def notebook(folder, *examples, has_program=True):
    """Return the notebook of a page that offers a program."""
    (folder / "program.py").write_text(PROGRAM)
    tree = new_document(str(folder / "page.rst"))
    if has_program:
        tree += nodes.paragraph("", "", addnodes.download_reference(reftarget="program.py"))
    for text in examples:
        tree += nodes.literal_block(text, text, testnodetype="doctest")
    return notebooks.notebook(tree, folder, "en")


def failures(folder, made):
    file = folder / "page.ipynb"
    nbformat.write(made, file)
    return list(run_notebooks.failures(file))


def test_a_notebook_runs_alone_and_without_what_it_writes_it_does_not(tmp_path):
    whole = notebook(tmp_path, RUNS_PROGRAM, MEANT, COROUTINE, ">>> start\n1\n")
    assert failures(tmp_path, whole) == []
    spoiled = notebook(tmp_path, RUNS_PROGRAM, MEANT, has_program=False)
    spoiled.cells.append(v4.new_code_cell("start", metadata={"tags": ["raises-exception"]}))
    for cell in spoiled.cells[:-1]:
        cell.metadata.pop("tags", None)
    missing, not_meant, not_raised = failures(tmp_path, spoiled)
    assert "FileNotFoundError" in missing
    assert "ZeroDivisionError" in not_meant
    assert "no error" in not_raised
