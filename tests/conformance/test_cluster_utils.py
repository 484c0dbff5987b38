"""Clusters of several nodes: `cluster_utils.Cluster`, where work goes, and what is left when nodes go."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from _polling import is_running, wait_for_files, wait_until

#: Seconds: the real Ray takes ten for each node on a busy machine.
pytestmark = pytest.mark.timeout(240)

QUIET = {"configure_logging": False, "log_to_driver": False}

#: Seconds that a node has to appear, and a value to be made again.
LONG_S = 120

#: Bytes that a value must have to be kept by a node.
LARGE = 1_000_000


@pytest.fixture(scope="module")
def Cluster(ray):
    """The implementation's class; no session runs when the tests of this module begin."""
    ray.shutdown()
    return importlib.import_module(f"{ray.__name__}.cluster_utils").Cluster


@pytest.fixture(scope="module")
def three(ray, Cluster):
    """A cluster of a head and two nodes, each with a custom resource."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.a = cluster.add_node(num_cpus=2, resources={"a": 2})
    cluster.b = cluster.add_node(num_cpus=1, num_gpus=1, resources={"b": 1})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def driver(ray, three):
    """The implementation, as a driver of `three`."""
    ray.init(address=three.address, **QUIET)
    yield ray
    ray.shutdown()


@pytest.fixture
def make(ray, Cluster):
    """A factory of clusters that end with the test."""
    made = []

    def start(**options):
        made.append(Cluster(**options))
        return made[-1]

    yield start
    ray.shutdown()
    for cluster in made:
        cluster.shutdown()


def node_of(ray):
    """A remote function that returns the node it runs on."""

    @ray.remote
    def node():
        return ray.get_runtime_context().get_node_id()

    return node


# The parts of a cluster


def test_the_address_is_a_host_and_a_port(three):
    host, _, port = three.address.rpartition(":")
    assert host
    assert port.isdigit()
    assert three.gcs_address == three.address


def test_the_head_is_the_first_of_all_nodes(three):
    assert three.list_all_nodes()[0] is three.head_node
    assert three.worker_nodes == {three.a, three.b}
    assert set(three.list_all_nodes()) == {three.head_node, three.a, three.b}
    assert three.head_node.is_head()
    assert not three.a.is_head()


def test_all_processes_are_alive(three):
    assert three.remaining_processes_alive()


def test_waiting_for_nodes_that_are_there_returns(three):
    assert three.wait_for_nodes() is None


def test_nodes_has_a_row_for_each_node(driver, three):
    rows = {row["NodeID"]: row for row in driver.nodes()}
    assert rows.keys() == {node.node_id for node in three.list_all_nodes()}
    assert all(row["Alive"] for row in rows.values())
    assert rows[three.a.node_id]["Resources"]["a"] == 2
    assert rows[three.b.node_id]["Resources"]["GPU"] == 1
    assert "b" not in rows[three.a.node_id]["Resources"]


def test_the_resources_of_a_cluster_are_those_of_its_nodes(driver):
    total = driver.cluster_resources()
    assert {name: total[name] for name in ("CPU", "GPU", "a", "b")} == {
        "CPU": 4,
        "GPU": 1,
        "a": 2,
        "b": 1,
    }


def test_a_node_has_so_much_unless_told_otherwise(driver, three):
    rows = {row["NodeID"]: row["Resources"] for row in driver.nodes()}
    assert rows[three.a.node_id]["object_store_memory"] == 150 * 1024 * 1024
    assert "GPU" not in rows[three.a.node_id]


def test_only_the_head_is_marked_as_such(driver, three):
    marked = [
        row["NodeID"] for row in driver.nodes() if "node:__internal_head__" in row["Resources"]
    ]
    assert marked == [three.head_node.node_id]


def test_the_driver_is_at_home_on_the_head(driver, three):
    assert driver.get_runtime_context().get_node_id() == three.head_node.node_id


# Where work goes


def test_a_task_goes_where_its_resources_are(driver, three):
    node = node_of(driver)
    assert driver.get(node.options(resources={"a": 1}).remote()) == three.a.node_id
    assert driver.get(node.options(resources={"b": 0.5}).remote()) == three.b.node_id
    assert driver.get(node.options(num_gpus=1).remote()) == three.b.node_id
    assert driver.get(node.options(num_cpus=2).remote()) == three.a.node_id


def test_tasks_that_run_at_once_are_on_all_nodes(driver, three, tmp_path):
    @driver.remote
    def meet(number):
        (tmp_path / str(number)).touch()
        while not all((tmp_path / str(each)).exists() for each in range(4)):
            time.sleep(0.01)
        return driver.get_runtime_context().get_node_id()

    where = driver.get([meet.remote(number) for number in range(4)], timeout=LONG_S)
    assert sorted(where) == sorted(
        [three.head_node.node_id, *2 * [three.a.node_id], three.b.node_id]
    )


def test_an_actor_lives_where_its_resources_are(driver, three):
    @driver.remote
    class Actor:
        def node(self):
            return driver.get_runtime_context().get_node_id()

    on_a = [Actor.options(resources={"a": 1}).remote() for _ in range(2)]
    on_b = Actor.options(resources={"b": 1}).remote()
    assert driver.get([actor.node.remote() for actor in (*on_a, on_b)], timeout=LONG_S) == [
        three.a.node_id,
        three.a.node_id,
        three.b.node_id,
    ]


def test_a_large_value_goes_from_node_to_node(driver):
    @driver.remote
    def make():
        return np.arange(LARGE, dtype=np.uint8)

    @driver.remote
    def total(array):
        return int(array.sum())

    made = make.options(resources={"a": 1}).remote()
    expected = int(np.arange(LARGE, dtype=np.uint8).sum())
    assert driver.get(total.options(resources={"b": 1}).remote(made), timeout=LONG_S) == expected
    assert (
        driver.get(total.options(resources={"b": 1}).remote(driver.put(driver.get(made))))
        == expected
    )


def test_a_task_on_one_node_calls_one_on_another(driver, three):
    node = node_of(driver)

    @driver.remote
    def call():
        here = driver.get_runtime_context().get_node_id()
        return here, driver.get(node.options(resources={"b": 1}).remote())

    assert driver.get(call.options(resources={"a": 1}).remote(), timeout=LONG_S) == (
        three.a.node_id,
        three.b.node_id,
    )


def test_what_no_node_has_alone_is_waited_for(driver):
    ref = node_of(driver).options(resources={"a": 1, "b": 1}).remote()
    assert driver.wait([ref], timeout=1) == ([], [ref])
    driver.cancel(ref)
    with pytest.raises(driver.exceptions.TaskCancelledError):
        driver.get(ref, timeout=LONG_S)


# Addresses


@pytest.fixture
def address(ray, three, monkeypatch):
    """The address of `three`, to which nothing is connected yet."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield three.address
    ray.shutdown()


