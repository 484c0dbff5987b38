"""Programs of 2017, of 2018 to 2020, and of today: their Ray calls, the import too, are unchanged.

They are in `old_programs`, complete. Each runs in a separate process by ``raycompat run``, and each of its
processes imports TensorFlow. The guides, which `make docs` runs, have the same calls; so `make nightly` has these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Seconds that a program has, on a machine that is busy.
PROGRAM_S = 240

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(PROGRAM_S + 30)]

PROGRAMS = Path(__file__).parent / "old_programs"

EXPECTED = {
    "environment_variables_2017": """
        Iteration 0: weights are [-0.176, 0.585]
        Iteration 40: weights are [0.074, 0.313]
        Iteration 80: weights are [0.098, 0.301]
        Iteration 120: weights are [0.1, 0.3]
        Loss below 1e-6: True
        The graphs have grown: False
        Put right after each task: [-0.5, 0.0]
        """,
    "actors_2018": """
        An actor's mode: [False, ['VariableV2']]
        This program's: [False, ['VariableV2']]
        Iteration 0: weights are [-0.167, 0.588]
        Iteration 40: weights are [0.08, 0.31]
        Iteration 80: weights are [0.099, 0.301]
        Iteration 120: weights are [0.1, 0.3]
        The graphs have grown: False
        """,
    "gpu_actor_2019": """
        GPUs: ['0', '1']
        Accuracy over 0.8: [True, True]
        """,
    "keras_today": """
        Names: ['line/kernel', 'line/bias']
        Weights: [0.1, 0.3]
        Eager: True
        Halves: [[0, 1], [2, 3]]
        """,
    "train_today": """
        Loss below 0.05: True
        Metrics: ['loss', 'mean_squared_error']
        Kept: 2
        Files: ['.metadata.json', 'model.keras']
        """,
    "train_checkpoints_today": """
        Epochs: [0, 1, 2, 3, 4, 5]
        The last is the best: True
        Files: [".metadata.json", "square.weights.h5"]
        Metadata: {'epoch': 5}
        Restored: 5
        """,
}


@pytest.mark.parametrize("program", EXPECTED)
def test_it_runs_and_prints(program, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "raycompat", "run", PROGRAMS / f"{program}.py"],
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [line.strip() for line in EXPECTED[program].strip().splitlines()]
    assert done.stdout.splitlines() == expected, done.stderr


def test_every_program_is_run():
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(EXPECTED)
