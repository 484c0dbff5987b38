"""Folding of lines that several processes print alike."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from raycompat._caller import log_folding
from raycompat._caller.log_folding import Folded, Folding

WINDOW_S = 5.0

lines = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["a", "a 1", "a 2", "b c", "7", "", "b 0x1f c"])),
    max_size=40,
)


def test_the_first_is_shown_and_the_others_are_counted():
    folding = Folding[str](WINDOW_S)
    assert folding.fold("one", ["step 1 done"], 0.0) == ["step 1 done"]
    assert folding.fold("two", ["step 2 done"], 1.0) == []
    assert folding.fold("three", ["step 3 done"], 2.0) == []
    assert folding.due(4.9) == []
    assert folding.due(5.0) == [Folded("three", "step 3 done", 2)]
    assert folding.fold("one", ["step 4 done"], 6.0) == []  # it goes on
    assert folding.due(10.0) == [Folded("one", "step 4 done", 1)]
    assert folding.fold("two", ["step 5 done"], 10.1) == ["step 5 done"]  # one was not worth it


def test_what_one_process_prints_is_never_folded():
    folding = Folding[str](WINDOW_S)
    assert folding.fold("one", ["same"] * 3, 0.0) == ["same"] * 3
    assert folding.flush() == []


def test_one_process_under_several_names_is_one():
    folding = Folding[str](WINDOW_S)
    assert folding.fold("f", ["same"], 0.0, process=7) == ["same"]
    assert folding.fold("g", ["same"], 0.0, process=7) == ["same"]
    assert folding.fold("g", ["same"], 0.0, process=8) == []


def test_numbers_alone_are_all_that_there_is_to_see():
    folding = Folding[str](WINDOW_S)
    assert folding.fold("one", ["12 0x3f"], 0.0) == ["12 0x3f"]
    assert folding.fold("two", ["12 0x3f"], 0.0) == ["12 0x3f"]


def test_lines_that_are_allowed_come_before_those_that_are_skipped():
    folding = Folding[str](WINDOW_S, re.compile("keep"), re.compile("keep|drop"))
    assert folding.fold("one", ["keep", "drop", "other"], 0.0) == ["keep", "other"]
    assert folding.fold("two", ["keep", "drop"], 0.0) == ["keep"]


def test_very_long_lines_are_not_looked_at():
    line = "x" * (log_folding._LONG_LINE + 1)
    folding = Folding[str](WINDOW_S)
    assert folding.fold("one", [line], 0.0) == folding.fold("two", [line], 0.0) == [line]


def test_what_is_remembered_is_limited(monkeypatch):
    monkeypatch.setattr(log_folding, "_MANY_LINES", 3)
    folding = Folding[str](WINDOW_S)
    folding.fold("one", ["a"], 0.0)
    folding.fold("two", ["a", "b", "c", "d", "e"], 0.0)
    assert len(folding._alike) == 3
    assert folding.next_due() == 0.0
    assert folding.due(0.0) == [Folded("two", "a", 1)]  # crowded out, and not lost


@given(lines, st.lists(st.floats(0, 3), max_size=40))
def test_each_line_is_shown_or_counted(printed, pauses):
    folding, now, seen = Folding[int](WINDOW_S), 0.0, 0
    for index, (source, line) in enumerate(printed):
        now += pauses[index] if index < len(pauses) else 0.0
        seen += len(folding.fold(source, [line], now))
        seen += sum(folded.count for folded in folding.due(now))
    seen += sum(folded.count for folded in folding.flush())
    assert seen == len(printed)
    assert folding.next_due() is None


@given(lines)
def test_one_source_alone_shows_everything(printed):
    folding = Folding[int](WINDOW_S)
    texts = [line for _, line in printed]
    assert folding.fold(0, texts, 0.0) == texts


@given(lines)
def test_of_lines_alike_at_least_one_is_shown_at_once(printed):
    folding, shown = Folding[int](WINDOW_S), Counter()
    for source, line in printed:
        shown.update(folding.fold(source, [line], 0.0))
    words = {" ".join(w for w in line.split() if not re.search(r"\d", w)) for _, line in printed}
    for key in words:
        assert any(
            " ".join(w for w in line.split() if not re.search(r"\d", w)) == key for line in shown
        )
