"""The committed diagrams show the words of their sources, in each language."""

from __future__ import annotations

import html
import re
import sys
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "docs" / "_tools"
sys.path.append(str(TOOLS))

import diagrams  # noqa: E402

WORDS = tomllib.loads((diagrams.SOURCES / "zh_CN.toml").read_text(encoding="utf-8"))
NAMES = sorted(file.stem for file in diagrams.SOURCES.glob("*.dot"))


def words_in(text: str) -> set[str]:
    return {line for label in diagrams.LABEL.findall(text) for line in label.split("\\n")}


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("name", NAMES)
def test_the_picture_has_the_words_of_its_source(name, language):
    suffix = "" if language == "en" else f".{language}"
    picture = (diagrams.PICTURES / f"{name}{suffix}.svg").read_text(encoding="utf-8")
    shown = {html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", picture)}
    expected = words_in(diagrams.source(name, language, WORDS))
    assert {text.replace("\u00a0", " ") for text in shown} == expected


def test_every_translated_word_is_in_a_diagram():
    used = set()
    for name in NAMES:
        used |= words_in((diagrams.SOURCES / f"{name}.dot").read_text(encoding="utf-8"))
    assert set(WORDS) <= used


def test_a_label_without_a_translation_is_an_error():
    with pytest.raises(KeyError):
        diagrams.translated("no such words", WORDS)
