"""The tables of the pages: the row that is chosen is shown in full, as text."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from _plugin_parts import JOB, run

from raycompat._protocol import failures
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.pages.table_widget import Table, _as_text
from raycompat._scheduler.pages.tables import _sampled


def test_the_chosen_row_is_shown_in_full_and_follows():
    core = SimpleNamespace(surveys=SimpleNamespace(last=SimpleNamespace(warning="")))
    columns = {"node": "n", "used": 0.5, "holders": "<x>", **_sampled({})}
    rows = [{**columns, "gpu": index} for index in range(3)]
    table = Table(core, "gpus", lambda _: rows)
    table.update()
    assert table._chosen.text == ""
    assert table._below.text.startswith("Rows: 3.")
    table.source.selected.indices = [1]
    assert "<b>GPU</b>: 1<br>" in table._chosen.text
    assert "&lt;x&gt;" in table._chosen.text
    rows[1] = {**rows[1], "used": 1.0}
    table.update()
    assert "<b>In use</b>: 1.00" in table._chosen.text
    rows.insert(0, {**rows[0], "node": "m"})
    table.update()
    assert table.source.selected.indices == [2]
    assert "<b>In use</b>: 1.00" in table._chosen.text
    del rows[0]
    table.update()
    assert table.source.selected.indices == [1]
    assert "<b>In use</b>: 1.00" in table._chosen.text
    rows.clear()
    table.update()
    assert table._chosen.text == ""


@pytest.mark.parametrize("address", ["tcp://node-0", None])  # None: it never ran
def test_an_actor_whose_placement_group_was_removed_has_not_failed(monkeypatch, address):
    def test(cluster):
        actors = cluster.parts.actors.rows
        actors["A-1"] = ActorRow(key="A-1", job=JOB, address=address)
        assert failures.is_expected(cluster.parts.groups.why_it_is_gone("A-1"))
        assert not failures.is_expected(failures.actor_died("exit code 3", "A-1"))

    run(monkeypatch, 2, test)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (8.797645568847656e-05, "seconds", "88 µs"),
        (0.0123, "seconds", "12.3 ms"),
        (1234.56, "seconds", "1,234.6 s"),
        (0.0, "seconds", "0 µs"),
        (None, "seconds", ""),
        (5_000_000, "bytes", "5,000,000 B"),
        (-1, "bytes", ""),
        (1234.567, "0,0.0", "1,234.6"),
        (1234, "0,0", "1,234"),
        ("<b>", "text", "<b>"),
    ],
)
def test_figures_of_the_chosen_row_have_units(value, form, text):
    assert _as_text(value, form) == text