def has_three_nodes(ray):
    return len(ray.nodes()) == 3


def test_connect_connects(ray, three, address):
    three.connect(namespace="some")
    try:
        assert has_three_nodes(ray)
        assert ray.get_runtime_context().namespace == "some"
        assert three.connected
        with pytest.raises(AssertionError):
            three.connect()
    finally:
        three.connected = False


@pytest.mark.parametrize("given", ["auto", None])
def test_a_cluster_that_runs_here_is_found(ray, address, given):
    ray.init(address=given, **QUIET)
    assert has_three_nodes(ray)


def test_the_first_call_connects_to_a_cluster_that_runs_here(ray, address):
    assert ray.get(node_of(ray).options(resources={"a": 1}).remote(), timeout=LONG_S)
    assert has_three_nodes(ray)


@pytest.mark.parametrize("given", ["auto", None])
def test_the_environment_says_where_the_cluster_is(ray, address, given, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    ray.init(address=given, **QUIET)
    assert has_three_nodes(ray)


def test_local_means_a_cluster_of_its_own_whatever_runs(ray, address, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    ray.init(address="local", num_cpus=3, include_dashboard=False, **QUIET)
    assert len(ray.nodes()) == 1
    assert ray.cluster_resources()["CPU"] == 3


@pytest.mark.parametrize("given", ["auto", None])
def test_cpus_for_a_cluster_that_is_found_are_a_value_error(ray, address, given):
    with pytest.raises(ValueError, match="num_cpus and num_gpus must not be provided"):
        ray.init(address=given, num_cpus=1, **QUIET)
    assert not ray.is_initialized()


@pytest.mark.parametrize("given", ["nonsense", "", "no port here"])
def test_an_address_that_is_none_is_a_value_error(ray, address, given):
    with pytest.raises(ValueError, match="Invalid address format"):
        ray.init(address=given, **QUIET)
    assert not ray.is_initialized()


def test_the_context_has_the_address_of_the_cluster(ray, address):
    context = ray.init(address=address, **QUIET)
    assert context.address_info["gcs_address"] == address


# Several drivers

OTHER = """
import sys
import {name} as ray

ray.init(
    address=sys.argv[1], namespace=sys.argv[2], configure_logging=False, log_to_driver=False
)

@ray.remote(resources={{"a": 1}})
def add(number):
    try:
        counter = ray.get_actor("counter")
    except ValueError:
        return "none"
    return ray.get(counter.add.remote(number))

print("said", ray.get_runtime_context().get_job_id(), ray.get(add.remote(10)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start_other(ray, address):
    """Start another driver; with it come its job, and what the counter of its namespace says."""
    started = []

    def start(namespace):
        path = os.pathsep.join(
            [str(Path(ray.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        )
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER.format(name=ray.__name__), address, namespace],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(other)
        lines = iter(other.stdout.readline, "")
        _, other.job, other.found = next(line for line in lines if line.startswith("said")).split()
        return other

    def end(other):
        other.stdin.close()
        other.wait()
        other.stdout.close()

    start.end = end
    yield start
    for other in started:
        end(other)


@pytest.fixture
def counter(ray, address):
    """A named actor of this driver, in the namespace "mine"."""
    ray.init(address=address, namespace="mine", **QUIET)

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self, number):
            self.count += number
            return self.count

    actor = Counter.options(name="counter", lifetime="detached").remote()
    yield actor
    ray.kill(actor)


def test_drivers_have_jobs_and_namespaces_of_their_own_and_end_alone(ray, counter, start_other):
    others = [start_other("theirs"), start_other("mine"), start_other("mine")]
    jobs = {ray.get_runtime_context().get_job_id(), *(other.job for other in others)}
    assert len(jobs) == 4
    assert [other.found for other in others] == ["none", "10", "20"]
    assert ray.get(counter.add.remote(1), timeout=LONG_S) == 21
    # The end of one leaves the others.
    start_other.end(others[1])
    assert ray.get(counter.add.remote(1), timeout=LONG_S) == 22
    assert ray.get(node_of(ray).remote(), timeout=LONG_S)
    assert others[2].poll() is None
    assert start_other("mine").found == "32"


# How clusters begin


def test_a_cluster_without_a_head_has_no_address(make):
    cluster = make()
    assert cluster.address is None
    assert cluster.list_all_nodes() == []
    assert not cluster.connected


def test_connecting_to_no_head_is_a_runtime_error(make):
    with pytest.raises(RuntimeError, match="Cannot connect to uninitialized cluster"):
        make(connect=True)


def test_connecting_later_to_no_head_is_an_assertion_error(make):
    with pytest.raises(AssertionError):
        make().connect()


def test_the_first_node_that_is_added_is_the_head(ray, make):
    cluster = make()
    head = cluster.add_node(num_cpus=2)
    assert cluster.head_node is head
    node = cluster.add_node(wait=False, num_cpus=3)
    cluster.wait_for_nodes()
    cluster.connect()
    assert ray.cluster_resources()["CPU"] == 5
    assert node.node_id in {row["NodeID"] for row in ray.nodes()}


def test_a_cluster_can_connect_as_it_begins(ray, make):
    cluster = make(
        initialize_head=True, connect=True, head_node_args={"num_cpus": 2, "resources": {"c": 1}}
    )
    assert cluster.connected
    assert ray.cluster_resources()["c"] == 1


def test_an_unknown_argument_of_a_node_is_a_type_error(make):
    with pytest.raises(TypeError, match="nonsense"):
        make().add_node(nonsense=3)


def test_a_negative_quantity_of_a_node_is_a_value_error(make):
    with pytest.raises(ValueError, match="Resource quantities must be nonnegative"):
        make().add_node(num_cpus=-1)


# How nodes go


@pytest.fixture(scope="module")
def head_without_cpus(ray, Cluster):
    """A cluster of a head that runs no tasks."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def two(ray, head_without_cpus):
    """A connected cluster whose head has no CPUs, and whose other node, a new one, has a slot."""
    cluster = head_without_cpus
    cluster.first = cluster.add_node(num_cpus=1, resources={"slot": 1})
    cluster.wait_for_nodes(LONG_S)  # those of earlier tests are known to be gone
    ray.init(address=cluster.address, **QUIET)
    yield cluster
    ray.shutdown()
    for node in cluster.list_all_nodes()[1:]:
        cluster.remove_node(node, allow_graceful=False)


def row_of(ray, node_id):
    return next(row for row in ray.nodes() if row["NodeID"] == node_id)


@pytest.mark.parametrize("gracefully", [True, False], ids=["gracefully", "killed"])
def test_a_node_that_was_removed_is_there_no_more(ray, two, gracefully):
    node_id = two.first.node_id
    two.remove_node(two.first, allow_graceful=gracefully)
    assert not two.first.any_processes_alive()
    assert two.list_all_nodes() == [two.head_node]
    wait_until(lambda: not row_of(ray, node_id)["Alive"], LONG_S)
    row = row_of(ray, node_id)
    assert row["Resources"] == {}
    assert row["alive"] is False
    assert "slot" not in ray.cluster_resources()
    two.wait_for_nodes()
    with pytest.raises(KeyError):
        two.remove_node(two.first)


@pytest.mark.parametrize("gracefully", [True, False], ids=["gracefully", "killed"])
def test_a_task_whose_node_goes_is_run_elsewhere(ray, two, tmp_path, gracefully):
    @ray.remote(resources={"slot": 1}, max_retries=2)
    def task():
        here = ray.get_runtime_context().get_node_id()
        (tmp_path / here).touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)
        return here

    @ray.remote(resources={"slot": 1})
    def later():
        return "ran"

    ref, behind = task.remote(), later.remote()
    wait_for_files(tmp_path / two.first.node_id)
    other = two.add_node(num_cpus=1, resources={"slot": 1})
    two.remove_node(two.first, allow_graceful=gracefully)
    wait_for_files(tmp_path / other.node_id)
    (tmp_path / "go").touch()
    assert ray.get([ref, behind], timeout=LONG_S) == [other.node_id, "ran"]


@pytest.mark.parametrize("gracefully", [True, False], ids=["gracefully", "killed"])
def test_a_task_that_may_not_be_retried_fails_with_its_node(ray, two, tmp_path, gracefully):
    @ray.remote(resources={"slot": 1}, max_retries=0)
    def task():
        (tmp_path / "began").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)

    ref = task.remote()
    wait_for_files(tmp_path / "began")
    two.remove_node(two.first, allow_graceful=gracefully)
    with pytest.raises(ray.exceptions.NodeDiedError):
        ray.get(ref, timeout=LONG_S)


