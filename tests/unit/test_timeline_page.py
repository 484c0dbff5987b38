"""The timeline on the page of tasks: a bar for each span, sent once, and a row for each process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from raycompat._protocol.spans import Phases, Ran
from raycompat._scheduler.node_table import NodeTable
from raycompat._scheduler.pages import timeline
from raycompat._scheduler.run_times import RunTimes


def ran(pid, name="f", count=1, start=100.0, stop=100.5, failed=False):
    worker = f"tcp://10.0.0.1:{7000 + pid % 2}"
    return Ran(worker, pid, name, "00", count, start, stop, failed, Phases())


@pytest.fixture
def shown():
    return RunTimes(None, lambda name: None)


@pytest.fixture
def page(shown):
    actor = SimpleNamespace(pid=3, class_name="Scaler")
    actors = SimpleNamespace(rows={"a": actor})
    nodes = NodeTable(None, None)
    nodes.info |= {f"tcp://10.0.0.1:{port}": {"name": "", "ip": ""} for port in (7000, 7001)}
    ground = SimpleNamespace(nodes=nodes)
    parts = SimpleNamespace(run_times=shown, actors=actors, nodes=nodes, ground=ground)
    return timeline.Timeline(parts)


def test_the_only_node_has_no_name_on_the_rows(shown, page):
    del page._parts.nodes.info["tcp://10.0.0.1:7000"]
    shown.ran(ran(3))
    page.update()
    assert page.source.data["process"] == ["3  Scaler"]


def test_only_what_is_new_is_returned(shown):
    for pid in range(5):
        shown.ran(ran(pid))
    first, seen = shown.since(0, 3)
    assert ([each[1] for each in first], seen) == ([2, 3, 4], 5)
    shown.ran(ran(9))
    later, seen = shown.since(seen, 3)
    assert ([each[1] for each in later], seen) == ([9], 6)
    assert shown.since(seen, 3) == ([], 6)


def test_bars_are_added_and_processes_have_rows(shown, page):
    page.update()
    assert page.source.data["name"] == []
    shown.ran(ran(4))
    shown.ran(ran(3, name="g", count=1000, failed=True))
    page.update()
    page.update()
    data = page.source.data
    assert data["process"] == ["10.0.0.1:7000  4", "10.0.0.1:7001  3  Scaler"]
    assert (data["left"], data["right"], data["length"]) == (
        [1e5] * 2,
        [100_500.0] * 2,
        [500.0] * 2,
    )
    assert data["about"] == ["", "1,000 calls, failed"]
    assert data["colour"][0] != data["colour"][1] == "black"
    assert page._processes.factors == ["10.0.0.1:7001  3  Scaler", "10.0.0.1:7000  4"]
    page._parts.actors.rows.clear()
    shown.ran(ran(3))
    page.update()
    assert page.source.data["process"][-1] == "10.0.0.1:7001  3  Scaler"


def test_bars_and_rows_are_bounded(monkeypatch, shown, page):
    monkeypatch.setattr(timeline, "_MANY_BARS", 4)
    monkeypatch.setattr(timeline, "_MANY_PROCESSES", 2)
    for pid in (0, 2, 4, 6, 8, 10):
        shown.ran(ran(pid))
        page.update()
    assert len(page.source.data["process"]) == 4
    assert page._processes.factors == ["10.0.0.1:7000  8", "10.0.0.1:7000  10"]
