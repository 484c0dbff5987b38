"""Each row of slow.toml is a test that there is, in one of the two lists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
TABLE = tomllib.loads((TESTS / "slow.toml").read_text())


@pytest.mark.parametrize("file", TABLE)
def test_each_row_is_a_test(file):
    row, source = TABLE[file], (TESTS / file).read_text()
    names = [*row.get("stories", ()), *row.get("nightly", ())]
    assert len(names) == len({*names})
    for name in names:
        function = name.partition("[")[0].rpartition("::")[2]
        assert re.search(rf"^ *(async )?def {function}\(", source, re.MULTILINE), name


@pytest.mark.parametrize("file", TABLE)
def test_what_only_nightly_runs_is_told_earlier(file):
    row = TABLE[file]
    assert "nightly" not in row or bool(row.get("stories")) != ("instead" in row)