def test_an_actor_is_started_anew_elsewhere_if_it_may_be(ray, two):
    @ray.remote(num_cpus=0, resources={"slot": 0.5})
    class Actor:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count, ray.get_runtime_context().get_node_id()

        def pid(self):
            return os.getpid()

    lasting, mortal = Actor.options(max_restarts=1).remote(), Actor.remote()
    assert ray.get(lasting.add.remote(), timeout=LONG_S) == (1, two.first.node_id)
    assert ray.get(mortal.add.remote(), timeout=LONG_S) == (1, two.first.node_id)
    other = two.add_node(num_cpus=1, resources={"slot": 1})
    pid = ray.get(lasting.pid.remote())
    two.remove_node(two.first, allow_graceful=False)
    wait_until(lambda: not is_running(pid), LONG_S)
    retried = lasting.add.options(max_task_retries=-1).remote()
    assert ray.get(retried, timeout=LONG_S) == (1, other.node_id)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(mortal.add.remote(), timeout=LONG_S)


def test_results_that_went_with_their_node_are_made_again(ray, two, tmp_path):
    @ray.remote(resources={"slot": 1})
    def make():
        here = ray.get_runtime_context().get_node_id()
        (tmp_path / here).touch()
        return np.ones(LARGE, dtype=np.uint8)

    @ray.remote(resources={"slot": 1})
    def total(array):
        return int(array.sum())

    made = make.remote()
    assert ray.wait([made], timeout=LONG_S, fetch_local=False) == ([made], [])
    other = two.add_node(num_cpus=1, resources={"slot": 1})
    two.remove_node(two.first, allow_graceful=False)
    assert ray.get(total.remote(made), timeout=LONG_S) == LARGE
    assert int(ray.get(made, timeout=LONG_S).sum()) == LARGE
    assert (tmp_path / other.node_id).exists()


