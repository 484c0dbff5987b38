"""The tables of the pages: which rows they have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from _plugin_parts import JOB, run

from raycompat._protocol import failures
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.pages.table_widget import Table, arranged
from raycompat._scheduler.pages.tables import _sampled


def table_of(rows, name="gpus"):
    core = SimpleNamespace(surveys=SimpleNamespace(last=SimpleNamespace(warning="")))
    table = Table(core, name, lambda _: rows)
    table.update()
    return table


def test_a_table_has_the_rows_that_match_all_words_in_the_order_that_is_wanted():
    columns = {"node": "n", "used": 0.5, **_sampled({})}
    rows = [{**columns, "gpu": index, "holders": f"Learner {index}"} for index in range(300)]
    table = table_of(rows)
    assert table.source.data["gpu"] == list(range(200))
    assert table._below.text.startswith("Rows: 300, 200 shown: search to see others.")
    table.source.tags = [{"search": "learner 29", "sort": "gpu", "down": True}]
    assert table.source.data["gpu"] == [*range(299, 289, -1), 229, 129, 29]
    assert table._below.text.startswith("Rows: 300, 13 found.")
    table.source.tags = [{"search": "no such"}]
    assert table.source.data["gpu"] == []
    table.source.tags = [{"sort": "no such field"}]
    assert table.source.data["gpu"] == list(range(200))


def test_rows_without_a_value_are_last_in_both_orders():
    rows = [{"value": None}, {"value": 2}, {"value": ""}, {"value": "B"}, {"value": "a"}]
    for is_descending, order in ((False, [2, "a", "B"]), (True, ["B", "a", 2])):
        found = arranged(rows, "value", is_descending=is_descending)
        assert [row["value"] for row in found] == [*order, None, ""]


def test_what_users_have_typed_stays_text():
    table = table_of([], name="trials")
    assert "<" not in table.root.children[0].text.partition('"')[2].rpartition('"')[0]


@pytest.mark.parametrize("address", ["tcp://node-0", None])  # None: it never ran
def test_an_actor_whose_placement_group_was_removed_has_not_failed(monkeypatch, address):
    def test(cluster):
        actors = cluster.parts.actors.rows
        actors["A-1"] = ActorRow(key="A-1", job=JOB, address=address)
        assert failures.is_expected(cluster.parts.groups.why_it_is_gone("A-1"))
        assert not failures.is_expected(failures.actor_died("exit code 3", "A-1"))

    run(monkeypatch, 2, test)
