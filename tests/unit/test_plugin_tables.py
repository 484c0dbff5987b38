"""What the scheduler plugin keeps, and for how long: no table grows with what has ended."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
from _plugin_parts import JOB, RecordedDask, run

from raycompat._messages.actors import ActorEnded
from raycompat._messages.calls import Blocked, EndedByLease, Result, Schedule, Submit
from raycompat._messages.groups import CreateGroup, RemoveGroup
from raycompat._messages.jobs import JobEnded
from raycompat._messages.nodes import NodeReady, Resources
from raycompat._messages.watching import Gpus
from raycompat._protocol import failures, ids
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.spans import Span, pack
from raycompat._protocol.strategy import InGroup
from raycompat._scheduler import node_table, run_times
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.functions import Functions
from raycompat._scheduler.job_table import Job
from raycompat._scheduler.pages import tables
from raycompat._scheduler.run_times import RunTimes


@pytest.fixture
def in_loop(monkeypatch):
    """Return a function that runs a test in an event loop, with a cluster."""
    return lambda test: run(monkeypatch, 2, test)


def leave(cluster, address, info):
    """Let a node come and leave."""
    ground = cluster.parts.ground
    ground.ledger.add_node(address, ResourceSet.from_amounts({"CPU": 1}))
    ground.nodes.info[address] = info
    ground.nodes.remove(address, is_expected=False)
    ground.ledger.remove_node(address)


def open_job(cluster, client="driver", *, orphaned=False):
    job = Job(JOB, client, "n", {"driver_pid": 1}, None, orphaned=orphaned)
    cluster.parts.jobs.open[JOB] = job
    return job


def test_an_actor_whose_calls_all_have_different_names_fills_no_table(monkeypatch):
    monkeypatch.setattr(run_times, "_MANY_NAMES", 3)
    dask, ended = RecordedDask([]), []
    dask.states["A-1"] = "processing"
    times = RunTimes(dask, ended.append)

    def counted():
        sums = Counter()
        for name, *arguments in dask.instructions:
            if name == "count_in_progress":
                sums[arguments[0]] += arguments[2]
        return sums

    for number in range(10):
        name = f"call-{number % 5}"
        task = f"{name}-{ids.new_task_id()}"
        span = Span(name, task, 1, 1.0, 2.0, None, pack([(task, 1.0, 2.0)]))
        times.show("tcp://node-0", "A-1", 1, [span], JOB)
    assert counted() == {"call-0": 2, "call-1": 2, "call-2": 2}
    times.forget("A-1")
    assert not +counted()
    assert ended == ["call-0", "call-1", "call-2"]


def test_a_request_for_a_function_ends_with_its_job():
    async def wait():
        functions, over = Functions(), set()
        asked = [
            asyncio.ensure_future(functions.get("f", lambda job=job: job in over))
            for job in ("one", "two")
        ]
        await asyncio.sleep(0)
        over.add("one")
        functions.end_job("one")
        with pytest.raises(LookupError, match="has ended"):
            await asked[0]
        functions.export("two", "f", b"code")
        assert await asked[1] == b"code"
        assert not functions._waiters

    asyncio.run(asyncio.wait_for(wait(), 20))


def test_code_is_forgotten_with_the_last_call_of_a_function_that_gets_no_more():
    forgotten = []
    functions = Functions()
    functions.on_forgotten = forgotten.append
    for function in "fgh":
        functions.export("one", function, b"code of g and h" if function != "f" else b"code")
    functions.call_came("f")
    functions.call_came("f")
    functions.forget("f")
    functions.call_left("f")
    assert not forgotten  # a call of it may run again
    functions.call_left("f")
    functions.forget("g")
    assert forgotten == ["f", "g"]
    assert list(functions._functions) == ["h"]
    assert list(functions._codes.values()) == [b"code of g and h"]
    functions.forget("unknown")
    functions.forget("f")
    functions.call_came("h")
    functions.forget("h")
    functions.export("two", "h", b"the caller has it again")
    functions.call_left("h")
    assert list(functions._functions) == ["h"]
    functions.end_job("one")
    functions.end_job("two")
    assert not any((functions._functions, functions._codes, functions._uses, functions._by_job))
    assert not any((functions._num_calls, functions._without_caller))


def test_a_late_request_for_forgotten_code_ends():
    async def wait():
        functions = Functions()
        functions.export("one", "f", b"code")
        functions.forget("f")
        with pytest.raises(LookupError, match="have ended"):
            await functions.get("f", lambda: False)
        functions.export("one", "f", b"code")
        assert await functions.get("f", lambda: False) == b"code"

    asyncio.run(asyncio.wait_for(wait(), 20))


def test_messages_of_a_node_that_has_left_change_nothing(in_loop):
    """Its calls and actors may be on other nodes by then."""

    def test(cluster):
        actors, calls = cluster.parts.actors, cluster.parts.calls
        row = actors.rows["A-1"] = ActorRow(key="A-1", job=JOB, state="ALIVE")
        cluster.hold("waits", "driver")
        holding = calls.by_key["waits"].holding
        del cluster.dask.all_workers["tcp://node-0"]
        late = {"worker": "tcp://node-0"}
        error = failures.actor_died("late", "A-1")
        cluster.handle(ActorEnded("A-1", error), **late)
        assert row.state == "ALIVE"
        cluster.handle(Blocked("waits"), **late)
        assert not cluster.parts.ground.ledger.is_lent(holding)
        cluster.handle(NodeReady({"version": "0"}), **late)
        assert not cluster.parts.ground.nodes.unfit
        cluster.handle(Blocked("waits"), worker="tcp://node-1")
        assert cluster.parts.ground.ledger.is_lent(holding)

    in_loop(test)


def test_a_call_that_dask_refuses_is_forgotten(in_loop):
    def test(cluster):
        open_job(cluster)
        call = dict(cluster.add("another", "driver").spec)
        call |= {"key": "f-1", "payload": b"", "deps": [], "strategy": "DEFAULT", "retries": 0}

        def refuse(name, *_):
            if name == "add_task":
                raise RuntimeError("refused")

        cluster.dask.on_instruction = refuse
        cluster.parts.calls.submit("driver", Submit([{**call, "runs_by_lease": False}]))
        assert "f-1" not in cluster.parts.calls.by_key
        assert not cluster.parts.ground.calls.of_owner("driver")
        ((client, message),) = cluster.sent
        assert (client, message.key, message.unknown) == ("driver", "f-1", True)

    in_loop(test)


def test_nodes_are_told_once_when_the_last_detached_actor_of_a_driver_has_died(in_loop):
    def test(cluster):
        open_job(cluster, orphaned=True).setup["program"] = b""
        cluster.parts.endings.job_left = lambda job: None
        for number in range(5):
            key = f"A-{number}"
            row = ActorRow(key=key, job=JOB, state="ALIVE", detached=True)
            cluster.parts.ground.actors.rows[key] = row
        for key in list(cluster.parts.ground.actors.rows):
            cluster.parts.actors.bury(key, failures.actor_killed(key))
        told = [message for _, message in cluster.sent if isinstance(message, JobEnded)]
        assert [message.for_good for message in told] == [True, True]  # for each of two nodes
        assert JOB not in cluster.parts.jobs.open

    in_loop(test)


def test_groups_are_collected_once_for_many_ends(in_loop):
    async def test(cluster):
        collected, collect = [], cluster.parts.groups._collect
        cluster.parts.groups._collect = lambda: collected.append(collect())
        for _ in range(2):
            for _ in range(5):
                cluster.parts.groups.collect_soon()
            await asyncio.sleep(0)
        assert len(collected) == 2

    in_loop(test)


def test_the_ids_of_the_nodes_that_left_last_are_known(in_loop, monkeypatch):
    monkeypatch.setattr(node_table, "_MANY_DEPARTED", 2)

    def test(cluster):
        table = cluster.parts.ground.nodes
        for number, address in enumerate(["a", "b", "a", "c"]):
            info = {"node_id": f"{number}", "name": address, "ip": "10.0.0.1"}
            leave(cluster, address, info)
        assert [table.id_of(each) for each in "abc"] == ["2", None, "3"]
        assert table.id_of("tcp://node-0") == "tcp://node-0"
        assert table.id_of(None) is None

    in_loop(test)


def test_what_a_call_held_is_free_before_its_owner_hears_of_the_end(in_loop):
    def test(cluster):
        ledger, seen = cluster.parts.ground.ledger, []
        cluster.hold("call", "owner")
        assert ledger.cluster_available() != ledger.cluster_total()
        on = cluster.parts.calls.by_key["call"].address
        cluster.dask.on_instruction = lambda *_: seen.append(ledger.cluster_available())
        cluster.handle(Result("call", "owner", pid=1, values=[]), worker=on)
        assert seen == [ledger.cluster_total()]
        assert not cluster.parts.calls.holding

    in_loop(test)


SEGMENT = ("segment", "/dev/shm/store/name", 1 << 20, "host", ())


def test_results_that_a_paused_node_was_to_store_are_lost_with_it(in_loop):
    async def test(cluster):
        open_job(cluster)
        call = cluster.add("f-1", "driver")
        call.runs_by_lease, call.is_ready, call.retries = True, True, 3
        calls, lost = cluster.parts.calls, "tcp://node-0"
        cluster.dask.paused.add(lost)  # so Dask keeps the task back
        kept_back = []

        def keep_back(name, key, *_):
            if name == "release_to":
                kept_back.append(key)
                calls.follow(key, "no-worker", "no-worker")

        cluster.dask.on_instruction = keep_back
        calls.ended_by_lease("driver", EndedByLease("f-1", [SEGMENT], lost, None))
        for _ in range(5):
            await asyncio.sleep(0)
        assert kept_back == ["f-1"]  # it was tried once
        assert call.address == lost
        cluster.dask.on_instruction = lambda *_: None
        del cluster.dask.all_workers[lost]
        cluster.parts.nodes.left(lost)
        await asyncio.sleep(0)
        assert call.results is None
        assert call.retries == 2
        await asyncio.sleep(0)
        assert call.address == "tcp://node-1"  # it runs again

    in_loop(test)


def test_small_results_are_stored_on_a_node_that_is_not_paused(in_loop):
    def test(cluster):
        cluster.dask.paused.add("tcp://node-0")
        inline = ("inline", b"", ())
        assert cluster.parts.objects.keeper("tcp://node-0", [inline]) == "tcp://node-1"
        assert cluster.parts.objects.keeper("tcp://node-0", [SEGMENT]) == "tcp://node-0"

    in_loop(test)


def test_a_lost_result_and_a_node_that_dies_during_the_next_try_cost_a_retry_each(in_loop):
    def test(cluster):
        open_job(cluster)
        call = cluster.add("f-1", "driver")
        call.retries = 3
        follow = cluster.parts.calls.follow
        follow("f-1", "processing", "memory")
        follow("f-1", "memory", "released")
        follow("f-1", "released", "waiting")
        assert call.retries == 2
        follow("f-1", "waiting", "no-worker")
        call.address = "tcp://gone"
        follow("f-1", "processing", "released")
        follow("f-1", "released", "waiting")
        assert call.retries == 1

    in_loop(test)


def test_all_calls_of_a_removed_group_end_when_one_is_forgotten_with_another(in_loop):
    """Their caller has left. So Dask forgets the second of three chained calls when the first fails."""

    def test(cluster):
        calls = cluster.parts.calls
        spec = {"group": "g", "bundles": [{"CPU": 10_000}], "strategy": "PACK", "job": JOB}
        spec["label_selectors"] = []
        cluster.handle(CreateGroup(spec), client="driver")
        for key in ("f-1", "g-2", "h-3"):
            call = cluster.add(key, "driver")
            call.strategy = InGroup("g")
            cluster.parts.ground.calls.enter(key, call)
        failed = []

        def fail(name, key, *_):
            if name == "fail":
                failed.append(key)
                if key == "f-1":
                    calls.follow("g-2", "erred", "forgotten")

        cluster.dask.on_instruction = fail
        cluster.handle(RemoveGroup("g"), client="driver")
        assert failed == ["f-1", "h-3"]
        assert [row.id for row in cluster.parts.groups.removed()] == ["g"]

    in_loop(test)


def test_a_name_that_a_process_of_an_ended_job_has_reserved_is_free(in_loop):
    async def test(cluster):
        open_job(cluster).setup["program"] = b""
        cluster.parts.endings.job_left = lambda job: None
        cluster.dask.all_clients["executor"] = None
        actor = {"name": "one", "namespace": "n", "detached": False, "about": b""}
        actor |= {"class_name": "A", "is_internal": False}
        await cluster.parts.actors.reserve("executor", "A-1", JOB, actor)
        cluster.parts.jobs.client_left("driver")
        cluster.parts.client_left("executor")
        assert not cluster.parts.ground.actors.rows
        assert await cluster.parts.actors.find("one", "n") is None

    in_loop(test)


def test_a_call_that_cannot_be_announced_and_then_leaves_its_lease_fails(in_loop):
    def test(cluster):
        open_job(cluster)
        call = dict(cluster.add("another", "driver").spec)
        call |= {"key": "f-1", "payload": b"", "deps": ["lost-2"], "strategy": "DEFAULT"}
        call |= {"retries": 3, "runs_by_lease": True}
        cluster.handle(Submit([call]), client="driver")
        told = cluster.handle(Schedule("f-1", retries=2), client="driver")
        ((name, client, message),) = told
        assert (name, client, message.key) == ("notify_client", "driver", "f-1")
        assert message.unknown  # the lease may still run it

    in_loop(test)


def test_the_resources_of_all_nodes_are_told_without_the_nodes_and_what_waits(in_loop):
    async def test(cluster):
        cluster.hold("f-1", "driver")
        for number in range(3):
            info = {"node_id": f"{number}", "name": "gone", "ip": "10.0.0.1"}
            leave(cluster, f"tcp://gone-{number}", info)
        answer = await cluster.parts.handlers()[Resources.op]()
        assert answer == {"total": {"CPU": 20.0}, "available": {"CPU": 19.0}}

    in_loop(test)


def test_nodes_of_a_host_have_series_of_their_own_and_the_gpus_given_to_them(in_loop):
    """Two workers see both GPUs. A report lists both, and the second GPU moves when a node leaves."""
    client = pytest.importorskip("prometheus_client.core")

    def seen(index):
        unknown = dict.fromkeys(("memory_used", "temperature", "memory_total"))
        return {"index": index, "utilisation": 50 + index, "processes": [], **unknown}

    def body(cluster):
        parts = cluster.parts
        for number in range(2):
            address = f"tcp://node-{number}"
            total = ResourceSet.from_amounts({"CPU": 1, "GPU": 2})
            gpus = ["GPU-a", "GPU-b"][:: 1 - 2 * number]
            parts.ground.ledger.add_node(address, total, gpus)
            parts.nodes.info[address] |= {"ip": "10.0.0.1", "name": "", "started": 0.0}
            parts.nodes.info[address] |= {"total": total.units(), "host": ""}
            parts.nodes.on_gpus(address, Gpus([seen(0), seen(1)]))

        def series():
            found = [
                (sample.name, tuple(sample.labels.values()))
                for family in parts.metrics._of_cluster(
                    client.GaugeMetricFamily, client.CounterMetricFamily
                )
                for sample in family.samples
            ]
            assert len(found) == len(set(found))
            assert {name for name, _ in found} >= {"ray_resources", "ray_object_store_memory"}
            return [labels[1:] for name, labels in found if name == "ray_node_gpus_utilization"]

        assert series() == [("tcp://node-0", "0"), ("tcp://node-1", "0")]
        parts.nodes.left("tcp://node-0")
        assert series() == [("tcp://node-1", "0"), ("tcp://node-1", "1")]
        (gone,) = parts.ground.nodes.departed
        assert gone["total"]["GPU"] == ResourceSet.from_amounts({"GPU": 1}).units()["GPU"]
        assert [each["index"] for each in gone["gpus"]] == [0]

    in_loop(body)


def test_a_request_is_not_called_impossible_while_workers_may_come_back(in_loop, monkeypatch):
    def body(cluster):
        parts, told = cluster.parts, []
        monkeypatch.setattr(parts.logs, "tell", lambda job, text: told.append(text))
        now = time.monotonic()
        monkeypatch.setattr(node_table.time, "monotonic", lambda: now)
        cluster.enqueue("task", "driver", num_cpus=20)
        cluster.add_group("group", {"CPU": 200_000})

        def look():
            parts.notices._look()
            (waiting,) = parts.dispatcher.pending()
            (group,) = parts.groups.all()
            group.spec["name"] = ""
            comes = [row["reason"].count("may bring it") for row in tables.waiting(parts)]
            assert comes == [waiting["is_feasible"]] * 2
            assert parts.groups._describe(group)["progress"] == (
                "QUEUED" if waiting["is_feasible"] else "INFEASIBLE"
            )
            return waiting["is_feasible"], "".join(told).count("can ever provide")

        gone = "tcp://node-1"
        parts.nodes.info[gone] |= {"host": "", "ip": "", "total": {}, "started": 0.0}
        parts.nodes.left(gone, is_worker=False)
        del cluster.dask.all_workers[gone]
        assert look() == (True, 0)
        now += 31
        cluster.dask.all_workers["tcp://node-2"] = None
        parts.ground.nodes.joined["tcp://node-2"] = time.monotonic()
        assert look() == (True, 0)  # it has joined, and is not a node yet
        now += 31
        assert look() == (False, 2)  # it cannot start, and does not say so

    in_loop(body)


def test_the_memory_of_gpus_is_that_of_each_process(in_loop, monkeypatch):
    def body(cluster):
        samples = [{"processes": [(7, 2 << 20)]}, {"processes": [(7, 1 << 20), (8, None)]}]
        monkeypatch.setattr(
            cluster.parts.ground.nodes, "current", lambda address: {"gpus": samples}
        )
        found = tables._gpu_bytes(cluster.parts)
        assert {size for (_, pid), size in found.items() if pid == 7} == {3 << 20}

    in_loop(body)


def test_the_time_to_report_begins_when_a_worker_joins(in_loop, monkeypatch):
    def body(cluster):
        parts, now = cluster.parts, time.monotonic()
        monkeypatch.setattr(node_table.time, "monotonic", lambda: now)
        cluster.dask.all_workers["tcp://hangs"] = None
        parts.ground.nodes.joined["tcp://hangs"] = time.monotonic()
        now += 31
        assert not parts.ground.nodes.may_come()  # asked for the first time
        parts.ground.nodes.joined["tcp://hangs"] = time.monotonic()  # it has left and joined again
        assert parts.ground.nodes.may_come()
        parts.nodes.left("tcp://hangs", is_worker=False)
        del cluster.dask.all_workers["tcp://hangs"]
        assert not parts.ground.nodes.may_come()

    in_loop(body)


@pytest.mark.parametrize("timeout", [None, 1e9])
def test_a_restart_without_a_limit_is_awaited_for_some_minutes(in_loop, monkeypatch, timeout):
    def body(cluster):
        parts, now = cluster.parts, time.monotonic()
        monkeypatch.setattr(node_table.time, "monotonic", lambda: now)
        parts.ground.nodes.expect_return(timeout)
        del parts.nodes.info["tcp://node-1"], cluster.dask.all_workers["tcp://node-1"]
        assert parts.ground.nodes.may_come()
        now += 301
        assert not parts.ground.nodes.may_come()

    in_loop(body)
