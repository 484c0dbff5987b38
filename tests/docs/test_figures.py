"""Figures in README are those that the benchmarks have measured."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import figures  # noqa: E402

from raycompat.rllib.algorithms.registry import ALGORITHMS  # noqa: E402

#: In README, a figure stands between comments, which a viewer does not show.
FIGURE = re.compile(r"<!-- (?P<name>[\w-]+) -->(?P<text>[^<]*)<!-- -->")


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_figures_of_readme_are_the_measured_ones(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    found = {match["name"]: match["text"] for match in FIGURE.finditer(text)}
    measured = figures.figures()
    assert {"batch-rate", "batch-ratio", "alone-ratio", "actor-ratio"} <= found.keys()
    assert found == {each: measured.get(each) for each in found}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.957, "0.96"), (8.24, "8.2"), (29.6, "30"), (171.3, "170"), (33_314, "33,000")],
)
def test_a_figure_has_two_digits_that_count(value, text):
    assert figures._rounded(value) == text


@pytest.mark.parametrize(
    "page", ["README.md", "README.zh-CN.md", "docs/choosing.rst", "tutorials/rl.rst"]
)
def test_the_pages_that_list_the_algorithms_name_each(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not [name for name in ALGORITHMS if not re.search(rf"\b{name}\b", text, re.ASCII)]
