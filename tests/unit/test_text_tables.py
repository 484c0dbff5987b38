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


OBJECT = {
    "object_id": "6ddeaaa3bd0eb8114c81a32a663f9674000000000000286b00000001",
    "object_size": 20_000_000,
    "call_site": "/home/user/program.py:main:17 | /home/user/program.py:<module>:30",
    "reference_type": "LOCAL_REFERENCE",
    "task_status": "SUBMITTED_TO_WORKER",
}


@pytest.mark.parametrize("width", [60, 70, 80, 90])
@pytest.mark.parametrize("row", [OBJECT, TASK], ids=["object", "task"])
def test_what_has_no_room_beside_the_id_is_below_it(row, width):
    id = next(iter(row))
    first, *lines = tables.table([row] * 3, width).splitlines()
    assert max(map(len, [first, *lines])) <= width
    assert sum(line.startswith(row[id]) for line in lines) == 3
    heading = [*first.split(), *lines[0].split()]
    important = "name" if row is TASK else "object_size"
    assert heading[0] == id.upper()
    assert important.upper() in heading
    if width == 60:
        assert first == id.upper()
        assert lines[0].startswith("  ")
        assert [lines[at].strip() for at in (1, 3, 5)] == [row[id]] * 3


def test_no_word_of_a_heading_is_cut():
    counts = {"NIL": 8, "SUBMITTED_TO_WORKER": 5034, "FINISHED": 4958}
    row = {"group": "disabled", "total_objects": 10_000, "task_state_counts": counts}
    text = tables.table([{**row, "total_size_mb": 50.68656826019287}], 45)
    assert max(map(len, text.splitlines())) <= 45
    parts = "TOTAL_ OBJECTS TASK_ STATE_ COUNTS SIZE_ MB TOTAL_OBJECTS TASK_STATE_ TOTAL_SIZE_MB"
    heading = text.partition("disabled")[0].replace("GROUP", "")
    assert {*heading.split()} <= {
        *parts.split(),
        "TOTAL_SIZE_",
        "STATE_COUNTS",
        "TASK_STATE_COUNTS",
    }
    assert "50.6866" in text
    assert "50.68656" not in text


def test_headings_and_sentences_fit_the_window_and_addresses_stay_whole():
    link = "http://127.0.0.1:8787/a-long-path/" + "x" * 60
    text = tables.headed("Summary of tasks by func_name", {"dashboard": link}, "body", 60)
    first, *lines = text.splitlines()
    assert 50 < len(first) <= 60
    assert any(line.strip() == link for line in lines)
    folded = tables.folded("Start\n  " + "word " * 30, 40).splitlines()
    assert max(map(len, folded)) <= 40
    assert [line[: len(line) - len(line.lstrip())] for line in folded[:3]] == ["", "  ", "      "]
    assert tables.folded("word " * 30, None) == "word " * 30


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
