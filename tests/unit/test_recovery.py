"""Where a value comes from that is gone: decisions, and what follows from them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from raycompat._caller.calls import Call
from raycompat._caller.object_table import FAILED, PENDING, READY, Entry, ObjectTable
from raycompat._caller.reading import Missing, read_all
from raycompat._caller.recovery import Remedy, recover, remedy_for
from raycompat._protocol.values import InlineValue, SegmentLink


def _call(retries=0, *, is_end_reported=False):
    call = Call("task-1", "function", "f")
    call.retries, call.is_end_reported = retries, is_end_reported
    return call


def _entry(**facts):
    entry = Entry("task-1", READY)
    for name, fact in facts.items():
        setattr(entry, name, fact)
    return entry


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        ({"is_held_in_dask": True, "origin": _call(3)}, Remedy.FETCH),
        ({"parent": Entry("task-1")}, Remedy.PUBLISH),
        ({"parent": Entry("task-1"), "origin": _call(3, is_end_reported=True)}, Remedy.PUBLISH),
        ({"parent": Entry("task-1"), "origin": _call(3)}, Remedy.MAKE_AGAIN),
        ({"origin": _call(-1)}, Remedy.MAKE_AGAIN),
        ({"origin": _call(0)}, Remedy.GIVE_UP),
        ({}, Remedy.GIVE_UP),
    ],
)
def test_the_decision_follows_from_the_record_of_the_object(facts, remedy):
    assert remedy_for(_entry(**facts)) is remedy


class Session:
    """What recovery needs of a session, which records what it is asked for."""

    def __init__(self):
        self.lock = threading.RLock()
        self.table = ObjectTable(self.lock, print, print, print)
        self.asked = []
        self.sharing = SimpleNamespace(
            publish=lambda entry: self.asked.append(("publish", entry.key))
        )
        self.by_scheduler = SimpleNamespace(
            resubmit=lambda call: self.asked.append(("again", call))
        )

    def entry(self, **facts):
        entry = self.table.add("task-1")
        self.table.settle(entry, value=SegmentLink("gone", 10, "here", ()))
        for name, fact in facts.items():
            setattr(entry, name, fact)
        return entry


def test_reading_reports_what_is_missing_and_changes_nothing():
    session = Session()
    entry, call = session.entry(), _call(1)
    entry.origin = call
    assert read_all([entry]) == Missing(entry, "gone")
    assert (entry.state, entry.value.path, call.retries) == (READY, "gone", 1)
    assert session.asked == []


def test_a_call_with_a_retry_makes_a_lost_value_again():
    session, call = Session(), _call(1)
    entry = session.entry(origin=call)
    recover(session, Missing(entry, "gone"))
    assert session.asked == [("again", call)]
    assert (entry.state, call.retries) == (PENDING, 0)


def test_a_value_among_the_results_of_its_call_is_published():
    session = Session()
    entry = session.entry(parent=Entry("task-1"))
    recover(session, Missing(entry, "gone"))
    assert session.asked == [("publish", "task-1")]
    assert (entry.state, entry.value) == (READY, None)


def test_a_value_without_a_retry_is_lost():
    session = Session()
    entry = session.entry(origin=_call(0))
    recover(session, Missing(entry, "gone"))
    assert (entry.state, session.asked) == (FAILED, [])


def test_a_value_that_another_thread_has_fetched_is_left():
    session = Session()
    entry = session.entry(origin=_call(1))
    entry.value = InlineValue(b"value")
    recover(session, Missing(entry, "gone"))
    assert (entry.state, entry.value, session.asked) == (READY, InlineValue(b"value"), [])
