"""What the scheduler decides: an event goes in, and instructions to Dask come out. No Dask runs."""

from __future__ import annotations

import asyncio

import pytest
from _plugin_parts import JOB, run

from raycompat._messages.actors import ActorAlive, ActorBuilt, ActorState, KillActor, WatchActor
from raycompat._messages.calls import (
    Blocked,
    Cancel,
    CancelCall,
    Done,
    End,
    GrantCall,
    Result,
    Schedule,
    Submit,
)
from raycompat._messages.groups import AwaitGroup, CreateGroup, GroupReady, RemoveGroup
from raycompat._messages.leases import LeaseAlive, LeaseGranted, Pressure, Revoke
from raycompat._messages.nodes import Dismiss, Gone, NodeReady, Resign
from raycompat._messages.objects import Adopt, GiveAgain, Sync, Synced
from raycompat._protocol import failures
from raycompat._protocol.call_spec import new_spec
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import InGroup
from raycompat._scheduler.job_table import Job

NODE, OTHER = "tcp://node-0", "tcp://node-1"
FROM_DRIVER, FROM_NODE = {"client": "driver"}, {"worker": NODE}

ACTOR = {
    "name": "",
    "namespace": "",
    "about": b"",
    "class_name": "Counter",
    "is_internal": False,
    "detached": False,
    "max_restarts": 0,
}


@pytest.fixture
def decide(monkeypatch):
    """Return a function that runs a test with nodes of ten CPUs and the job of "driver"."""

    def decide(test, num_nodes=1):
        def prepared(cluster):
            setup = {"driver_pid": 1, "program": b""}
            cluster.parts.jobs.open[JOB] = Job(JOB, "driver", "n", setup, None, orphaned=False)
            for info in cluster.parts.nodes.info.values():
                info["host"] = info["node_id"]
                info["total"] = ResourceSet.from_amounts({"CPU": 10}).units()
            return test(cluster)

        run(monkeypatch, num_nodes, prepared)

    return decide


def spec(key, kind="task", num_cpus=1, **about):
    request = ResourceSet.from_amounts({"CPU": num_cpus})
    return new_spec(kind, key, "f", JOB, request, function="f-id", **about)


async def ready(cluster, key):
    """Let Dask report that the dependencies of a call are ready; return what is decided then."""
    num_before = len(cluster.dask.instructions)
    cluster.move(key, "waiting", "no-worker")
    await asyncio.sleep(0)
    return cluster.dask.instructions[num_before:]


async def started(cluster, call):
    """Submit a call and let it start; return its node."""
    cluster.handle(Submit([call]), **FROM_DRIVER)
    (_, node, _), _ = await ready(cluster, call["key"])
    cluster.move(call["key"], "no-worker", "processing")
    return node


def names(instructions):
    return [name for name, *_ in instructions]


def test_a_sync_is_answered(decide):
    def test(cluster):
        answer = [("notify_client", "driver", Synced(7))]
        assert cluster.handle(Sync(7), **FROM_DRIVER) == answer

    decide(test)


def test_a_call_becomes_a_parked_task_and_runs_where_it_is_granted(decide):
    async def test(cluster):
        ((name, client, key, *_, parked, urgent),) = cluster.handle(
            Submit([spec("f-1")]), **FROM_DRIVER
        )
        assert (name, client, key, parked, urgent) == ("add_task", "driver", "f-1", True, False)
        granted, released = await ready(cluster, "f-1")
        assert granted[:2] == ("notify_node", NODE)
        assert isinstance(granted[2], GrantCall)
        assert released == ("release_to", "f-1", NODE)
        assert cluster.parts.ground.ledger.cluster_available() == ResourceSet.from_amounts(
            {"CPU": 9}
        )

    decide(test)


def test_a_call_that_does_not_fit_waits_until_another_ends(decide):
    async def test(cluster):
        await started(cluster, spec("f-1", num_cpus=6))
        cluster.handle(Submit([spec("f-2", num_cpus=6)]), **FROM_DRIVER)
        assert await ready(cluster, "f-2") == []
        cluster.move("f-1", "processing", "memory")
        num_before = len(cluster.dask.instructions)
        await asyncio.sleep(0)
        assert cluster.dask.instructions[num_before:][-1] == ("release_to", "f-2", NODE)

    decide(test)


def test_a_call_that_waits_for_another_lends_its_cpu(decide):
    async def test(cluster):
        await started(cluster, spec("f-1", num_cpus=10))
        cluster.handle(Submit([spec("f-2", num_cpus=10)]), **FROM_DRIVER)
        assert await ready(cluster, "f-2") == []
        assert cluster.handle(Blocked("f-1"), **FROM_NODE) == []
        await asyncio.sleep(0)
        assert cluster.dask.instructions[-1] == ("release_to", "f-2", NODE)

    decide(test)


