"""The example programs that the pages run at a small size only, at their full size: for `make nightly`."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

TUTORIALS = Path(__file__).parents[2] / "tutorials"


@pytest.mark.timeout(1200)  # a minute where nothing else runs
@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_the_mean_of_two_residual_networks_names_95_percent_of_the_shapes(tmp_path):
    command = [sys.executable, str(TUTORIALS / "resnet.py")]
    output = subprocess.check_output(command, text=True, cwd=tmp_path)
    assert output.startswith("GPUs of the actors: [0] [1]\n")
    accuracies = [float(text) for text in re.findall(r"means: +([\d.]+)%", output)]
    assert accuracies[0] < 30  # the first weights are random
    assert accuracies[-1] >= 95
