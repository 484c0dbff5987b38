"""The tables of the pages: which rows they have."""

from __future__ import annotations

import time
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
from _plugin_parts import JOB, run

from raycompat._protocol import failures
from raycompat._protocol.spans import Failure
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.pages import documents, table_widget, tables
from raycompat._scheduler.pages.table_widget import Table, arranged
from raycompat._scheduler.pages.tables import _sampled, failed, sentence


def table_of(rows, name="gpus"):
    core = SimpleNamespace(surveys=SimpleNamespace(last=SimpleNamespace(warning="")))
    table = Table(core, name, lambda *_: rows)
    table.update()
    return table


def add_failed(parts, failure, job=JOB):
    about = {"name": "f", "type": "NORMAL_TASK", "job": job, "actor": None, "group": None}
    about |= {"resources": {}, "address": "", "pid": None}
    ended = time.time() - 60
    parts.history.add_one(f"f-{'0' * 48}", ended - 1, ended, **about, failure=failure)


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
    nothing = float("nan")
    rows = [{"value": each} for each in (None, 2, nothing, "", "B", 0, "a")]
    for is_descending, order in ((False, [0, 2, "a", "B"]), (True, ["B", "a", 2, 0])):
        found = arranged(rows, "value", is_descending=is_descending)
        assert [row["value"] for row in found] == [*order, None, nothing, ""]


def test_a_search_looks_at_what_the_page_shows():
    row = {"name": "node", "state": "ALIVE", "rss": 2048, "joined": 1_700_000_000.0, "left": None}
    table = table_of([row], name="nodes")
    for words, is_found in (
        ("node alive", True),
        ("none", False),
        ("2048", False),
        ("17000", False),
    ):
        table.source.tags = [{"search": words}]
        assert bool(table.source.data["name"]) is is_found, words


def test_a_job_of_an_address_leaves_its_rows_and_those_of_no_job():
    rows = [
        {"id": "f", "jobs": {"01", "02"}},
        {"id": "g", "jobs": {"02"}},
        {"id": "actor", "job": "01"},
        {"id": "submitted", "job": None},
        {"id": "node"},
    ]
    table = table_of(rows, name="objects")
    documents.show_asked(table, {"job": "01"})
    assert table.source.data["id"] == ["f", "actor", "node"]
    table.source.tags = [{**table.source.tags[0], "search": "act"}]  # as the browser does
    assert table.source.data["id"] == ["actor"]
    documents.show_asked(table, {"job": "01", "objects.id": "f"})
    assert table.source.data["id"] == ["f"]


def test_the_functions_of_a_job_count_its_calls_only(monkeypatch):
    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        add_failed(parts, Failure("TASK_EXECUTION_EXCEPTION", "ValueError: no"))
        add_failed(parts, Failure("TASK_EXECUTION_EXCEPTION", "ValueError: 2"), job="02")
        cluster.hold("f-2", "driver")
        (row,) = tables.functions(parts)
        assert (row["failed"], row["running"]) == (2, 1)
        (row,) = tables.functions(parts, JOB)
        assert (row["failed"], row["running"], row["error"]) == (1, 1, "ValueError: no")
        (row,) = tables.functions(parts, "02")
        assert (row["failed"], row["running"], row["error"]) == (1, 0, "ValueError: 2")
        (row,) = failed(parts)
        assert row["times"] == 2
        assert [(each["times"], each["error"]) for each in failed(parts, JOB)] == [
            (1, "ValueError: no")
        ]
        assert failed(parts, "03") == []

    run(monkeypatch, 1, test)


def test_an_address_names_exactly_its_rows():
    names = ["f", "fail", "a name & more", "f f"]
    table = table_of([{"name": each} for each in names], name="functions")
    for name in names:
        address = tables._address("tasks", "functions", "name", name)
        page, _, asked = address.partition("?")
        table.source.tags = []
        documents.show_asked(table, {each: value for each, (value,) in parse_qs(asked).items()})
        assert table.source.data["name"] == [name]
        assert f'href="{page}"' in table._below.text
    table.source.tags = [{"search": "f"}]
    assert table.source.data["name"] == ["f", "fail", "f f"]


