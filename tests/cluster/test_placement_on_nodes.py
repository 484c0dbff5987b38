"""Placement groups and strategies on several nodes, and on nodes that come and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from _dask_cluster import DaskCluster

import raycompat as ray
from raycompat._caller import session as sessions
from raycompat._messages.nodes import ClusterState
from raycompat.train import ScalingConfig, _reservation
from raycompat.util import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from raycompat.util.placement_group import PlacementGroup
from raycompat.util.scheduling_strategies import (
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)


@ray.remote
def where():
    return ray.get_runtime_context().get_node_id()


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Resident:
    def where(self):
        return ray.get_runtime_context().get_node_id()


@ray.remote
def hold(started, stop):
    started.write_text(ray.get_runtime_context().get_node_id())
    while not stop.exists():
        time.sleep(0.01)
    return ray.get_runtime_context().get_node_id()


@ray.remote
def short():
    time.sleep(0.01)


def inside(group, index=-1):
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, index)}


def nodes_of(group):
    """Return the node of each bundle."""
    return list(placement_group_table(group)["bundles_to_node_id"].values())


def state(group):
    return placement_group_table(group)["state"]


def _id_of(pid):
    rows = sessions.require().rpc(ClusterState())["nodes"]
    return next((node["node_id"] for node in rows if node["pid"] == pid), None)


@pytest.fixture
def three_nodes(dask_cluster):
    """Three nodes of two CPUs, any of which may be killed."""
    for number in range(1, 4):
        dask_cluster.add_worker(f"127.0.0.{number}")
    dask_cluster.connect()
    return dask_cluster


@pytest.fixture(scope="module")
def lasting_cluster(dask_is_imported, tmp_path_factory):
    """Three nodes of two CPUs, for all tests of the module that leave them alone."""
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"))
    for number in range(1, 4):
        cluster.add_worker(f"127.0.0.{number}")
    cluster.connect()
    ray.shutdown()
    yield cluster
    ray.shutdown()
    cluster.close()


@pytest.fixture
def lasting_nodes(lasting_cluster, no_cluster):
    """These nodes, connected."""
    lasting_cluster.connect()
    return lasting_cluster


@pytest.fixture
def remove():
    """Remove every group when the test has ended."""
    yield
    for group in placement_group_table():
        remove_placement_group(PlacementGroup(ray.PlacementGroupID.from_hex(group)))


def test_a_wait_without_time_looks_at_the_state(lasting_nodes, remove):
    group = placement_group([{"CPU": 1}])
    assert group.wait(10)
    assert all(group.wait(0) for _ in range(20))
    assert not placement_group([{"CPU": 3}]).wait(0)
    remove_placement_group(group)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        group.wait(0)


def test_a_spread_elastic_run_grows_only_on_nodes_without_a_worker(
    lasting_nodes, remove, monkeypatch, wait_until
):
    monkeypatch.setattr(_reservation, "INFEASIBLE_S", 0.2)
    monkeypatch.setattr(_reservation, "_PLACED_S", 0.5)
    taken = placement_group([{"CPU": 2}, {"CPU": 2}], strategy="STRICT_SPREAD")
    assert taken.wait(10)
    elasticity = _reservation.Elasticity(
        ScalingConfig(
            num_workers=(1, 3),
            resources_per_worker={"CPU": 1},
            placement_strategy="STRICT_SPREAD",
            elastic_resize_monitor_interval_s=0,
        )
    )
    workers = elasticity.reserve()
    assert workers.bundle_count == 1
    found = [elasticity.num_more(1)]
    while elasticity._probes:  # the CPU that is free is on the worker's node
        found.append(elasticity.num_more(1))
    assert len(found) > 1
    assert set(found) == {0}
    remove_placement_group(taken)
    wait_until(lambda: elasticity.num_more(1) == 1)
    elasticity.stop()
    remove_placement_group(workers)
    monkeypatch.setattr(_reservation, "INFEASIBLE_S", 10)
    assert elasticity.reserve().bundle_count == 3


def test_bundles_are_where_their_strategy_wants_them(lasting_nodes, remove):
    def layout(strategy, *bundles):
        group = placement_group(list(bundles), strategy=strategy)
        assert group.wait(10), strategy
        found = nodes_of(group)
        homes = [
            ray.get(where.options(num_cpus=0, **inside(group, index)).remote())
            for index in range(len(bundles))
        ]
        assert homes == found
        remove_placement_group(group)
        return len(set(found))

    one = {"CPU": 1}
    assert layout("PACK", one, one) == 1
    assert layout("PACK", one, one, one) == 2
    assert layout("SPREAD", one, one, one) == 3
    assert layout("SPREAD", *[one] * 6) == 3
    assert layout("STRICT_PACK", one, one) == 1
    assert layout("STRICT_SPREAD", one, one, one) == 3
    for strategy, bundles in (("STRICT_PACK", [one] * 3), ("STRICT_SPREAD", [one] * 4)):
        assert not placement_group(bundles, strategy=strategy).wait(0.2)
    assert ray.available_resources()["CPU"] == 6


def test_a_group_waits_for_nodes_that_join(dask_cluster, remove):
    dask_cluster.add_worker()
    dask_cluster.connect()
    group = placement_group([{"CPU": 2}, {"CPU": 2}], strategy="STRICT_SPREAD")
    ready = group.ready()
    call = where.options(**inside(group, 1)).remote()
    assert ray.wait([ready, call], timeout=0.2)[0] == []
    dask_cluster.add_worker("127.0.0.2")
    assert ray.get(ready) == group
    assert ray.get(call) == nodes_of(group)[1]


def test_bundles_of_a_node_that_dies_are_placed_anew(three_nodes, remove, tmp_path, wait_until):
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert group.wait(10)
    before = nodes_of(group)
    started, stop = tmp_path / "started", tmp_path / "stop"
    actors = [Resident.options(num_cpus=0.5, **inside(group, index)).remote() for index in range(2)]
    assert ray.get([actor.where.remote() for actor in actors]) == before
    victim = next(pid for pid in three_nodes.others if _id_of(pid) in before)
    lost = before.index(_id_of(victim))
    call = hold.options(num_cpus=0.5, **inside(group, lost)).remote(started, stop)
    wait_until(lambda: started.exists() and started.read_text() == before[lost])
    three_nodes.workers[victim].kill()
    wait_until(lambda: state(group) == "CREATED" and nodes_of(group) != before)
    after = nodes_of(group)
    assert after[1 - lost] == before[1 - lost]
    assert after[lost] not in before
    assert ray.get([actor.where.remote() for actor in actors]) == after
    stop.touch()
    assert ray.get(call) == after[lost]


def test_a_group_without_a_node_for_its_bundle_waits_for_one(dask_cluster, remove, wait_until):
    for number in (1, 2):
        dask_cluster.add_worker(f"127.0.0.{number}")
    dask_cluster.connect()
    group = placement_group([{"CPU": 2}, {"CPU": 2}], strategy="SPREAD")
    assert group.wait(10)
    before = nodes_of(group)
    (other,) = dask_cluster.others
    lost = before.index(_id_of(other))
    dask_cluster.workers[other].kill()
    wait_until(lambda: state(group) == "RESCHEDULING")
    stays = where.options(**inside(group, 1 - lost)).remote()
    assert ray.get(stays) == before[1 - lost]
    follows = where.options(**inside(group, lost)).remote()
    assert not group.wait(0.2)
    later = placement_group([{"CPU": 2}])  # what reschedules comes first
    dask_cluster.add_worker("127.0.0.3")
    assert group.wait(30)
    assert ray.get(follows) == nodes_of(group)[lost] != before[lost]
    assert state(later) == "PENDING"


@pytest.mark.parametrize("leases", ["0", "1"])
def test_a_group_is_served_though_small_calls_never_end(no_cluster, monkeypatch, leases, remove):
    monkeypatch.setenv("RAYCOMPAT_LEASES", leases)
    ray.init(num_cpus=4, include_dashboard=False, configure_logging=False)
    running = [short.remote() for _ in range(32)]
    for _ in range(50):
        running = [*ray.wait(running)[1], short.remote()]
    group = placement_group([{"CPU": 4}])
    ready = group.ready()
    while ready not in (done := ray.wait([ready, *running])[0]):
        running = [short.remote() for _ in done] + [ref for ref in running if ref not in done]
    assert ray.get(ready) == group
    remove_placement_group(group)
    assert ray.get(running) == [None] * len(running)


def test_a_large_group_is_served_though_small_ones_never_end(no_cluster, remove):
    ray.init(num_cpus=4, include_dashboard=False, configure_logging=False)
    small = [placement_group([{"CPU": 2}]) for _ in range(2)]
    assert all(group.wait(10) for group in small)
    large = placement_group([{"CPU": 4}])
    ready = large.ready()
    waiting = [placement_group([{"CPU": 2}]) for _ in range(2)]
    deadline = time.monotonic() + 60
    while not ray.wait([ready], timeout=0.05)[0]:
        assert time.monotonic() < deadline
        if small:
            remove_placement_group(small.pop(0))
        served = [group for group in waiting if state(group) == "CREATED"]
        waiting = [group for group in waiting if group not in served]
        small += served
        waiting += [placement_group([{"CPU": 2}]) for _ in range(2 - len(waiting))]
    assert state(large) == "CREATED"


def test_calls_go_on_while_a_group_waits_for_what_may_never_end(no_cluster, remove):
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    actor = Resident.options(num_cpus=1).remote()
    ray.get(actor.where.remote())
    group = placement_group([{"CPU": 2}])
    assert not group.wait(0.5)
    assert ray.get([short.remote() for _ in range(200)]) == [None] * 200
    del actor
    assert group.wait(30)


def test_groups_that_ask_for_the_same_are_served_in_their_order(no_cluster, remove, wait_until):
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    groups = [placement_group([{"CPU": 2}]) for _ in range(5)]
    for number, group in enumerate(groups):
        assert group.wait(30)
        assert [state(each) for each in groups[number + 1 :]] == ["PENDING"] * (4 - number)
        remove_placement_group(group)


def test_what_can_never_be_placed_is_told_of(no_cluster, remove, capfd, wait_until):
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    placement_group([{"CPU": 1}, {"CPU": 3}])
    strategy = NodeLabelSchedulingStrategy({"zone": In("b", "c"), "disk": Exists()})
    selector = {"zone": "!in(a, b)", "disk": "fast"}
    calls = [
        where.options(scheduling_strategy=strategy).remote(),
        where.options(label_selector=selector).remote(),
    ]
    told = []

    def are_told():
        told.append(capfd.readouterr().err)
        return "".join(told).count("can ever provide that") == 3

    wait_until(are_told)
    lines = "".join(told)
    assert "[{CPU: 1}, {CPU: 3}] (PACK)" in lines
    assert "{CPU: 1} (on a node whose labels obey ['zone' in 'b', 'c'; 'disk' exists])" in lines
    assert "'zone' not in 'a', 'b'; 'disk' in 'fast'" in lines
    assert lines.count("in total {CPU: 2") == 3
    for call in calls:
        ray.cancel(call)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(call)


DRIVER = """
import sys, time
import raycompat as ray
from raycompat.util.scheduling_strategies import PlacementGroupSchedulingStrategy as InGroup