def test_a_waiting_call_is_cancelled_at_once_and_a_running_one_by_its_node(decide):
    async def test(cluster):
        cluster.handle(Submit([spec("f-1")]), **FROM_DRIVER)
        told = cluster.handle(Cancel("f-1", force=False, recursive=True), **FROM_DRIVER)
        assert names(told) == ["notify_client", "fail"]
        assert told[0][2].error == failures.cancelled("f-1")
        await started(cluster, spec("f-2"))
        told = cluster.handle(Cancel("f-2", force=True, recursive=False), **FROM_DRIVER)
        assert told == [("notify_node", NODE, CancelCall("f-2", force=True, recursive=False))]

    decide(test)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_call_whose_node_dies_runs_again_while_it_has_retries(decide, retries):
    async def test(cluster):
        node = await started(cluster, spec("f-1", retries=retries))
        (other,) = {NODE, OTHER} - {node}
        told = cluster.leave(node, "f-1")
        assert told[0] == ("park", "f-1")
        if not retries:
            await asyncio.sleep(0)
            assert names(cluster.dask.instructions[-2:]) == ["notify_client", "fail"]
            return
        cluster.move("f-1", "released", "waiting")
        assert (await ready(cluster, "f-1"))[-1] == ("release_to", "f-1", other)

    decide(test, num_nodes=2)


@pytest.mark.parametrize("is_small", [True, False])
def test_a_call_whose_owner_has_its_result_does_not_run_again(decide, is_small):
    """Its node dies before Dask hears that the task has ended. A large result dies with the node."""
    large = ("segment", "/dev/shm/1", 10**6, NODE, ())
    wire = ("inline", b"value", ()) if is_small else large

    async def test(cluster):
        node = await started(cluster, spec("f-1", retries=1))
        (other,) = {NODE, OTHER} - {node}
        cluster.handle(Result("f-1", "driver", 7, [wire]), worker=node)
        cluster.leave(node, "f-1")
        cluster.move("f-1", "released", "waiting")
        (_, _, again), released = await ready(cluster, "f-1")
        assert released == ("release_to", "f-1", other)
        assert again.grant["results"] == ([wire] if is_small else None)

    decide(test, num_nodes=2)


def test_callers_of_an_actor_hear_where_it_is_and_that_it_was_killed(decide):
    async def test(cluster):
        await started(cluster, spec("A-1", kind="actor", actor=ACTOR))
        told = cluster.handle(WatchActor("A-1"), **FROM_DRIVER)
        assert told == [("notify_client", "driver", ActorState("A-1"))]
        told = cluster.handle(ActorAlive("A-1", 17, "socket", 0), **FROM_NODE)
        where = {"address": NODE, "host": NODE, "socket": "socket"}
        alive = ActorState("A-1", "ALIVE", **where)
        assert told == [
            ("notify_client", "driver", ActorBuilt("A-1")),
            ("notify_client", "driver", alive),
        ]
        error = failures.actor_killed("A-1")
        assert cluster.handle(KillActor("A-1", no_restart=True), **FROM_DRIVER) == [
            ("notify_node", NODE, End("A-1", error)),
            ("notify_client", "driver", ActorState("A-1", "DEAD", **where, error=error)),
            ("notify_client", "driver", Done("A-1", error=error)),
        ]

    decide(test)


def test_a_group_is_ready_when_its_bundles_are_kept_and_its_calls_end_with_it(decide):
    async def test(cluster):
        bundles = [{"CPU": 60_000}, {"CPU": 40_000}]
        wish = {"group": "g", "bundles": bundles, "strategy": "PACK", "job": JOB, "name": ""}
        wish |= {"label_selectors": [], "namespace": ""}
        assert cluster.handle(CreateGroup(wish), **FROM_DRIVER) == []
        assert cluster.handle(AwaitGroup("g"), **FROM_DRIVER) == []
        await asyncio.sleep(0)
        assert cluster.dask.instructions == [("notify_client", "driver", GroupReady("g", None))]
        assert not cluster.parts.ground.ledger.cluster_available()
        in_group = spec("f-1", num_cpus=6, strategy=InGroup("g"))
        assert await started(cluster, in_group) == NODE
        ((name, node, message),) = cluster.handle(RemoveGroup("g"), **FROM_DRIVER)
        assert (name, node, message.key, message.force) == ("notify_node", NODE, "f-1", True)

    decide(test)


