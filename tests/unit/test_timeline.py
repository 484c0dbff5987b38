"""Spans of calls: short ones that follow one another are one, and nothing is lost."""

from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from raycompat._executor.timeline import REPORT_S, Timeline
from raycompat._protocol import ids
from raycompat._protocol.spans import Failure, Span, pack, unpack

WRONG = Failure("TASK_EXECUTION_EXCEPTION", "ValueError: wrong")


def spans_of(calls):
    """Return the spans of calls (name, start, stop), and the task ids that these were given."""
    reported, tasks = [], []
    timeline = Timeline(reported.extend)
    for name, start, stop in calls:
        tasks.append(ids.new_task_id())
        timeline.add(name, ids.call_key(name, tasks[-1]), start, stop)
    timeline.flush()
    assert not timeline.flush()
    return reported, tasks


def test_the_first_call_is_reported_at_once_and_those_in_a_row_after_it_as_one_span():
    calls = [("A.f", 100 + i / 10_000, 100 + (i + 0.9) / 10_000) for i in range(100)]
    (first, others), tasks = spans_of(calls)
    assert first[:6] == ("A.f", f"A.f-{tasks[0]}", 1, *calls[0][1:], None)
    assert (others.name, others.key, others.num_calls) == ("A.f", f"A.f-{tasks[1]}", 99)
    assert (others.start, others.stop) == (calls[1][1], calls[-1][2])


def test_calls_of_other_methods_or_after_a_pause_are_spans_of_their_own():
    calls = [("A.f", 1.0, 1.01), ("A.g", 1.0101, 1.02), ("A.g", 2.0, 2.01)]
    spans, _ = spans_of(calls)
    assert [(span.name, span.num_calls) for span in spans] == [("A.f", 1), ("A.g", 1), ("A.g", 1)]


def test_calls_that_fail_for_different_reasons_are_spans_of_their_own():
    other = Failure(WRONG.type, "KeyError: 1")
    reported = []
    timeline = Timeline(reported.extend)
    for number, failure in enumerate([None, None, WRONG, WRONG, other, None]):
        begun = 1 + number / 1e4
        timeline.add("f", ids.call_key("f", ids.new_task_id()), begun, begun, failure)
    timeline.flush()
    assert [(span.num_calls, span.failure) for span in reported] == [
        (1, None),
        (1, None),
        (2, WRONG),
        (1, other),
        (1, None),
    ]


def test_a_span_has_the_phases_of_its_calls_together():
    reported = []
    timeline = Timeline(reported.extend)
    timeline.add("f", ids.call_key("f", ids.new_task_id()), 1.0, 2.0, None, (1.25, 1.75))
    for begun in (8.0, 8.5):
        timeline.add("g", ids.call_key("g", ids.new_task_id()), begun, begun + 0.5, None, (0, 0))
    late = (12.5, 11.5)  # on another clock
    timeline.add("h", ids.call_key("h", ids.new_task_id()), 11.0, 12.0, None, late)
    timeline.flush()
    assert [tuple(span.phases) for span in reported] == [
        (0.25, 0.5, 0.25),
        (0.5, 0, 0),
        (0.5, 0, 0),
        (1.0, 0, 0),
    ]
    wire = msgpack.unpackb(msgpack.packb(reported[0].to_wire()))
    assert Span.from_wire(wire) == reported[0]


def test_what_is_said_of_a_failure_is_cut():
    reported = []
    timeline = Timeline(reported.extend)
    timeline.add("f", ids.call_key("f", ids.new_task_id()), 1, 2, Failure("T", "x" * 10_000))
    assert len(reported[0].failure.text) < 1000


def test_the_last_failed_call_of_each_name_has_its_traceback():
    reported = []
    timeline = Timeline(reported.extend)
    for number, name in enumerate("ffgff"):
        begun = 1 + number / 1e4
        failure = WRONG._replace(traceback=f"traceback {number}")
        timeline.add(name, ids.call_key(name, ids.new_task_id()), begun, begun, failure)
    timeline.flush()
    assert [(span.name, span.failure.traceback) for span in reported] == [
        ("f", "traceback 0"),  # the first call is reported at once
        ("f", ""),
        ("g", "traceback 2"),
        ("f", "traceback 4"),
    ]


durations = st.floats(0, 0.4, allow_nan=False)


@given(st.lists(st.tuples(st.sampled_from(["A.f", "A.g"]), durations, durations), max_size=50))
def test_every_call_is_named_once_with_its_times_and_lies_in_its_span(given):
    calls, now = [], 1000.0
    for name, pause, duration in given:
        calls.append((name, now + pause, now + pause + duration))
        now += pause + duration
    spans, tasks = spans_of(calls)
    named = [(span.name, *call) for span in spans for call in unpack(span.calls)]
    assert named == [
        (name, task, start, stop) for task, (name, start, stop) in zip(tasks, calls, strict=True)
    ]
    for span in spans:
        ended = list(unpack(span.calls))
        assert span.num_calls == len(ended)
        assert all(span.start <= start and stop <= span.stop for _, start, stop in ended)
        assert span.num_calls == 1 or span.stop - span.start <= REPORT_S


def test_spans_travel_as_plain_sequences():
    task = ids.new_task_id()
    calls = pack([(f"f-{task}", 1.0, 2.5)])
    for failure in (None, WRONG):
        span = Span("f", f"f-{task}", 1, 1.0, 2.5, failure, calls)
        assert Span.from_wire(msgpack.unpackb(msgpack.packb(span.to_wire()))) == span
