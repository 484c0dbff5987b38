"""Whom a node ends that runs out of memory."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._node import memory_monitor
from raycompat._node.memory_monitor import Candidate, choose

candidates = st.builds(
    Candidate,
    executor=st.integers(),
    name=st.sampled_from(["", "task"]),
    is_retryable=st.booleans(),
    is_owner=st.booleans(),
)


@given(st.lists(candidates, unique_by=lambda each: each.executor))
def test_idle_ones_go_first_then_those_whose_end_loses_least_then_the_newest(there):
    chosen = choose(there)
    if not there:
        assert chosen is None
        return
    idle = [each for each in there if not each.name]
    retryable = [each for each in there if each.is_retryable]
    alone = [each for each in retryable if not each.is_owner]
    assert chosen is (idle or alone or retryable or there)[-1]


@pytest.mark.parametrize("name", ["RAY_memory_usage_threshold", "RAY_memory_monitor_refresh_ms"])
@pytest.mark.parametrize("value", ["much", "-1", "", "nan", "inf"])
def test_a_setting_that_is_no_number_is_refused(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}=.*expected a number"):
        memory_monitor.MemoryMonitor(1, list, list, list, lambda *_: None, bool)


def test_a_threshold_in_percent_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_memory_usage_threshold", "95")
    with pytest.raises(ValueError, match="from 0 to 1"):
        memory_monitor.MemoryMonitor(1, list, list, list, lambda *_: None, bool)


class Machine:
    """A machine that lacks memory, and a monitor of a node on it."""

    def __init__(self, monkeypatch, candidates, spare):
        self.total, self.available = 100 << 30, 1 << 30
        monkeypatch.setattr(memory_monitor.psutil, "virtual_memory", lambda: self)
        self.ended = []
        self.monitor = memory_monitor.MemoryMonitor(
            1 << 30, list, lambda: None, candidates, self.end, spare
        )

    def end(self, candidate, why):
        self.ended.append((candidate, why))

    def decide(self):
        async def decide():
            self.monitor._decide()
            self.monitor.stop()

        asyncio.run(decide())


@pytest.mark.parametrize("is_enough", [True, False])
def test_what_waits_to_be_used_again_goes_before_an_executor(monkeypatch, is_enough):
    victim = Candidate(None, "task", is_retryable=True, is_owner=False)

    def spare():
        if is_enough:
            machine.available = 50 << 30
        return True

    machine = Machine(monkeypatch, lambda: [victim], spare)
    machine.decide()
    why = "Of the machine's 100.00 GiB of memory 1.00 GiB were left."
    assert machine.ended == ([] if is_enough else [(victim, why)])