def test_all_fields_of_an_address_count():
    rows = [{"node": "a:1", "gpu": gpu, "busy": None} for gpu in (1, 10)]
    table = table_of(rows, name="gpus")
    documents.show_asked(table, {"gpus.node": "a:1", "gpus.gpu": "1", "gpus.busy": ""})
    assert table.source.data["gpu"] == [1]


@pytest.mark.parametrize("of", ["actor", "function", "job", "node"])
def test_all_is_well_stands_above_no_failure(monkeypatch, of):
    def fail(parts):
        if of == "actor":
            error = failures.actor_died("exit code 3", "A-1")
            parts.endings.actor_died(ActorRow(key="A-1", job=JOB, error=error), error)
        elif of == "function":
            add_failed(parts, Failure("TASK_EXECUTION_EXCEPTION", "ValueError: no"))
        elif of == "job":
            request = SimpleNamespace(entrypoint="python a.py")
            about = {"id": "a", "status": "FAILED", "message": "exit code 1", "ended": time.time()}
            parts.submissions.by_id["a"] = SimpleNamespace(request=request, driver=None, **about)
        else:
            parts.nodes.left("tcp://node-1", is_worker=False)

    def test(cluster):
        is_well, text = sentence(cluster.parts)
        assert (is_well, failed(cluster.parts)) == (True, [])
        assert text.startswith("All is well on 2 nodes")
        fail(cluster.parts)
        assert [row["of"] for row in failed(cluster.parts)] == [of]
        is_well, text = sentence(cluster.parts)
        assert not is_well
        assert f"1 {of} " in text
        assert "in the last 5 minutes" in text

    run(monkeypatch, 2, test)


def test_waiting_calls_are_counted_and_not_their_requests(monkeypatch):
    caller = {"job": JOB, "counts": {"f": 1_052, "Actor.g": 5}, "by_actor": {"A-1": 5}}
    caller |= {"home": None, "own_bytes": 0}
    running = [("lease-1", "f-1", "f", 0.0, 1), ("A-1", "g-1", "Actor.g", 0.0, 2)]

    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        cluster.hold("lease-1", "driver", "lease")
        cluster.hold("A-1", "driver", "actor")
        cluster.hold("f-2", "driver")
        for number in range(2, 5):
            cluster.enqueue(f"lease-{number}", "driver", kind="lease")
        assert tables._waiting_calls(parts, of_actors=True) == {JOB: 3}  # before the first survey
        parts.surveys.last.callers["driver"] = caller
        parts.surveys.last.nodes["tcp://node-0"] = {"running": running, "granted": {}}
        assert tables._waiting_calls(parts, of_actors=True) == {JOB: 1_054}
        cluster.enqueue("A-2", "driver", kind="actor")
        assert tables._waiting_calls(parts, of_actors=True) == {JOB: 1_055}
        assert sentence(parts) == (
            True,
            "1,051 calls wait for resources or arguments, the first for 60 s (2 nodes).",
        )

    run(monkeypatch, 2, test)


@pytest.mark.parametrize("who", ["cancel", "kill", "group", "dismiss", "restart"])
def test_what_programs_and_users_end_is_no_failure(monkeypatch, who):
    errors = {
        "cancel": failures.cancelled("f-1"),
        "kill": failures.actor_killed("A-1"),
        "group": failures.group_removed(),
    }

    async def test(cluster):
        parts = cluster.parts
        if who in errors:
            add_failed(parts, failures.failure_of(errors[who]))
            (function,) = parts.history.functions.values()
            assert (function.num_failed, function.failed_at) == (1, 0.0)
            assert function.last_error
            add_failed(parts, failures.failure_of(failures.actor_died("exit code 3", "A-1")))
            died_at, said = function.failed_at, function.last_error
            assert 50 < time.time() - died_at < 70  # it is when the call ended, not the report
            add_failed(parts, failures.failure_of(errors[who]))
            assert (function.num_failed, function.failed_at) == (3, died_at)
            assert function.last_error == said
            return
        if who == "dismiss":
            parts.nodes.left("tcp://node-1")
        else:

            async def remove(address):
                parts.nodes.left(address, is_worker=False)

            parts.restarts._ending["tcp://node-1"] = " The Dask worker was restarted by its user."
            await parts.restarts._remove_worker(remove, "its user", "tcp://node-1")
        assert [each["is_expected"] for each in parts.ground.nodes.departed] == [True]
        assert failed(parts) == []
        assert sentence(parts)[0]

    run(monkeypatch, 2, test)


