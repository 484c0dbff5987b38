"""The Chinese charts have the lines and numbers of the English ones, and Chinese words."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "docs" / "_tools"
sys.path.append(str(TOOLS))

import charts  # noqa: E402

WORDS = tomllib.loads(charts.WORDS.read_text(encoding="utf-8"))


def picture(name):
    return (charts.PICTURES / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", charts.NAMES)
def test_the_chinese_chart_is_that_of_the_same_figures(name):
    assert picture(f"{name}.zh_CN") == charts.translated(picture(name), WORDS)


def test_every_translated_word_is_in_a_chart():
    used = {text for name in charts.NAMES for text in charts.TEXT.findall(picture(name))}
    assert set(WORDS) <= used


def test_no_chart_of_figures_is_english_alone():
    pages = [*(charts.DOCS).glob("*.rst"), *(charts.DOCS.parent / "tutorials").glob("*.rst")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"figure:: .*_static/(\w+)\.svg", page.read_text(encoding="utf-8"))
    }
    assert {name for name in shown if not (charts.PICTURES / f"{name}.zh_CN.svg").exists()} == set()


def test_a_word_without_a_translation_is_an_error():
    with pytest.raises(KeyError, match="slower"):
        charts.translated("<text>slower</text>", WORDS)
