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
    "option", ["--num-cpus", "-f", "--labels=zone=a", "--resources=&#39;{&quot;special&quot;:"]
)
def test_an_option_stays_whole_with_the_beginning_of_its_value(option):
    html = f'<span class="pre">{option}</span>'
    assert breaks.allow(html).startswith('<span class="pre option">')


@pytest.mark.parametrize("word", ["a-b", f"--file={'x' * 60}"])
def test_other_words_and_long_values_are_not_held_together(word):
    assert "option" not in breaks.allow(f'<span class="pre">{word}</span>').partition(">")[0]
