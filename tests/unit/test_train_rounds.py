"""Reports of ranks become reports of a run, whatever the order in which they come."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat.train._meetings import Meetings
from raycompat.train._rounds import Rounds
from raycompat.train._session import Met, Reported, Saved
from raycompat.train._stragglers import Stragglers


@settings(deadline=None)
@given(st.integers(1, 4), st.lists(st.booleans(), max_size=6), st.randoms())
def test_rounds_come_out_whole_and_in_order(number: int, saves: list[bool], chance: random.Random):
    """Each rank reports, and saves what it has when it knows the name; ranks go at any speed."""
    rounds = Rounds(number)
    steps = {rank: iter(range(len(saves))) for rank in range(number)}
    to_save: list[tuple[int, int]] = []
    waiting: dict[int, int] = {}
    found = []
    while steps or to_save:
        if to_save and (not steps or chance.random() < 0.5):
            rank, index = to_save.pop(chance.randrange(len(to_save)))
            rounds.add_saved(rank, Saved(index))
        else:
            free = [rank for rank in steps if rank not in waiting]
            rank = chance.choice(free)
            index = next(steps[rank], None)
            if index is None:
                del steps[rank]
                continue
            waiting[rank] = index
            report = Reported(index, {"rank": rank}, saves[index], None)
            round_ = rounds.add_report(rank, report)
            if round_ is not None:
                round_.name = f"checkpoint_{index}"
                waiting.clear()
                to_save += [(each, index) for each in round_.savers]
        while (popped := rounds.pop_saved()) is not None:
            found.append(popped)
    assert [index for index, _ in found] == list(range(len(saves)))
    for index, round_ in found:
        assert sorted(round_.reports) == list(range(number))
        assert round_.savers == (list(range(number)) if saves[index] else [])
    assert rounds.mismatch() == {}


def test_ranks_that_wait_for_one_that_has_returned_are_told():
    rounds = Rounds(2)
    rounds.add_return(0, 1)
    for index in range(2):
        rounds.add_report(1, Reported(index, {}, False, None))
    rounds.add_report(0, Reported(0, {}, False, None))
    told = rounds.mismatch()
    assert list(told) == [1]
    assert "report number 2" in told[1]
    assert "rank 0 after 1 reports" in told[1]


def test_a_rank_that_keeps_others_waiting_is_warned_of(caplog):
    rounds = Rounds(3)
    stragglers = Stragglers(rounds, Meetings(2), interval_s=60)
    for rank in (0, 2):
        rounds.add_report(rank, Reported(0, {}, True, None))
    for now in (5, 64):
        stragglers.check(now)
    assert not caplog.records
    for now in (65, 70, 125):
        stragglers.check(now)
    first, second = (record.getMessage() for record in caplog.records)
    assert "Ranks [0, 2] have waited in their report number 1 for 60 s" in first
    assert "ranks [1] have not" in first
    assert "for 120 s" in second
    rounds.add_report(1, Reported(0, {}, True, None))
    stragglers.check(500)
    rounds.add_report(1, Reported(1, {}, True, None))
    stragglers.check(510)
    assert len(caplog.records) == 2


def test_a_wait_fails_after_ray_s_limit(monkeypatch):
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "9")
    meetings = Meetings(3)
    stragglers = Stragglers(Rounds(3), meetings)
    assert stragglers.check(100) == {}
    meetings.add(0, Met("barrier"))
    meetings.add(2, Met("barrier"))
    assert stragglers.check(101) == stragglers.check(109) == {}
    failures = stragglers.check(110)
    assert sorted(failures) == [0, 2]
    assert isinstance(failures[0], TimeoutError)
    assert "barrier() for 9 s" in str(failures[0])
    assert "ranks [1] have not come" in str(failures[0])


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "None")
    assert Stragglers(Rounds(2), Meetings(2)).check(1e9) == {}
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match="COLLECTIVE_TIMEOUT_S='soon'"):
        Stragglers(Rounds(2), Meetings(2))


def test_a_rank_that_keeps_others_waiting_in_a_meeting_is_warned_of(caplog):
    meetings = Meetings(2)
    stragglers = Stragglers(Rounds(2), meetings, interval_s=60)
    meetings.add(0, Met("barrier"))
    for now in (5, 65):
        stragglers.check(now)
    (record,) = caplog.records
    assert "call number 1 in train.collective, barrier() for 60 s" in record.getMessage()
    assert "ranks [1] have not" in record.getMessage()
    meetings.add(1, Met("barrier"))
    stragglers.check(500)
    assert len(caplog.records) == 1


def test_a_meeting_has_the_value_of_rank_0_when_all_have_come():
    meetings = Meetings(3)
    for number in range(2):
        assert meetings.add(2, Met("barrier")) is None
        assert meetings.add(0, Met("barrier", b"value")) is None
        assert meetings.mismatch([]) == {}
        assert meetings.incomplete()[1:] == ([0, 2], [1])
        assert meetings.add(1, Met("barrier")) == (number, b"value")
        assert meetings.incomplete() is None


def test_ranks_that_wait_in_a_meeting_without_end_are_told():
    for reporting, returned, last, text in (
        ([], [0], None, "returned on rank 0"),
        ([0], [], None, "rank 0 waits in train.report()"),
        ([], [], Met("broadcast_from_rank_zero", b""), "another function"),
    ):
        meetings = Meetings(2)
        meetings.add(1, Met("barrier"))
        assert meetings.mismatch([]) == {}
        for rank in returned:
            meetings.add_return(rank)
        if last is not None:
            assert meetings.add(0, last) is None
        told = meetings.mismatch(reporting)
        assert text in told[1]
        assert "train.collective.barrier()" in told[1]
