"""Pages of a cluster with ten thousand actors and a hundred thousand tasks: the CPU time of an update."""

from __future__ import annotations

import asyncio
import time

import pytest
from _plugin_parts import JOB, run
from bokeh.document import Document

from raycompat._protocol import failures
from raycompat._protocol.spans import Failure
from raycompat._scheduler import survey
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.pages import documents, questions, sliced_table, tables

NUM_ACTORS, NUM_TASKS, NUM_FUNCTIONS = 10_000, 100_000, 300

#: Seconds of CPU time for an update of a page with all rows. It is a tenth of that on a quiet machine.
MOST_S = 1.0


def fill(cluster):
    """Give a cluster actors, of which one in a hundred has died, and calls that have ended or wait."""
    parts = cluster.parts
    for number in range(NUM_ACTORS):
        key = f"Actor-{number:032x}"
        error = failures.actor_died("exit code 3", key) if number % 100 == 0 else None
        row = ActorRow(key=key, job=JOB, error=error)
        row.class_name, row.state = f"Class{number % 50}", "DEAD" if error else "ALIVE"
        parts.ground.actors.rows[key] = row
        if error is not None:
            parts.endings.actor_died(row, error)
    about = {"type": "NORMAL_TASK", "job": JOB, "actor": None, "group": None, "resources": {}}
    about |= {"address": "tcp://node-0", "pid": 1}
    now = time.time()
    for number in range(NUM_TASKS // 2):
        failure = (
            Failure("TASK_EXECUTION_EXCEPTION", "ValueError: no") if number % 50 == 0 else None
        )
        about["name"] = f"function{number % NUM_FUNCTIONS}"
        parts.history.add_one(f"f-{number:048x}", now - 1, now, **about, failure=failure)
    for number in range(NUM_TASKS // 2):
        cluster.enqueue(f"waits-{number:048x}", f"driver-{number % 20}")


#: Turns that the scheduler's other work must get while `top` reads ten thousand actors.
LEAST_TURNS = 10


def test_top_lets_the_scheduler_work_while_it_reads_all_actors(monkeypatch):
    async def test(cluster):
        parts, turns = cluster.parts, 0

        async def take(most):
            assert most == survey.MOST_ON_PAGES
            return parts.surveys.last

        async def works():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        monkeypatch.setattr(parts.surveys, "take", take)
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        monkeypatch.setattr(parts.ground.next_round, "soon", lambda: None)
        fill(cluster)
        other = asyncio.ensure_future(works())
        found = await questions.overview(parts)
        other.cancel()
        assert turns > LEAST_TURNS
        assert found["actors"] == tables.actors(parts)[: tables.MOST_ROWS]
        assert [row["is_failed"] for row in found["actors"]] == [True] * 100 + [False] * 100
        assert found["running"] == tables.running(parts)[: tables.MOST_ROWS]

    run(monkeypatch, 10, test)


@pytest.mark.timeout(300)
def test_an_update_of_each_page_takes_less_than_a_second(monkeypatch):
    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        monkeypatch.setattr(parts.ground.next_round, "soon", lambda: None)
        fill(cluster)
        took = {}
        for name, (_, make) in documents.TABS.items():
            shown = make(parts)
            doc = Document()
            doc.add_root(shown.root)
            for _ in range(2):  # the first one sends all rows
                began = time.process_time()
                shown.update()
                while getattr(shown, "is_searching", False):  # in slices of some milliseconds
                    shown.update()
                took[name] = max(took.get(name, 0.0), time.process_time() - began)
        assert {name: each for name, each in took.items() if each > MOST_S} == {}

    run(monkeypatch, 10, test)


def test_the_table_of_actors_is_made_in_slices(monkeypatch):
    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        monkeypatch.setattr(parts.ground.next_round, "soon", lambda: None)
        monkeypatch.setattr(sliced_table, "_SLICE_S", 0.0)
        monkeypatch.setattr(sliced_table, "_BETWEEN_SLICES_S", 0.0)
        fill(cluster)
        table = documents.TABS["actors"][1](parts)
        num_slices = 1
        table.update()
        while table.is_searching:
            assert list(table.source.data["id"]) == []
            table.update()
            num_slices += 1
        assert num_slices > NUM_ACTORS / sliced_table._FEW_ROWS
        assert list(table.source.data["id"]) == [
            row["id"] for row in tables.actors(parts)[: tables.MOST_ROWS]
        ]
        assert table.source.data["state"][:101] == ["DEAD"] * 100 + ["ALIVE"]
        found = table.select({"sort": "class", "down": True, "search": "class1"})
        assert (found.num_all, found.num_found) == (NUM_ACTORS, 11 * NUM_ACTORS // 50)
        assert [row["class"] for row in found.rows] == ["Class19"] * tables.MOST_ROWS

    run(monkeypatch, 10, test)
