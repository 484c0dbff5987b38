"""The table of what has ended: bounded, and right in its sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol import ids
from raycompat._protocol.spans import Failure, pack
from raycompat._scheduler import history
from raycompat._scheduler.history import EndedCalls, Function, History


def ended(durations, name="f", failure=None):
    calls = [(f"f-{ids.new_task_id()}", 100.0, 100.0 + each) for each in durations]
    return EndedCalls(count=len(calls), calls=pack(calls), **about(name, failure))


def about(name="f", failure=None):
    return {
        "name": name,
        "type": "NORMAL_TASK",
        "job": "01000000",
        "actor": None,
        "group": None,
        "resources": {},
        "address": "tcp://10.0.0.1:1",
        "pid": 1,
        "failure": failure,
    }


def test_the_oldest_calls_are_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(history, "MANY_CALLS", 10)
    table = History()
    for number in range(7):
        table.add(ended([1.0, 2.0], name=f"f{number}"))
    assert len(table) == 10
    assert table.num_dropped == 4
    assert [ended.name for ended in table.calls()] == ["f2", "f3", "f4", "f5", "f6"]
    assert table.functions["f0"].num_done == 2


def test_the_oldest_spans_are_dropped(monkeypatch):
    monkeypatch.setattr(history, "MANY_SPANS", 2)
    table = History()
    for number in range(3):
        table.add(ended([1.0, 2.0], name=f"f{number}"))
    assert [each.name for each in table.calls()] == ["f1", "f2"]
    assert (len(table), table.num_dropped) == (4, 2)


def test_functions_are_bounded_and_the_ones_used_last_stay(monkeypatch):
    monkeypatch.setattr(history, "_MANY_FUNCTIONS", 2)
    table = History()
    for name in "abac":
        table.add(ended([1.0], name=name))
    assert list(table.functions) == ["a", "c"]


def test_failed_attempts_are_counted_by_task_as_long_as_they_are_known(monkeypatch):
    monkeypatch.setattr(history, "MANY_CALLS", 3)
    table = History()
    first, second = ids.new_task_id(), ids.new_task_id()
    failure = Failure("WORKER_DIED", "it died")
    for task, why in ((first, failure), (first, failure), (first, None)):
        table.add_one(f"f-{task}", 1.0, 2.0, **about(failure=why))
    assert (table.num_failures(first), table.num_failures(second)) == (2, 0)
    assert table.finished_among([first, second], since=0.0) == {first}
    table.add_one(f"f-{second}", 1.0, 2.0, **about(failure=failure))
    assert (table.num_failures(first), table.num_failures(second)) == (1, 1)
    assert table.finished_among([second], since=0.0) == set()
    assert table.finished_among([], since=0.0) == set()


def test_failures_are_counted_apart():
    table = History()
    table.add(ended([1.0]))
    table.add(ended([1.0, 1.0], failure=Failure("WORKER_DIED", "it died")))
    assert (table.functions["f"].num_done, table.functions["f"].num_failed) == (1, 2)


def test_the_rate_is_that_of_the_last_ten_seconds():
    function = Function()
    for second in range(100):
        function.add(ended([0.1] * 5), 1000.0 + second)
    assert function.rate(1099.5) == pytest.approx(5, rel=0.11)
    assert function.rate(1200.0) == 0


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=150))
def test_quantiles_are_durations_in_their_order(durations):
    function = Function()
    function.add(ended(durations), 0.0)
    median, high, longest = function.quantiles()
    taken = sorted(function.durations)
    assert median <= high <= longest == taken[-1]
    assert sum(each <= median for each in taken) >= len(taken) / 2
    assert sum(each <= high for each in taken) >= 0.95 * len(taken)


def test_a_function_without_calls_has_no_durations():
    assert Function().quantiles() is None


def test_the_clock_of_a_node_does_not_hide_its_failures():
    """What has failed in the last minutes is shown first; the calls of `ended` are of 1970."""
    function, failure = Function(), Failure("TASK_EXECUTION_EXCEPTION", "ValueError: no")
    function.add(ended([1.0], failure=failure), now=1000.0)
    assert function.failed_at == 1000.0 - history._LATE_S
    function.add(ended([9000.0], failure=failure), now=1000.0)
    assert function.failed_at == 1000.0
    function.add(ended([850.0], failure=failure), now=1000.0)
    assert function.failed_at == 950.0
