"""Entries of the reference without an example are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
sys.path.append(str(Path(__file__).parents[2] / "docs" / "_ext"))

from docutils import nodes  # noqa: E402
from docutils.utils import new_document  # noqa: E402
from exampled import without_example  # noqa: E402
from sphinx import addnodes  # noqa: E402


def entry(kind, name, *content):
    signature = addnodes.desc_signature(ids=[name])
    return addnodes.desc("", signature, addnodes.desc_content("", *content), objtype=kind)


def found(*entries):
    document = new_document("page")
    document.extend(entries)
    return list(without_example(document))


def test_an_entry_with_code_is_right():
    assert found(entry("function", "get", nodes.literal_block("", ">>> get()"))) == []


def test_an_entry_without_code_is_found():
    assert found(entry("function", "get", nodes.paragraph("", "Return."))) == ["get"]


def test_the_example_of_a_method_is_not_that_of_its_class():
    method = entry("method", "Pool.map", nodes.literal_block("", ">>> pool.map(abs, [1])"))
    assert found(entry("class", "Pool", method)) == ["Pool"]


def test_a_method_may_be_shown_by_its_class():
    example = nodes.literal_block("", ">>> Pool().map(abs, [1])")
    assert found(entry("class", "Pool", example, entry("method", "Pool.map"))) == []
