"""The page of single calls: which rows are found and shown, and in which order."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from raycompat._protocol.spans import Failure, pack
from raycompat._scheduler.history import EndedCalls, History
from raycompat._scheduler.node_table import NodeTable
from raycompat._scheduler.pages import calls as pages
from raycompat._scheduler.pages import sliced_table
from raycompat._scheduler.pages.documents import show_asked

FAILURE = Failure("TASK_EXECUTION_EXCEPTION", "ValueError: no")


def task(number):
    return f"{number:048x}"


def ended(name, numbers, *, failure=None, job="01", took=1.0, **about):
    """Return a span with a call for each number, which started at that second."""
    times = [(task(number), float(number), number + took) for number in numbers]
    known = {"type": "NORMAL_TASK", "actor": None, "group": None, "resources": {}, "pid": 7}
    known |= {"address": "tcp://host:1", **about}
    return EndedCalls(
        name=name, job=job, failure=failure, count=len(times), calls=pack(times), **known
    )


def unfinished(number, state, **about):
    row = {"task_id": task(number), "name": "waits", "state": state, "node_id": None}
    return {**row, "worker_pid": None, "job_id": "01", "start_time_ms": None, **about}


@pytest.fixture
def history():
    return History()


@pytest.fixture
def waiting():
    return []


@pytest.fixture
def page(history, waiting):
    nodes = NodeTable(None, None)
    nodes.info["tcp://host:1"] = {"node_id": "n1", "name": "", "ip": "host"}
    findings = SimpleNamespace(callers={})
    surveys = SimpleNamespace(refresh=lambda: findings, last=SimpleNamespace(warning=""))
    tasks = SimpleNamespace(unfinished=lambda findings, most: list(waiting))
    parts = SimpleNamespace(
        history=history,
        nodes=nodes,
        ground=SimpleNamespace(nodes=nodes),
        surveys=surveys,
        state=SimpleNamespace(tasks=tasks),
        actors=SimpleNamespace(internal_ids=lambda: {"own"}),
    )
    return pages.Calls(parts)


def shown(page, *fields, **wish):
    """Return some fields of the rows that are shown."""
    page._wanted = ""
    page.source.tags = [wish]
    page.update()
    end_search(page)
    columns = [page.source.data[field] for field in fields]
    return list(columns[0]) if len(fields) == 1 else list(zip(*columns, strict=True))


def end_search(page):
    """Go on with a search until its result is shown; return the number of its other slices."""
    count = 0
    while page.is_searching:
        page._shared.next_slice = 0.0
        page.update()
        count += 1
    return count


def said(page):
    return next(each.text for each in page.root.children if each.name == "calls-below")


def test_running_calls_are_first_then_the_newest_ended_and_waiting_ones_last(
    page, history, waiting
):
    history.add(ended("f", [1, 2, 3]))
    history.add(ended("g", [4], failure=FAILURE))
    waiting += [
        unfinished(8, "PENDING_ARGS_AVAIL"),
        unfinished(9, "RUNNING", node_id="n1", worker_pid=5, start_time_ms=1000),
    ]
    found = shown(page, "id", "state")
    states = ["RUNNING", "FAILED", *["FINISHED"] * 3, "PENDING_ARGS_AVAIL"]
    assert found == list(zip(map(task, [9, 4, 3, 2, 1, 8]), states, strict=True))
    assert page.source.data["error"][1] == "ValueError: no"
    assert page.source.data["is_failed"][1]
    assert (page.source.data["node"][0], page.source.data["pid"][0]) == ("host:1", 5)
    assert f"process=host%3A1%205&task={task(9)}" in page.source.data["log"][0]
    assert page.source.data["log"][-1] == ""
    assert said(page).startswith("Rows: 6. ")


def test_an_address_names_a_function_a_call_and_an_attempt(page, history):
    history.add(ended("f", [1], failure=FAILURE))
    history.add(ended("f", [1], failure=FAILURE, took=2.0))
    history.add(ended("f", [1, 2], took=3.0))
    history.add(ended("other", [5]))
    assert shown(page, "attempt", "state", exact={"id": task(1)}) == [
        (2, "FINISHED"),
        (1, "FAILED"),
        (0, "FAILED"),
    ]
    assert "Rows: 5, 3 found. " in said(page)
    show_asked(page, {"calls.id": task(1), "calls.attempt": "1"})
    end_search(page)
    assert list(page.source.data["seconds"]) == [2.0]
    assert sorted(shown(page, "name", exact={"name": "f"})) == ["f"] * 4
    assert shown(page, "name", exact={"name": "f", "job": "02"}) == []
    assert shown(page, "name", exact={"id": "not an id"}) == []


def test_words_are_found_in_what_calls_have_in_common_and_parts_of_ids_in_ids(page, history):
    history.add(ended("load", [0x10, 0x20]))
    history.add(ended("load", [0xABC], failure=FAILURE))
    history.add(ended("other", [0xABE]))
    assert shown(page, "id", search="LOAD valueerror") == [task(0xABC)]
    assert shown(page, "id", search="load abc") == [task(0xABC)]
    assert shown(page, "id", search="load abe") == []
    assert shown(page, "id", search="0020") == [task(0x20)]


@pytest.mark.parametrize(
    ("field", "is_descending", "numbers"),
    [
        ("seconds", True, [1, 2, 3, 4]),
        ("seconds", False, [3, 4, 1, 2]),
        ("start", True, [4, 3, 2, 1]),
        ("name", True, [3, 4, 1, 2]),
        ("error", False, [3, 4, 1, 2]),
    ],
)
def test_all_calls_are_sorted_and_not_only_those_in_view(
    page, history, monkeypatch, field, is_descending, numbers
):
    history.add(ended("a", [1, 2], took=5.0))
    history.add(ended("b", [3, 4], failure=FAILURE))
    found = shown(page, "id", sort=field, down=is_descending)
    assert [int(each, 16) for each in found] == numbers
    page._most = 1
    assert [int(each, 16) for each in shown(page, "id", sort=field, down=is_descending)] == (
        numbers[:1]
    )
    assert "1 shown: search to see others" in said(page)


def test_a_job_has_its_own_calls(page, history, waiting):
    history.add(ended("f", [1]))
    history.add(ended("f", [2], job="02"))
    waiting.append(unfinished(3, "PENDING_ARGS_AVAIL"))
    assert shown(page, "id", job="02") == [task(2)]
    assert shown(page, "id", job="01") == [task(1), task(3)]


def test_without_calls_the_page_says_so(page):
    assert shown(page, "id") == []
    assert said(page) == "No call has been made. "


def test_calls_of_raycompat_itself_are_shown_if_they_have_failed_or_are_wanted(
    page, history, waiting
):
    history.add(ended("f", [1]))
    history.add(ended("Own.work", [2, 3], is_internal=True))
    history.add(ended("Own.work", [4], failure=FAILURE, is_internal=True))
    waiting.append(unfinished(5, "RUNNING", name="Own.work", actor_id="own"))
    assert shown(page, "id") == [task(4), task(1)]
    assert said(page).endswith("Of raycompat itself: 3, not shown. ")
    assert len(shown(page, "id", internal=True)) == 5
    assert shown(page, "id", exact={"id": task(2)}) == [task(2)]


def test_calls_of_users_are_shown_whose_class_has_a_name_of_raycompats(page, history, waiting):
    history.add(ended("Own.work", [1]))
    history.add(ended("Own.work", [2], is_internal=True))
    waiting.append(unfinished(3, "RUNNING", name="Own.work", actor_id="theirs"))
    assert set(shown(page, "id")) == {task(1), task(3)}


@pytest.fixture
def clock(monkeypatch):
    """The clock of pages, which a test sets; every look at it takes a millisecond."""
    now = SimpleNamespace(s=1000.0)

    def look():
        now.s += 0.001
        return now.s

    monkeypatch.setattr(pages, "time", SimpleNamespace(time=lambda: now.s))
    monkeypatch.setattr(sliced_table, "time", SimpleNamespace(monotonic=look))
    return now


def test_a_search_runs_in_slices_and_is_not_repeated_soon(page, history, clock):
    for number in range(5_000):
        history.add(ended("f", [number], took=number % 7))
    page.source.tags = [{"sort": "seconds", "down": True}]
    began = clock.s
    assert page.is_searching
    assert list(page.source.data["id"]) == []
    page.update()  # the scheduler has its turn
    assert clock.s - began < 2 * sliced_table._BETWEEN_SLICES_S
    assert end_search(page) > 5
    assert set(page.source.data["seconds"]) == {6.0}
    history.add(ended("g", [9_999], took=99.0))
    clock.s += 15 * page._took_s
    page.update()
    assert page.source.data["name"][0] == "f"
    clock.s += 15 * page._took_s
    page.update()
    end_search(page)
    assert page.source.data["name"][0] == "g"


def test_a_new_wish_ends_a_search(page, history, clock):
    for number in range(5_000):
        history.add(ended("f", [number]))
    page.source.tags = [{"sort": "seconds"}]
    page._shared.next_slice = 0.0
    page.source.tags = [{"search": task(4_321)}]
    end_search(page)
    assert list(page.source.data["id"]) == [task(4_321)]


def test_viewers_who_want_the_same_share_one_search(page, history, clock):
    other = pages.Calls(page._parts)
    for each in (page, other):
        each.source.tags = [{"search": "f"}]
        end_search(each)
    history.add(ended("f", [1]))
    clock.s += 10.0
    page._shared.next_slice = 0.0
    page.update()
    end_search(page)
    assert list(page.source.data["id"]) == [task(1)]
    clock.s += 0.2
    other.update()
    assert not other.is_searching
    assert list(other.source.data["id"]) == [task(1)]


def in_a_browser(page, due):
    """Let a page add the callbacks of its document to a list, each with its milliseconds."""
    document = SimpleNamespace(
        session_context=object(), add_timeout_callback=lambda *callback: due.append(callback)
    )
    page.root = SimpleNamespace(document=document)


def test_viewers_who_want_different_rows_take_turns(page, history, clock):
    for number in range(5_000):
        history.add(ended("f", [number]))
    due = []
    searching = [page, pages.Calls(page._parts)]
    for number, each in enumerate(searching):
        in_a_browser(each, due)
        each.source.tags = [{"sort": "seconds", "search": str(number)}]
    for _ in range(20):  # the updates of every page
        for each in searching:
            each.update()
    assert [milliseconds for _, milliseconds in due] == [10, 20]


def test_a_search_that_fails_begins_again(page, history, clock, monkeypatch):
    def fail(wish):
        raise KeyError(wish["search"])
        yield

    with monkeypatch.context() as patch:
        patch.setattr(page, "_steps", fail)
        with pytest.raises(KeyError):
            page.source.tags = [{"search": "f"}]
        assert not page.is_searching
    history.add(ended("f", [1]))
    clock.s += 1.0
    page.update()
    end_search(page)
    assert list(page.source.data["id"]) == [task(1)]
