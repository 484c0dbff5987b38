"""The first seconds of ``make chaos``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

NIGHTLY = Path(__file__).resolve().parents[1] / "nightly"


@pytest.mark.timeout(400)  # one value may take chaos.GET_S
def test_every_value_is_right_while_processes_and_nodes_are_killed(no_cluster, monkeypatch):
    monkeypatch.syspath_prepend(NIGHTLY)
    import chaos

    report = chaos.main(seconds=20, seed=1)
    print(report)
    assert report.num_executors_killed >= 5
    assert report.num_executors_stopped >= 2
    assert report.num_nodes_killed == chaos.NUM_NODE_KILLS
