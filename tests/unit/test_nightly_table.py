"""Each row of nightly.toml is a test that there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
ROWS = [
    (file, name)
    for file, names in tomllib.loads((TESTS / "nightly.toml").read_text()).items()
    for name in names
]


@pytest.mark.parametrize(("file", "name"), ROWS, ids=[name for _, name in ROWS])
def test_each_row_is_a_test(file, name):
    function = name.partition("[")[0]
    assert re.search(rf"^def {function}\(", (TESTS / file).read_text(), re.MULTILINE)