def test_a_lease_is_given_to_its_owner_and_taken_back_for_another_client(decide):
    async def test(cluster):
        for number in range(10):
            key = f"lease-{number}"
            await started(cluster, spec(key, kind="lease"))
            ((name, client, granted),) = cluster.handle(
                LeaseAlive(key, "driver", "socket"), **FROM_NODE
            )
            assert (name, client) == ("notify_client", "driver")
            assert granted == LeaseGranted(key, NODE, NODE, "socket")
        cluster.handle(Submit([spec("f-1")]), client="other")
        num_before = len(cluster.sent)
        await ready(cluster, "f-1")
        pressure, revoked = ("driver", Pressure(True)), set()
        async with asyncio.timeout(30):
            while pressure not in (told := cluster.sent[num_before:]) or not revoked:
                revoked = {who for who, each in told if isinstance(each, Revoke)}
                await asyncio.sleep(0)
        assert revoked == {NODE}

    decide(test)


@pytest.mark.parametrize("is_small", [True, False])
def test_a_put_whose_node_dies_is_given_again_if_its_owner_has_kept_it(decide, is_small):
    wire = ("inline", b"value", ()) if is_small else ("segment", "/dev/shm/1", 10**6, NODE, ())

    async def test(cluster):
        cluster.handle(Adopt("put-1", wire, NODE), **FROM_DRIVER)
        cluster.move("put-1", "processing", "memory")
        cluster.move("put-1", "memory", "released")
        num_before = len(cluster.dask.instructions)
        await asyncio.sleep(0)
        told = cluster.dask.instructions[num_before:]
        if is_small:
            assert told == [("park", "put-1"), ("notify_client", "driver", GiveAgain("put-1"))]
        else:
            assert names(told) == ["fail"]

    decide(test, num_nodes=2)


def test_a_call_that_has_failed_is_answered_when_its_owner_leaves_it_to_the_scheduler(decide):
    """Until then the owner runs it by a lease, and does not listen."""

    key = "f-" + "0" * 48

    async def test(cluster):
        cluster.handle(Submit([spec(key, runs_by_lease=True)]), **FROM_DRIVER)
        (_, _, first), *_ = cluster.move(key, "waiting", "erred")
        told = cluster.handle(Schedule(key, 0), **FROM_DRIVER)
        assert isinstance(first, Done)
        ((_, client, answer),) = told
        assert (client, answer.key, answer.error) == ("driver", key, first.error)
        assert answer.unknown  # Dask has reported the end already

    decide(test)


INFO = {
    "node_id": "late",
    "name": "late",
    "ip": "10.0.0.2",
    "host": "late",
    "labels": {},
    "gpu_ids": [],
    "pid": 1,
    "started": 0.0,
    "total": ResourceSet.from_amounts({"CPU": 1}).units(),
}


def test_a_driver_may_take_long_to_register_the_plugin_of_the_workers(decide):
    async def test(cluster):
        guest, dask = cluster.parts.guest, cluster.dask
        guest.plugin, guest.remove_handlers = None, lambda: None
        dask.workers_have_plugin = False
        assert not guest.is_detaching()
        dask.workers_have_plugin = True
        assert not guest.is_detaching()
        dask.workers_have_plugin = False
        assert guest.is_detaching()

    decide(test)


def test_raycompat_goes_with_the_scheduler_s_plugin_where_workers_have_none_yet(decide):
    async def test(cluster):
        guest, dask = cluster.parts.guest, cluster.dask
        guest.plugin, guest.remove_handlers = None, lambda: None
        dask.workers_have_plugin = dask.has_plugin = False
        assert guest.is_detaching()

    decide(test)


def test_a_worker_that_becomes_a_node_too_late_is_dismissed_before_the_handlers_go(
    decide, monkeypatch
):
    monkeypatch.setattr("raycompat._scheduler.guest._LATE_S", 0.2)

    async def test(cluster):
        cluster.dask.all_workers.update(dict.fromkeys([OTHER], True))
        removed = []
        guest = cluster.parts.guest
        guest.plugin, guest.remove_handlers = None, lambda: removed.append(True)
        cluster.parts.jobs.open.clear()
        taking_off = asyncio.ensure_future(guest.detach("taken off"))
        while ("notify_node", NODE, Dismiss()) not in cluster.dask.instructions:
            assert not taking_off.done(), taking_off.result()
            await asyncio.sleep(0)
        cluster.handle(Resign(), worker=NODE)
        cluster.handle(Gone(), worker=NODE)
        assert await taking_off
        assert not removed
        assert ("notify_node", OTHER, Dismiss()) in cluster.handle(NodeReady(INFO), worker=OTHER)
        async with asyncio.timeout(5):
            while not removed:
                await asyncio.sleep(0.01)

    decide(test)
