"""Which rows of the state match, what is returned of them, and what is refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._scheduler.state import summaries
from raycompat._scheduler.state.query import Absent, Query
from raycompat.util.state import common
from raycompat.util.state.common import ListApiOptions, TaskState, WorkerState


def run(rows, filters=(), limit=100, *, schema=TaskState, detail=False, **how):
    async def source():
        for row in rows:
            yield row

    return asyncio.run(Query(schema, filters, limit, detail=detail, **how).run(source()))


def task(number, **fields):
    return {"task_id": f"{number:048x}", "name": "f", "state": "FINISHED", **fields}


def test_rows_come_in_the_order_of_their_ids_up_to_the_limit():
    found = run([task(3), task(1), task(2)], limit=2)
    assert [row["task_id"][-1] for row in found["result"]] == ["1", "2"]
    assert (found["num_filtered"], found["num_after_truncation"], found["total"]) == (3, 3, 3)


@pytest.mark.parametrize(("limit", "expected"), [(2, ["2", "3"]), (100, ["1", "2", "3"])])
def test_of_too_many_events_the_last_ones_are_kept(limit, expected):
    rows = [task(3), task(1), task(2)]
    found = run(rows, limit=limit, keeps_last=True)
    assert [row["task_id"][-1] for row in found["result"]] == expected


def test_only_the_fields_that_were_asked_for_are_returned():
    rows = [task(1, language="PYTHON", more="of no field")]
    assert run(rows)["result"][0].keys() == TaskState.base_columns()
    detailed = run(rows, detail=True)["result"][0]
    assert detailed.keys() == TaskState.columns()
    assert detailed["language"] == "PYTHON"
    assert detailed["parent_task_id"] is None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("state", "=", "failed")], [2]),
        ([("STATE", "!=", "FAILED")], [1, 3]),
        ([("attempt_number", "=", "1")], [3]),
        ([("attempt_number", "=", 1)], [3]),
        ([("attempt_number", "=", "one")], []),
        ([("name", "=", "f"), ("state", "=", "FINISHED")], [1, 3]),
        ([("actor_id", "!=", "a")], [1, 2, 3]),
        ([("actor_id", "=", "a")], []),
    ],
)
def test_filters(filters, expected):
    rows = [
        task(1, attempt_number=0),
        task(2, attempt_number=0, state="FAILED"),
        task(3, attempt_number=1),
    ]
    found = run(rows, filters)
    assert [int(row["task_id"], 16) for row in found["result"]] == expected


@pytest.mark.parametrize("value", [True, "True", "true", "1"])
def test_booleans_may_be_texts(value):
    rows = [{"worker_id": "a", "is_alive": True}, {"worker_id": "b", "is_alive": False}]
    found = run(rows, [("is_alive", "=", value)], schema=WorkerState)
    assert [row["worker_id"] for row in found["result"]] == ["a"]


@pytest.mark.parametrize("field", ["call_site", "no_such_field", ""])
def test_other_fields_are_refused_with_those_that_there_are(field):
    with pytest.raises(ValueError, match="Supported filter columns: actor_id, attempt_number"):
        Query(TaskState, [(field, "=", 1)], 1, detail=False)


@pytest.mark.parametrize("wrong", [("state", "<", 1), ("state", "="), "state=1", None])
def test_what_is_no_filter_is_refused(wrong):
    with pytest.raises(ValueError, match="filter"):
        ListApiOptions(filters=[wrong])


def test_what_is_missing_is_said():
    found = run([task(1), "Process 7 did not answer.", Absent(40, True), Absent(5, False)])
    assert found["warnings"] == ["Process 7 did not answer."]
    assert (found["total"], found["num_after_truncation"], found["num_filtered"]) == (46, 6, 1)


def test_rows_of_which_not_all_is_known_may_match():
    query = Query(TaskState, [("name", "=", "f"), ("task_id", "=", "1")], 1, detail=False)
    assert query.may_match({"name": "F"})
    assert query.may_match({})
    assert not query.may_match({"name": "g"})


def test_the_sums_of_tasks_are_all_tasks():
    kinds = ["NORMAL_TASK", "ACTOR_TASK", "ACTOR_CREATION_TASK"]
    rows = [task(n, name=f"f{n % 4}", type=kinds[n % 3]) for n in range(12)]
    found = summaries.of_tasks((row, 10) for row in rows)
    assert (
        found["total_tasks"] == found["total_actor_tasks"] == found["total_actor_scheduled"] == 40
    )
    assert sum(sum(each["state_counts"].values()) for each in found["summary"].values()) == 120


@given(st.lists(st.tuples(st.integers(-1, 10**9), st.integers(1, 3)), max_size=20))
def test_objects_of_unknown_size_count_as_objects_but_not_as_bytes(objects):
    rows = [
        {
            "object_size": size,
            "pid": pid,
            "ip": "10.0.0.1",
            "call_site": "disabled",
            "task_status": "FINISHED",
            "attempt_number": 1,
            "reference_type": "LOCAL_REFERENCE",
        }
        for size, pid in objects
    ]
    found = summaries.of_objects(rows)
    known = sum(size for size, _ in objects if size > 0)
    assert found["total_objects"] == len(objects)
    assert found["total_size_mb"] == pytest.approx(known / 2**20)
    if objects:
        assert found["summary"]["disabled"]["total_num_workers"] == len({p for _, p in objects})


@pytest.mark.parametrize("schema", [schema for schema, _ in common.SCHEMAS.values()])
def test_fields_can_be_read_as_keys(schema):
    row = schema(**dict.fromkeys(schema.list_columns(detail=False)))
    first = schema.list_columns()[0]
    row[first] = "changed"
    assert row[first] == row.get(first) == getattr(row, first) == row.asdict()[first]
    assert row.get("no such field", 3) == 3
    assert schema.filterable_columns() <= schema.columns()