def test_a_node_that_was_killed_is_missed(ray, two):
    two.first.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
    assert not two.first.any_processes_alive()
    assert two.remaining_processes_alive()  # but for those that were to be killed
    wait_until(lambda: sum(row["Alive"] for row in ray.nodes()) == 1, LONG_S)
    with pytest.raises(TimeoutError, match="Timed out while waiting for nodes"):
        two.wait_for_nodes(timeout=1)


def test_the_node_of_the_driver_is_not_removed(ray, two):
    with pytest.raises(ValueError, match="driver"):
        two.remove_node(two.head_node)
    assert not ray.is_initialized()
    assert two.head_node.any_processes_alive()


def test_shutdown_ends_all_nodes_and_a_cluster_begins_anew_after_it(ray, make):
    cluster = make(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [cluster.head_node, cluster.add_node(num_cpus=1)]
    cluster.shutdown()
    assert cluster.list_all_nodes() == []
    assert not any(node.any_processes_alive() for node in nodes)
    assert cluster.head_node is None
    cluster.shutdown()
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, **QUIET)
    assert ray.cluster_resources()["CPU"] == 2


KILLED = """
import os, psutil
from {name}.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 1}})
cluster.add_node(num_cpus=1)
print("pids", *(each.pid for each in psutil.Process().children(recursive=True)), flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"], ids=["its end", "SIGKILL"])
def test_the_nodes_end_with_the_process_that_started_them(ray, Cluster, end):
    path = os.pathsep.join([str(Path(ray.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(name=ray.__name__, end=end)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("pids")]
    pids = [int(pid) for pid in line.split()[1:]]
    assert len(pids) >= 3
    wait_until(lambda: not any(is_running(pid) for pid in pids), LONG_S)
