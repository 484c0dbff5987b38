"""Programs after Ray's walkthrough and its pages of patterns, written from their descriptions.

They are in ``tests/programs`` and say ``import ray``; ``raycompat run`` runs each in its own process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
#: Seconds that a program has.
PROGRAM_S = 100

EXPECTED = {
    "walkthrough": """
        Squares: [0, 1, 4, 9]
        Counted: 10
        By value and by reference: 6 1000000
        """,
    "limit_pending_tasks": """
        Results: 100 295
        Never more than 5
        """,
    "limit_running_tasks": "At most two at a time: True",
    "tree_of_actors": "Answers: [('left', [0, 10, 20]), ('right', [1, 11, 21])]",
    "nested_sort": "Sorted: True",
    "generators": """
        Sums: [0, 100000, 200000, 300000]
        Three: [0, 1, 2]
        """,
    "pipelining": "Squares: True",
    "async_actor": "Steps grow: True",
    "fault_tolerance": """
        Tries: 3
        Counted: [1, 2, 3]
        After the crash: 3
        """,
}


def test_every_program_is_run():
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_runs_unmodified(name):
    command = [sys.executable, "-m", "raycompat", "run", str(PROGRAMS / f"{name}.py")]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        env={**os.environ, "RAY_ADDRESS": "local"},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    expected = [line.strip() for line in EXPECTED[name].strip().splitlines()]
    assert ended.stdout.splitlines() == expected, ended.stderr