def test_an_update_that_takes_long_is_not_repeated_until_something_else_is_wanted(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(table_widget.time, "monotonic", lambda: next(now))
    rows = [{"gpu": 1}]
    table = table_of(rows)
    rows.append({"gpu": 2})
    table.update()
    assert table.source.data["gpu"] == [1]
    table.source.tags = [{"sort": "gpu"}]
    assert table.source.data["gpu"] == [1, 2]


def test_a_node_has_the_name_that_its_user_gave(monkeypatch):
    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        parts.nodes.info["tcp://node-0"] |= {"name": "alice", "ip": "10.0.0.1"}
        parts.nodes.info["tcp://node-1"] |= {"name": "10.0.0.1", "ip": "10.0.0.1"}
        assert [row["node"] for row in tables.stores(parts)] == ["alice", "node-1"]

    run(monkeypatch, 2, test)


def test_a_node_that_has_left_keeps_its_name(monkeypatch):
    def test(cluster):
        cluster.parts.nodes.info["tcp://node-0"] |= {"name": "alice", "ip": "10.0.0.1"}
        cluster.leave("tcp://node-0")
        assert tables.node_of(cluster.parts, "tcp://node-0") == "alice"

    run(monkeypatch, 2, test)


def test_nodes_of_one_name_have_their_ports_too_so_that_each_has_bars_of_its_own(monkeypatch):
    def test(cluster):
        parts = cluster.parts
        monkeypatch.setattr(parts.surveys, "refresh", lambda: parts.surveys.last)
        for info in parts.nodes.info.values():
            info |= {"name": "alice", "ip": "10.0.0.1"}
        both = ["alice (node-0)", "alice (node-1)"]
        assert [row["node"] for row in tables.stores(parts)] == both
        page = documents.Usage(parts)
        page.update()
        factors = page._labels.factors
        assert factors
        assert len(factors) == len(set(factors))

    run(monkeypatch, 2, test)


def test_rows_of_raycompat_itself_are_shown_if_they_have_failed_or_are_wanted():
    own = {"class": "SplitCoordinator", "is_internal": True}
    rows = [{"id": "1", "class": "Mine"}, {"id": "2", **own}, {"id": "3", **own, "is_failed": True}]
    table = table_of(rows, name="actors")
    assert table.source.data["id"] == ["1", "3"]
    assert table._below.text.startswith("Rows: 2. ")
    assert "Of raycompat itself: 1, not shown." in table._below.text
    table.source.tags = [{"internal": True}]
    assert table.source.data["id"] == ["1", "2", "3"]
    assert "itself" not in table._below.text
    documents.show_asked(table, {"actors.id": "2"})
    assert table.source.data["id"] == ["2"]


def test_what_users_have_typed_stays_text():
    table = table_of([], name="trials")
    assert "<" not in table.root.children[0].text.partition('"')[2].rpartition('"')[0]


@pytest.mark.parametrize("address", ["tcp://node-0", None])  # None: it never ran
def test_an_actor_whose_placement_group_was_removed_has_not_failed(monkeypatch, address):
    def test(cluster):
        actors = cluster.parts.ground.actors.rows
        actors["A-1"] = ActorRow(key="A-1", job=JOB, address=address)
        assert failures.is_expected(cluster.parts.groups.why_it_is_gone("A-1"))
        assert not failures.is_expected(failures.actor_died("exit code 3", "A-1"))

    run(monkeypatch, 2, test)
