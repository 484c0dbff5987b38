"""The pictures of the guide to watching can be taken: of a slow program and of a mended one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_tools"))
import chromium
import watching_pictures as pictures

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(chromium.find() is None, reason="there is no Chromium"),
]


def test_the_pictures_of_the_guide_are_of_a_slow_program_and_a_mended_one(tmp_path, no_cluster):
    pictures.take_all(tmp_path)
    for name in ("watching_experiments.png", "watching_slow.png", "watching_mended.png"):
        assert (tmp_path / name).stat().st_size > 10_000
