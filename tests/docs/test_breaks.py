"""Code in the text of pages breaks between the parts of names, and not within options of commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "docs" / "_ext"))

import breaks  # noqa: E402


def test_a_long_name_may_break_between_its_parts():
    html = '<code><span class="pre">ray.ObjectRefGenerator</span></code>'
    assert breaks.allow(html) == (
        '<code><span class="pre">ray.<wbr>Object<wbr>Ref<wbr>Generator</span></code>'
    )


@pytest.mark.parametrize(
    "word",
    [
        "--num-cpus",
        "-f",
        "--temporary-folder",
        "--labels=zone=a",
        "--resources=&#39;{&quot;special&quot;:",
        "&quot;.[tutorials]&quot;",
    ],
)
def test_short_words_and_options_stay_whole(word):
    html = f'<span class="pre">{word}</span>'
    assert breaks.allow(html) == f'<span class="pre whole">{word}</span>'


@pytest.mark.parametrize("word", ["a-word-of-more-than-14", f"--file={'x' * 60}"])
def test_other_words_and_long_values_are_not_held_together(word):
    assert "whole" not in breaks.allow(f'<span class="pre">{word}</span>').partition(">")[0]
