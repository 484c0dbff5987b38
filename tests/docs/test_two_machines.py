"""The page about two machines shows what its commands print today, but for figures and names."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "docs" / "_tools"), str(ROOT / "tests" / "cluster")]

import _hosts  # noqa: E402
import two_machines  # noqa: E402

STATIC = ROOT / "docs" / "_static"


def test_the_page_includes_what_the_walk_prints():
    page = (ROOT / "docs" / "two_machines.rst").read_text(encoding="utf-8")
    included = re.findall(r"literalinclude:: _static/two_machines_(\w+)\.txt", page)
    assert included == list(two_machines.WALK)


@pytest.mark.hosts
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_commands_print_what_the_page_shows():
    reason = _hosts.why_not()
    if reason is not None:
        pytest.skip(reason)
    found = two_machines.walk()
    shown = {
        name: (STATIC / f"two_machines_{name}.txt").read_text(encoding="utf-8") for name in found
    }
    assert {name: _plain(text) for name, text in found.items()} == {
        name: _plain(text) for name, text in shown.items()
    }


def _plain(text: str) -> str:
    """Return a text without ids and shares of the machines, and with a mark for each figure."""
    text = re.sub(r"^ *\d+ calls on \w+\n", "", text, flags=re.MULTILINE)
    return re.sub(r" *\d+(?:\.\d+)*", " #", re.sub(r"node_[0-9a-f]+", "node_#", text))
