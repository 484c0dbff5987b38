"""Figures on pages and in README are those that were measured, or those of the package."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import figures  # noqa: E402

from raycompat._dask import versions  # noqa: E402
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


#: What a page says, and the constant of the package that it says.
LIMITS = [
    ("docs/design", "most {:.0f} MiB of pickled code", "_executor.loaded_code._MOST_BYTES", 2**20),
    ("docs/design", "node asks the scheduler every {:.0f} s", "_node.node._TIDY_S", 1),
    ("docs/design", "the node waits {:.0f} ms for their", "_node.memory_monitor._ANSWER_S", 1e-3),
    ("docs/design", "The node gives it {:.0f} s", "_messages.executors.EXIT_WORK_S", 1),
    ("docs/design", "A lease lasts at least {:.0f} ms", "_scheduler.leases.QUANTUM_S", 1e-3),
    ("docs/design", "It sends {:.0f} KB at a time", "_node.logs._PIECE_BYTES", 2**10),
    ("docs/design", "at most {:.0f} KB that the driver", "_node.logs._WINDOW_BYTES", 2**10),
    ("docs/design", "Lines of up to {:.0f} MB", "_caller.driver_logs._LONGEST_LINE_BYTES", 2**20),
    ("docs/design", "pieces of {:.0f} MB", "_caller.packages.PIECE_BYTES", 2**20),
    ("docs/design", "chunks of {:.0f} MiB", "util.collective._shared_memory.CHUNK_BYTES", 2**20),
    ("docs/design", "{:,.0f} calls in at most", "_scheduler.history.MANY_CALLS", 1),
    ("docs/design", "in at most {:,.0f} spans", "_scheduler.history.MANY_SPANS", 1),
    ("docs/design", "whose process is stopped {:.0f} s", "_protocol.liveness._DEFAULT_S", 1),
    ("docs/design", "do not become nodes {:.0f} s", "_launch.prepare._FIRST_NODE_S", 1),
    ("docs/design", "is asked to end {:.0f} s", "_launch.process._END_S", 1),
    ("docs/design", "a process that has ended {:.0f} s", "_caller.direct_sender._DRAIN_S", 1),
    ("docs/failures", "has not answered for {:.0f} seconds", "_protocol.liveness._DEFAULT_S", 1),
    ("docs/watching", "The last {:,.0f} ended calls", "_scheduler.history.MANY_CALLS", 1),
    ("docs/watching", "at most {:,.0f} groups", "_scheduler.history.MANY_SPANS", 1),
    ("docs/watching", "at most {:,.0f} series", "_scheduler.metrics._MANY_SERIES", 1),
]


@pytest.mark.parametrize(("page", "text", "name", "unit"), LIMITS)
def test_the_limits_on_a_page_are_those_of_the_package(page, text, name, unit):
    module, _, constant = name.rpartition(".")
    value = getattr(importlib.import_module(f"raycompat.{module}"), constant) / unit
    said = " ".join((ROOT / f"{page}.rst").read_text(encoding="utf-8").split())
    assert text.format(value) in said


@pytest.mark.parametrize(
    "page",
    [
        "docs/versions.rst",
        "docs/choosing.rst",
        "docs/installation.rst",
        "README.md",
        "README.zh-CN.md",
    ],
)
def test_the_pages_name_the_oldest_and_the_newest_versions_of_the_package(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = re.findall(r"Python :: 3\.(\d+)", " ".join(project["classifiers"]))
    assert project["requires-python"] == f">=3.{min(map(int, pythons))}"
    first, last = min(map(int, pythons)), max(map(int, pythons))
    assert re.search(rf"\b3\.{first} (?:to|至) 3\.{last}\b", text, re.ASCII)
    assert versions.OLDEST.removesuffix(".0") in text
    assert page != "docs/versions.rst" or f"Dask {versions.NEWEST_TRIED}" in text