ray.init(address={address!r}, namespace="shared", configure_logging=False)

@ray.remote(num_cpus=0, lifetime="detached", name="maker", namespace="shared")
class Maker:
    def make(self):
        self.group = ray.util.placement_group([{{"CPU": 1}}], name="of the actor")
        return self.group.wait(30)

ray.util.placement_group([{{"CPU": 1}}], name="of the driver").wait(30)
assert ray.get(Maker.remote().make.remote())
print("made", flush=True)
time.sleep(600)
"""


def test_groups_of_a_driver_that_is_killed_end_and_those_of_its_detached_actors_do_not(
    lasting_cluster, no_cluster, wait_until
):
    ray.init(address=lasting_cluster.address, namespace="shared", configure_logging=False)
    code = DRIVER.format(address=lasting_cluster.address)
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout.readline() == "made\n"
    group = get_placement_group("of the driver")
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    wait_until(lambda: state(group) == "REMOVED")
    kept = get_placement_group("of the actor")
    assert state(kept) == "CREATED"
    ray.kill(ray.get_actor("maker"))
    wait_until(lambda: state(kept) == "REMOVED")
    wait_until(lambda: ray.available_resources().get("CPU") == 6)


# --- nodes by id and by label -------------------------------------------------------------------


def test_calls_go_to_their_nodes(lasting_nodes):
    for node in ray.nodes():
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        calls = [where.options(scheduling_strategy=strategy).remote() for _ in range(4)]
        assert ray.get(calls) == [node["NodeID"]] * 4


def test_a_busy_node_is_waited_for_or_not(lasting_nodes, tmp_path, wait_until):
    home = ray.get_runtime_context().get_node_id()
    started, stop = tmp_path / "started", tmp_path / "stop"
    there = NodeAffinitySchedulingStrategy(home, soft=False)
    held = hold.options(num_cpus=2, scheduling_strategy=there).remote(started, stop)
    wait_until(started.exists)
    soft = NodeAffinitySchedulingStrategy(home, soft=True)
    spills = NodeAffinitySchedulingStrategy(home, soft=True, _spill_on_unavailable=True)
    waiting = [where.options(scheduling_strategy=each).remote() for each in (there, soft)]
    assert ray.get(where.options(scheduling_strategy=spills).remote()) != home
    assert ray.wait(waiting, timeout=0.2)[0] == []
    stop.touch()
    assert ray.get([held, *waiting]) == [home] * 3


def test_calls_whose_node_dies_fail_or_go_elsewhere(three_nodes, tmp_path, wait_until):
    victim = three_nodes.others[0]
    node = _id_of(victim)
    started, stop = tmp_path / "started", tmp_path / "stop"

    def start(soft):
        strategy = NodeAffinitySchedulingStrategy(node, soft=soft)
        return hold.options(num_cpus=1, scheduling_strategy=strategy).remote(started, stop)

    hard, soft = start(False), start(True)
    wait_until(started.exists)
    three_nodes.workers[victim].kill()
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(hard)
    stop.touch()
    assert ray.get(soft) != node


def test_calls_go_to_nodes_with_their_labels(dask_cluster, monkeypatch):
    for number, labels in enumerate(('{"zone": "a"}', '{"zone": "b", "disk": "fast"}'), 1):
        monkeypatch.setenv("RAYCOMPAT_NODE_LABELS", labels)
        dask_cluster.add_worker(f"127.0.0.{number}")
    dask_cluster.connect()
    by_zone = {node["Labels"]["zone"]: node["NodeID"] for node in ray.nodes()}

    def go(hard, soft=None):
        strategy = NodeLabelSchedulingStrategy(hard, soft=soft)
        return where.options(scheduling_strategy=strategy).remote()

    for zone, node in by_zone.items():
        assert ray.get([go({"zone": In(zone)}) for _ in range(4)]) == [node] * 4
        assert ray.get(go({"zone": Exists()}, {"zone": In(zone)})) == node
    assert ray.get(go({"zone": In("a")}, {"disk": Exists()})) == by_zone["a"]
    late = go({"zone": In("c")})
    assert ray.wait([late], timeout=0.2)[0] == []
    monkeypatch.setenv("RAYCOMPAT_NODE_LABELS", '{"zone": "c"}')
    dask_cluster.add_worker("127.0.0.3")
    node = ray.get(late)
    assert node not in by_zone.values()


@pytest.mark.parametrize(
    ("labels", "text"), [("zone=a", "is not JSON"), ('{"zone": 1}', "strings")]
)
def test_a_node_with_wrong_labels_is_refused(dask_cluster, monkeypatch, labels, text):
    monkeypatch.setenv("RAYCOMPAT_NODE_LABELS", labels)
    dask_cluster.add_worker()
    monkeypatch.delenv("RAYCOMPAT_NODE_LABELS")
    with pytest.raises(ValueError, match=f"RAYCOMPAT_NODE_LABELS=.*{text}"):
        dask_cluster.connect()


@pytest.mark.parametrize("labels", [{1: "a"}, {"zone": None}, {"ray.io/node-id": "a"}, ["zone"]])
def test_init_refuses_wrong_labels(no_cluster, labels):
    with pytest.raises((TypeError, ValueError), match="labels="):
        ray.init(labels=labels)
    assert not ray.is_initialized()
