"""The gate that types a page in the installation that the page describes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_tools"))

import installed  # noqa: E402


def page(*content):
    tree = new_document("page")
    tree.extend(content)
    return tree


@pytest.mark.parametrize(
    ("said", "needed"),
    [
        ('pip install ".[tutorials]"', [".[tutorials]"]),
        ("pip install\nscipy scikit-learn", [".", "scipy", "scikit-learn"]),
        ('pip install ".[torch,data]" scikit-learn', [".[torch,data]", "scikit-learn"]),
        ("pip list", ["."]),
    ],
)
def test_a_line_in_a_sentence_is_what_the_page_needs(said, needed):
    assert installed.requirements("docs/x", page(nodes.literal(said, said))) == needed


def test_each_line_of_a_console_counts_without_its_remark():
    text = "$ pip install .  # from the folder\n$ pip install gymnasium\n"
    block = nodes.literal_block(text, text, language="console")
    assert installed.requirements("docs/x", page(block)) == [".", "gymnasium"]


def test_a_package_that_the_line_lacks_makes_the_page_fail(monkeypatch):
    made = []

    def make(folder, needed):
        # Python as it comes, without any package.
        made.append(needed)
        installed.venv.create(folder)
        return str(folder / "bin" / "python")

    monkeypatch.setattr(installed, "make", make)

    def example(text):
        return page(nodes.literal_block(text, text, testnodetype="doctest"))

    pages = {
        "docs/right": example(">>> import math\n"),
        "docs/wrong": example(">>> import numpy\n"),
    }
    (found,) = installed.failures(pages)
    assert found.startswith("docs/wrong: 'import numpy'")
    assert "ModuleNotFoundError" in found
    assert made == [["."]]
