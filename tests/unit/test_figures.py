"""The main figures of the last hour: what a sample has, and how many are kept."""

from __future__ import annotations

import math

from _plugin_parts import JOB, run

from raycompat._protocol.spans import Failure


def test_a_sample_has_shares_of_what_the_cluster_has_and_the_failures_since_the_last(monkeypatch):
    def test(cluster):
        figures, history = cluster.parts.figures, cluster.parts.endings.history
        first = figures.now()
        assert (first.cpu, first.waiting, first.failed) == (0.0, 0, 0)
        assert math.isnan(first.gpu)
        about = {"name": "f", "type": "NORMAL_TASK", "job": JOB, "actor": None, "group": None}
        about |= {"resources": {}, "address": "", "pid": None}
        failure = Failure("T", "ValueError: no")
        history.add_one(f"f-{'0' * 48}", 1.0, 2.0, **about, failure=failure)
        history.add_one(f"f-{'1' * 48}", 1.0, 2.0, **about, failure=None)
        assert history.by_job == {JOB: [1, 1]}
        try:
            for _ in range(400):
                figures._look()
            assert [each.failed for each in figures.samples][-2:] == [0, 0]
            assert len(figures.samples) == 360
        finally:
            figures.stop()
        assert figures.now().failed == 0

    run(monkeypatch, 2, test)
