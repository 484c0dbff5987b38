"""What a process uses, as the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from raycompat._node import process_use
from raycompat._node.process_use import ProcessUse


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    times = [100.0]
    monkeypatch.setattr(process_use.time, "monotonic", lambda: times[0])
    return times


def test_memory_and_cpus_of_this_process(clock):
    use = ProcessUse(os.getpid())
    rss, percent = use.measure()
    assert rss is not None
    assert rss > 10_000_000
    assert percent is None  # no time has passed
    used = sum(os.times()[:2])
    clock[0] += 10
    _, percent = use.measure()
    assert percent == pytest.approx(used * 10, abs=20)  # 10 seconds: a second is 10 %
    clock[0] += 0.1
    assert use.measure()[1] == percent  # too soon for another measurement
    clock[0] += 1e6
    assert use.measure()[1] == 0


def test_a_process_that_has_ended_uses_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    use = ProcessUse(process.pid)
    process.wait()
    assert use.measure() == (None, None)
