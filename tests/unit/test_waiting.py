"""Calls that wait for leases: sizes take turns, and no withdrawal searches a queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raycompat._caller.calls import Call
from raycompat._caller.waiting import WaitingCalls


def call(name: object, units: int = 1) -> Call:
    call = Call(str(name), "function", str(name))
    call.units = units
    return call


def add(waiting: WaitingCalls, each: Call) -> Call:
    queue = waiting.append(each)
    if queue is not None:
        waiting.enter(each.units, queue)
    return each


def send(waiting: WaitingCalls, below: int | None = None) -> str | None:
    queue = waiting.next(below)
    if queue is None:
        return None
    each = queue.popleft()
    waiting.served(each.units)
    return each.name


def test_sizes_take_turns():
    waiting = WaitingCalls()
    for number in range(2):
        for size in (30, 10, 20):
            add(waiting, call(f"{size}-{number}", size))
    assert waiting.sizes() == [10, 20, 30]
    order = [send(waiting) for _ in range(6)]
    assert order == ["10-0", "20-0", "30-0", "10-1", "20-1", "30-1"]
    assert send(waiting) is None


def test_a_call_that_comes_before_its_queue_is_entered_enters_it_too():
    """Two threads append; the first is interrupted before it enters the queue."""
    waiting = WaitingCalls()
    waiting.append(call("first"))
    add(waiting, call("second"))
    assert [send(waiting), send(waiting), send(waiting)] == ["first", "second", None]


def test_only_sizes_below_a_limit():
    waiting = WaitingCalls()
    for size in (10, 20, 30):
        add(waiting, call(size, size))
    assert [send(waiting, 20), send(waiting, 20)] == ["10", None]
    assert len(waiting) == 2


def test_nothing_waits_when_all_calls_are_withdrawn():
    waiting = WaitingCalls()
    calls = [add(waiting, call(number, size)) for number, size in enumerate((10, 20, 10, 20))]
    for each in reversed(calls):
        assert waiting
        waiting.withdraw(each)
    assert not waiting
    assert waiting.sizes() == []
    add(waiting, call("late", 20))
    assert send(waiting) == "late"


class CountingCall(Call):
    """A call that counts how often it is compared."""

    num_compared = 0

    def __eq__(self, other: object) -> bool:
        CountingCall.num_compared += 1
        return self is other

    __hash__ = None


def test_withdrawals_do_not_search():
    waiting = WaitingCalls()
    calls = [
        add(waiting, CountingCall(str(number), "function", str(number))) for number in range(10_000)
    ]
    for each in reversed(calls[1:]):
        waiting.withdraw(each)
    assert CountingCall.num_compared == 0
    assert len(waiting) == 1
    assert len(waiting._queues[0]) < 200
    assert send(waiting) == "0"
    assert send(waiting) is None


def test_a_call_that_comes_when_its_queue_is_given_up_is_not_lost():
    waiting = WaitingCalls()
    add(waiting, call("first", 1))
    add(waiting, call("second", 2))
    assert [send(waiting), send(waiting)] == ["first", "second"]
    given_up = waiting._queues[1]
    late = call("late", 1)
    given_up.append(late)  # by a thread that had looked the queue up
    add(waiting, call("third", 2))
    waiting._queues.pop(1, None)
    waiting.enter(1, given_up)
    assert sorted([send(waiting), send(waiting)]) == ["late", "third"]


STEPS = st.lists(st.tuples(st.sampled_from(["add", "send", "withdraw"]), st.integers(1, 5)))


@given(STEPS)
def test_every_call_is_sent_once_in_the_order_of_its_size(steps: list[tuple[str, int]]):
    waiting, present, number = WaitingCalls(), [], 0
    for step, argument in steps:
        if step == "add":
            number += 1
            present.append(add(waiting, call(number, argument)))
        elif step == "withdraw" and present:
            waiting.withdraw(present.pop(argument % len(present)))
        elif step == "send":
            name = send(waiting)
            assert (name is None) == (not present)
            if name is not None:
                (sent,) = [each for each in present if each.name == name]
                assert sent is next(each for each in present if each.units == sent.units)
                present.remove(sent)
        assert len(waiting) == len(present)
    assert sorted(each.name for each in waiting.clear()) == sorted(each.name for each in present)


def test_a_call_whose_submission_was_interrupted_is_taken_out_only_if_it_is_there():
    waiting = WaitingCalls()
    first, there, never_came = call("first"), call("there"), call("never came")
    for each in (first, there):
        add(waiting, each)
    assert send(waiting) == "first"
    for each in (first, there, never_came):
        waiting.withdraw_if_there(each)
    assert len(waiting) == 0
    add(waiting, call("last"))
    assert len(waiting) == 1
