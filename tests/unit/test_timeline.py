"""Spans of calls: short ones that follow one another are one, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raycompat._executor.timeline import REPORT_S, Timeline


def spans_of(calls):
    reported = []
    timeline = Timeline(reported.extend)
    for name, start, stop in calls:
        timeline.add(name, f"key-{start}", start, stop)
    timeline.flush()
    assert not timeline.flush()
    return reported


def test_the_first_call_is_reported_at_once_and_those_in_a_row_after_it_as_one_span():
    calls = [("A.f", 100 + i / 10_000, 100 + (i + 0.9) / 10_000) for i in range(100)]
    first, (name, key, count, start, stop, _) = spans_of(calls)
    assert first == ("A.f", "key-100.0", 1, *calls[0][1:], False)
    assert (name, key, count) == ("A.f", f"key-{calls[1][1]}", 99)
    assert (start, stop) == (calls[1][1], calls[-1][2])


def test_calls_of_other_methods_or_after_a_pause_are_spans_of_their_own():
    calls = [("A.f", 1.0, 1.01), ("A.g", 1.0101, 1.02), ("A.g", 2.0, 2.01)]
    assert [(span[0], span[2]) for span in spans_of(calls)] == [("A.f", 1), ("A.g", 1), ("A.g", 1)]


def test_calls_that_fail_are_spans_of_their_own():
    reported = []
    timeline = Timeline(reported.extend)
    for number, failed in enumerate([False, False, True, True, False]):
        timeline.add("f", f"key-{number}", 1 + number / 1e4, 1 + number / 1e4, failed=failed)
    timeline.flush()
    assert [(span[2], span[5]) for span in reported[1:]] == [(1, False), (2, True), (1, False)]


durations = st.floats(0, 0.4, allow_nan=False)


@given(st.lists(st.tuples(st.sampled_from(["A.f", "A.g"]), durations, durations), max_size=50))
def test_every_call_is_counted_once_and_lies_in_its_span(given):
    calls, now = [], 1000.0
    for name, pause, duration in given:
        calls.append((name, now + pause, now + pause + duration))
        now += pause + duration
    spans = spans_of(calls)
    assert sum(count for _, _, count, *_ in spans) == len(calls)
    for name, start, stop in calls:
        assert any(n == name and a <= start and stop <= b for n, _, _, a, b, _ in spans)
    for _, _, count, start, stop, _ in spans:
        assert count == 1 or stop - start <= REPORT_S
