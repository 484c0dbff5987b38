"""Tables of the command line in windows: they fit, ids stay whole, and what is left out is named."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from raycompat._cli import tables

TASK = {
    "task_id": "7061e13746c412119d6025ab74fcbe0f0000000000000064",
    "attempt_number": 0,
    "name": "say",
    "state": "PENDING_NODE_ASSIGNMENT",
    "job_id": "1d5bd06a",
    "node_id": "49a92e0020d1" + 44 * "0",
    "worker_id": "00004c271d5b" + 44 * "0",
    "error_type": None,
}


def test_all_columns_are_whole_where_there_is_no_window():
    resources = {f"resource-{number}": 1.0 for number in range(20)}
    task = {**TASK, "name": "long " * 50 + "name", "resources": resources}
    first, second = tables.table([task]).splitlines()
    assert first.split() == [name.upper() for name in task if name != "error_type"]
    assert TASK["node_id"] in second
    assert task["name"] in second
    assert "resource-19: 1" in second


def test_only_a_window_has_a_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for is_window, width in ((True, 80), (False, None)):
        monkeypatch.setattr(tables.sys, "stdout", SimpleNamespace(isatty=lambda: is_window))
        assert tables.window_width() == width


@pytest.mark.parametrize("others", [{}, {"state": "FINISHED"}])
def test_the_first_column_is_whole_in_a_window(others):
    name = "module.of.the.program." + "a" * 70
    assert name in tables.table([{"group": name, **others}], 40)


def test_a_window_has_the_id_and_what_matters_most():
    first, second, *lines = tables.table([TASK], 80).splitlines()
    note = " ".join(lines)
    assert first.split() == ["TASK_ID", "NAME", "STATE"]
    assert second.split() == [TASK["task_id"], "say", "PENDING_NODE_ASSIGNMENT"]
    assert note.startswith("(not shown in 80 columns: ")
    left_out = re.findall(r"\w+", note.partition(":")[2])
    assert {"node_id", "worker_id", "job_id", "attempt_number"} <= set(left_out)


def test_ids_of_other_rows_are_short_in_a_window():
    text = tables.table([TASK], 150)
    assert TASK["node_id"][:12] in text
    assert TASK["node_id"] not in text
    assert "not shown" not in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_tasks_with_long_names_fit_the_window(width):
    row = {
        "task_id": "0" * 48,
        "attempt_number": 0,
        "name": "TrainingWorkerOfALongName.__init__",
        "state": "PENDING_NODE_ASSIGNMENT",
        "actor_id": "1" * 32,
        "error_type": "TASK_EXECUTION_EXCEPTION",
        "worker_pid": 1_234_567,
    }
    lines = tables.table([row] * 3, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert "NAME" in lines[0]
    assert "STATE" in lines[0]


def test_a_narrow_column_stays_where_a_wide_one_was_removed():
    row = {"node_id": "a" * 56, "ip": "1", "labels": "b" * 60, "state": "ALIVE"}
    first, *_ = tables.table([row], 80).splitlines()
    assert first.split() == ["NODE_ID", "IP", "STATE"]


def test_counts_of_states_are_wrapped_and_not_cut():
    counts = {"FINISHED": 83, "RUNNING": 1, "PENDING_NODE_ASSIGNMENT": 76, "FAILED": 12}
    text = tables.table([{"group": "say", "state_counts": counts}], 40)
    assert max(map(len, text.splitlines())) <= 40
    assert "FAILED: 12" in text.replace("\n", " ")


@given(
    st.lists(
        st.fixed_dictionaries(dict.fromkeys(TASK, st.text("ab -_9", max_size=70))), max_size=3
    ),
    st.integers(20, 200),
)
def test_every_row_has_its_id(rows, width):
    rows = [{**row, "task_id": f"id-{number}"} for number, row in enumerate(rows)]
    text = tables.table(rows, width)
    assert [text.count(row["task_id"]) for row in rows] == [1] * len(rows)


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_document_is_read_back(form, read):
    found = {"nodes": [{"ip": "127.0.0.1", "resources": {"CPU": 2.0}}], "pending": ()}
    assert read(tables.document(found, form)) == {**found, "pending": []}


def test_a_duration_in_milliseconds_is_no_date():
    assert tables.cell("creation_time_ms", 1234.5) == "1,234 ms"
    assert tables.cell("creation_time_ms", 1_700_000_000_000).startswith("2023-11-1")
    assert tables.cell("end_time_ms", 0) == ""
