"""Histories of a simulated cluster hold their invariants, each from its seed (see `simulate.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("simulate.py")


def simulate(*arguments):
    """Run the program in a process with virtual time; return what it prints."""
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-20_000:]
    return ended.stdout


@pytest.mark.timeout(600)
def test_histories_hold_their_invariants():
    assert "100 histories hold" in simulate(0, 100)


@pytest.mark.parametrize("seed", [1075, 4605, 1635, 6996])
def test_histories_that_have_found_faults(seed):
    """1075: a promised value arrives when only a cancelled call still refers to it. 4605: somebody asks
    for a value that was released, and that only a failed call still refers to. 1635: a call fails with
    its argument, before its owner leaves it to the scheduler. 6996: a call crosses the end of its lease,
    whose report is late.
    """
    assert "1 histories hold" in simulate(seed, seed + 1)


def test_a_seed_is_the_same_history_in_every_process():
    assert simulate("--replay", 7) == simulate("--replay", 7)


def test_races_of_the_past_that_are_put_back_are_found():
    assert "not found" not in simulate("--races")


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_many_histories_hold_their_invariants():
    assert "9900 histories hold" in simulate(100, 10_000)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_faults_that_are_put_into_the_code_are_found():
    assert "not found" not in simulate(0, 1000, "--mutations")
