"""The errors of programs from old guides are on the page word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.rst").read_text(encoding="utf-8")
TABLE = PAGE.partition(".. _troubleshooting-old-guides:")[2].partition("\nIt raises")[0]


def raised(code: str, name: str) -> str:
    with pytest.raises((AttributeError, ImportError, RuntimeError)) as caught:
        exec(code, {name: pytest.importorskip("tensorflow")})
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    "code",
    [
        "tensorflow.placeholder",
        "tensorflow.set_random_seed",
        "tensorflow.contrib",
        "tensorflow.compat.v1.placeholder(tensorflow.float32)",
        "from tensorflow.examples.tutorials.mnist import input_data",
    ],
)
def test_errors_of_tensorflow_are_word_for_word(code):
    assert f"``{raised(code, 'tensorflow')}``" in TABLE


def test_names_that_the_table_lists_are_missing():
    tensorflow = pytest.importorskip("tensorflow")
    names = re.findall(r"``'(\w+)'``", TABLE)
    assert len(names) == 3
    assert not [name for name in names if hasattr(tensorflow, name)]
    assert all(hasattr(tensorflow.compat.v1, name) for name in names)
