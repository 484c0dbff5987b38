"""The gate that types a page as a reader does: what a page hides makes it fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_tools"))

import typed  # noqa: E402

SETUP = ("testsetup", "start = 1\n")
ADD = ("doctest", ">>> start + 1\n2\n")
BLOCK = (
    "testcode",
    "import math\n\ndef double(x):\n\n    return 2 * x\n\nprint(double(math.floor(1.5)))\nprint(3)\n",
)
OUTPUT = ("testoutput", "2\n3")


def failures(*blocks, files=()):
    tree = new_document("page")
    for kind, text in blocks:
        # Sphinx keeps what sets up as a comment, which no reader sees.
        node = nodes.comment if kind == "testsetup" else nodes.literal_block
        tree += node(text, text, testnodetype=kind)
    return list(typed.failures(typed.Page(typed.shown(tree), list(files))))


def test_what_a_page_shows_is_enough():
    assert failures(("doctest", ">>> start = 1\n"), ADD, BLOCK, OUTPUT) == []


def test_a_hidden_set_up_is_refused():
    (found,) = failures(SETUP, ADD)
    assert "NameError" in found


def test_a_file_of_the_repository_is_refused_and_a_download_is_there(tmp_path):
    example = ("doctest", ">>> open('numbers.txt').read()\n'1 2'\n")
    (found,) = failures(example)
    assert "FileNotFoundError" in found
    file = tmp_path / "numbers.txt"
    file.write_text("1 2")
    assert failures(example, files=[file]) == []


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (("doctest", ">>> 1 + 1\n3\n"), "expected '3"),
        (("doctest", ">>> x = 1 / 0\n"), "ZeroDivisionError"),
        (
            ("doctest", ">>> int('x')\nTraceback (most recent call last):\nKeyError: ...\n"),
            "KeyError",
        ),
        (("doctest", ">>> import sys; sys.exit()\n"), "has ended"),
    ],
)
def test_what_differs_is_named(block, problem):
    (found,) = failures(block)
    assert problem in found


def test_an_expected_error_passes():
    text = ">>> int('x')\nTraceback (most recent call last):\nValueError: ...\n>>> 1\n1\n"
    assert failures(("doctest", text)) == []


def test_an_example_that_waits_is_ended(monkeypatch):
    monkeypatch.setattr(typed, "LIMIT_S", 1)
    (found,) = failures(("doctest", ">>> import threading\n>>> threading.Event().wait()\nTrue\n"))
    assert "no end after 1 s" in found
