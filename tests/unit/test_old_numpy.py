"""Names that NumPy has removed, in processes in which ``import ray`` means raycompat."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEFORE = "import numpy; import raycompat; raycompat.install_as_ray();"
AFTER = "import raycompat; raycompat.install_as_ray(); import numpy;"
NAMES = """
assert numpy.float is float and numpy.object is object
assert numpy.product([2, 3]) == 6 and numpy.cumproduct([2, 3])[-1] == 6
assert numpy.alltrue([1, 1]) and numpy.sometrue([0, 1]) and numpy.NINF == -numpy.Inf
assert numpy.asfarray([1, 2]).dtype == numpy.asfarray(numpy.float32([1])).dtype == float
assert numpy.asfarray([1.5, 2.5], dtype=int).tolist() == [1.5, 2.5]
assert numpy.asfarray([1], dtype=numpy.float32).dtype == numpy.float32
assert numpy.asfarray([1], dtype=complex).dtype == numpy.asfarray([1], dtype="complex").dtype == complex
assert numpy.in1d([[1, 2], [3, 4]], [2, 3]).tolist() == [False, True, True, False]
assert numpy.in1d([[1], [2]], [2], invert=True).tolist() == [True, False]
assert numpy.trapz([1, 1]) == 1 and numpy.row_stack([[1], [2]]).shape == (2, 1)
assert type(numpy.__spec__.loader) is type(numpy.linalg.__spec__.loader)
assert numpy.__spec__.loader.exec_module.__self__ is numpy.__loader__
assert not hasattr(numpy, "never_was")
print("done")
"""


def run(program: str, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={"RAYCOMPAT_RAY_VERSION": version},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("first", [BEFORE, AFTER], ids=["numpy first", "raycompat first"])
def test_programs_of_their_time_have_them(first):
    found = run(first + NAMES, "1.12")
    assert found.stdout == "done\n", found.stderr


def test_the_chosen_version_may_be_too_late():
    found = run(AFTER + "numpy.product", "2.60")
    assert "AttributeError: a name that NumPy has removed" in found.stderr
    assert "Ray 2.60.0 was chosen" in found.stderr
