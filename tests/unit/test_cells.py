"""Names and sources of the code of notebooks' cells."""

from types import SimpleNamespace

import IPython
import pytest
from ipykernel.compiler import XCachingCompiler

from raycompat._pickling import cells

SOURCE = "def divide(number):\n    return 10 / number\n"


@pytest.fixture
def compiler(monkeypatch):
    """Return the compiler of a kernel that runs in this process."""
    made = XCachingCompiler()
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(compile=made))
    return made


def test_a_cell_that_is_executed_again_has_its_new_name(compiler):
    file = compiler.cache(SOURCE, 1)
    first = cells.cell_of(file)
    assert compiler.cache(SOURCE, 7) == file
    again = cells.cell_of(file)
    assert (first.name, again.name) == ("Cell In[1]", "Cell In[7]")
    assert first.source == SOURCE
    assert again.source is first.source


def test_other_files_are_no_cells(compiler):
    assert cells.cell_of(__file__) is None
