"""The main figures of the last hour: what a sample has, and how many are kept."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

from _plugin_parts import JOB, run

from raycompat._protocol.spans import Failure
from raycompat._scheduler.pages.overview import LastHour


def test_a_sample_has_shares_of_what_the_cluster_has_and_the_failures_since_the_last(monkeypatch):
    def test(cluster):
        figures, history = cluster.parts.figures, cluster.parts.history
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
            figures._look()
            figures._look()
            assert [each.failed for each in figures.samples] == [1, 0]
        finally:
            figures.stop()
        assert figures.now().failed == 0

    run(monkeypatch, 2, test)


def test_samples_are_those_of_the_last_hour_and_begin_anew_after_a_stop(monkeypatch):
    def test(cluster):
        figures, history = cluster.parts.figures, cluster.parts.history
        clock = SimpleNamespace(now=1_000_000.0)
        monkeypatch.setattr(time, "time", lambda: clock.now)
        try:
            for _ in range(400):
                clock.now += 10
                figures._look()
            assert len(figures.samples) == 361
            figures.stop()
            history.num_failed += 7  # no driver is connected, and the calls of the last one fail
            clock.now += 1_800
            figures.start()
            clock.now += 10
            figures._look()
            assert figures.samples[-1].failed == 0
            assert [each.at >= clock.now - 3_600 for each in figures.samples].count(False) == 0
            drawn = LastHour(cluster.parts)
            drawn.update()
            minutes, waiting = (drawn.source.data[name] for name in ("minutes", "waiting"))
            assert min(minutes) > -60
            assert [math.isnan(each) for each in waiting].count(True) == 1
            assert math.isnan(waiting[-2])
            clock.now += 600
            drawn.update()
            assert drawn.source.data["minutes"][-1] == -10
            clock.now += 6_600
            drawn.update()
            assert not drawn.root.visible
        finally:
            figures.stop()

    run(monkeypatch, 2, test)
