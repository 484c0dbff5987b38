"""Entries of the reference without an example are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
sys.path.append(str(Path(__file__).parents[2] / "docs" / "_ext"))

from docutils import nodes  # noqa: E402
from docutils.utils import new_document  # noqa: E402
from exampled import entries, without_example  # noqa: E402
from sphinx import addnodes  # noqa: E402


def entry(kind, name, *content):
    signature = addnodes.desc_signature(ids=[name])
    return addnodes.desc("", signature, addnodes.desc_content("", *content), objtype=kind)


def found(*given, bases=lambda name, among: []):
    document = new_document("page")
    document.extend(given)
    return list(without_example(entries(document), bases))


def code(text):
    return nodes.literal_block("", text)


def test_an_entry_with_code_is_right():
    assert found(entry("function", "get", code(">>> get()"))) == []


def test_an_entry_without_code_is_found():
    assert found(entry("function", "get", nodes.paragraph("", "Return."))) == ["get"]


def test_the_example_of_a_method_is_not_that_of_its_class():
    method = entry("method", "Pool.map", code(">>> pool.map(abs, [1])"))
    assert found(entry("class", "Pool", method)) == ["Pool"]


def test_a_method_may_be_shown_by_its_class():
    example = code(">>> Pool().map(abs, [1])")
    assert found(entry("class", "Pool", example, entry("method", "Pool.map"))) == []


def test_a_method_may_be_shown_by_another_method_of_its_class():
    start = entry("method", "Pool.start", code(">>> pool.start(); pool.stop.remote()"))
    pool = entry("class", "Pool", code(">>> Pool()"), start, entry("method", "Pool.stop"))
    assert found(pool) == []


def test_a_method_that_no_example_of_its_class_calls_is_found():
    example = code(">>> Pool().map_all(abs, [1]), sizes.map")
    elsewhere = entry("function", "use", code(">>> Pool().map(abs, [1])"))
    pool = entry("class", "Pool", example, entry("method", "Pool.map"))
    assert found(pool, elsewhere) == ["Pool.map"]


def test_a_method_may_be_shown_by_a_base_class_that_defines_it():
    base = entry("class", "Callback", code(">>> class Own:\n...     def setup(self): ..."))
    logger = entry("class", "Logger", code(">>> Logger()"), entry("method", "Logger.setup"))
    inherits = {"Logger": ["Callback"]}
    assert found(base, logger, bases=lambda name, among: inherits.get(name, [])) == []
    assert found(base, logger) == ["Logger.setup"]
