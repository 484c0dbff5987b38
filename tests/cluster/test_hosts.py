"""Nodes on separate hosts, and the state of the cluster after a cable was cut."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import _hosts
import numpy as np
import psutil
import pytest
from _dask_cluster import DaskCluster
from _killing import killing

import raycompat as ray
from raycompat._host import processes
from raycompat.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(200)]

LARGE = 1 << 20

#: Seconds after which Dask takes a peer for dead that does not answer; 30 by default, 11 at least.
SILENCE_S = 12

#: Seconds within which everybody has drawn the conclusions.
CONCLUSIONS_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def possible():
    reason = _hosts.why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def hosts():
    made = _hosts.Hosts()
    yield made
    made.close()


@pytest.fixture
def cluster(hosts, tmp_path, no_cluster, monkeypatch):
    """A scheduler on the driver's host, which has no node."""
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", f"{SILENCE_S}s")
    cluster = DaskCluster(tmp_path, hosts.address)
    yield cluster
    ray.shutdown()
    cluster.close()


@ray.remote
class Agent:
    def __init__(self):
        self.kept = {}

    def host(self):
        return socket.gethostname()

    def pid(self):
        return os.getpid()

    def put(self, number):
        return [ray.put(np.full(LARGE, number))]

    def total(self, refs):
        return float(ray.get(refs[0]).sum())


@ray.remote
def host_of_task():
    return socket.gethostname()


@ray.remote
def make(number):
    return np.full(LARGE, number)


@ray.remote
def total(array):
    return float(array.sum())


@ray.remote
def say(words):
    print(words)


@ray.remote(num_cpus=0)
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return socket.gethostname()


def on(node_id):
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


def node_ids():
    """Return the living nodes' ids by the names of their hosts."""
    return {node["NodeManagerHostname"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}


def test_hosts_of_their_own_are_one_cluster(hosts, cluster, capfd, wait_until):
    first, second = hosts.add(), hosts.add()
    for host in (first, second):
        cluster.add_worker(host.address, inside=host.inside)
    cluster.connect()
    ids = node_ids()
    assert set(ids) == {"host2", "host3"}
    addresses = {node["NodeManagerAddress"] for node in ray.nodes()}
    assert addresses == {first.address, second.address}

    for name, node_id in ids.items():
        task = host_of_task.options(scheduling_strategy=on(node_id))
        assert ray.get(task.remote()) == name
    agents = {
        name: Agent.options(scheduling_strategy=on(node_id)).remote()
        for name, node_id in ids.items()
    }
    assert {name: ray.get(agent.host.remote()) for name, agent in agents.items()} == {
        name: name for name in ids
    }
    # from the driver to both, from one host to the other, from both to the driver
    own = ray.put(np.full(LARGE, 2.0))
    (theirs,) = ray.get(agents["host2"].put.remote(3))
    made = make.options(scheduling_strategy=on(ids["host3"])).remote(4)
    for ref, number in ((own, 2), (theirs, 3), (made, 4)):
        for name, agent in agents.items():
            assert ray.get(agent.total.remote([ref])) == number * LARGE, name
            read = total.options(scheduling_strategy=on(ids[name]))
            assert ray.get(read.remote(ref)) == number * LARGE
        assert float(ray.get(ref).sum()) == number * LARGE
    assert ray.get([total.remote(make.remote(i)) for i in range(8)]) == [
        float(i * LARGE) for i in range(8)
    ]

    ray.get(say.options(scheduling_strategy=on(ids["host3"])).remote("from afar"))
    printed = []

    def is_printed():
        printed.append("".join(capfd.readouterr()))
        return "from afar" in "".join(printed)

    wait_until(is_printed)
    assert f"ip={second.address})" in "".join(printed)


@pytest.mark.nightly
def test_a_cable_is_cut(hosts, cluster, tmp_path, wait_until):
    """Calls run elsewhere, actors are restarted, results are made again, groups are rescheduled."""
    first, second = hosts.add(), hosts.add()
    cluster.add_worker(first.address, inside=first.inside)
    cut = cluster.add_worker(second.address, inside=second.inside)
    cluster.connect()
    ids = node_ids()
    away = NodeAffinitySchedulingStrategy(ids["host3"], soft=True)
    made = make.options(scheduling_strategy=away).remote(7)
    actor = Agent.options(
        scheduling_strategy=away, max_restarts=1, max_task_retries=-1, num_cpus=0
    ).remote()
    mortal = Agent.options(scheduling_strategy=away, num_cpus=0).remote()
    hosts_before = ray.get([actor.host.remote(), mortal.host.remote()])
    assert hosts_before == ["host3", "host3"]
    group = ray.util.placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    go = tmp_path / "go"
    running = [
        wait_for.remote(str(go)),
        wait_for.options(scheduling_strategy=away).remote(str(go)),
        wait_for.options(scheduling_strategy="SPREAD").remote(str(go)),
        wait_for.options(scheduling_strategy="SPREAD").remote(str(go)),
    ]
    pids = ray.get([actor.pid.remote(), mortal.pid.remote()])
    ray.wait([made])
    pending = mortal.host.remote()
    assert ray.get(pending) == "host3"

    second.cut()
    doomed = mortal.host.remote()
    wait_until(lambda: set(node_ids()) == {"host2"}, CONCLUSIONS_S)
    go.touch()
    assert ray.get(running, timeout=CONCLUSIONS_S) == ["host2"] * 4
    assert ray.get(actor.host.remote(), timeout=CONCLUSIONS_S) == "host2"
    # The driver may notice the cut before the scheduler does; then the actor is unavailable, not dead.
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(doomed, timeout=CONCLUSIONS_S)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(mortal.host.remote(), timeout=CONCLUSIONS_S)
    assert ray.get(total.remote(made), timeout=CONCLUSIONS_S) == 7 * LARGE
    assert float(ray.get(made, timeout=CONCLUSIONS_S).sum()) == 7 * LARGE
    # A node that is cut off ends by itself: no call runs twice for longer than the silence lasts.
    cut.wait(CONCLUSIONS_S)
    wait_until(lambda: not any(processes.start_of(pid) for pid in pids), CONCLUSIONS_S)
    second.mend()
    cluster.add_worker(second.address, inside=second.inside)
    assert group.wait(CONCLUSIONS_S)
    wait_until(lambda: set(node_ids()) == {"host2", "host3"}, CONCLUSIONS_S)
    spread = PlacementGroupSchedulingStrategy
    in_group = [
        host_of_task.options(scheduling_strategy=spread(group, i)).remote() for i in range(2)
    ]
    assert sorted(ray.get(in_group, timeout=CONCLUSIONS_S)) == ["host2", "host3"]
    ray.util.remove_placement_group(group)


DRIVER = """
import sys
import raycompat as ray

@ray.remote
class Agent:
    def host(self):
        return 1

@ray.remote(num_cpus=0)
def wait():
    import time
    time.sleep(1000)

ray.init(address=sys.argv[1], configure_logging=False, namespace="cut")
own = Agent.options(num_cpus=1, name="own").remote()
kept = Agent.options(num_cpus=1, name="kept", lifetime="detached").remote()
ray.get([own.host.remote(), kept.host.remote()])
waiting = wait.remote()
print("ready", flush=True)
try:
    ray.get(waiting)
except ray.exceptions.RaySystemError as error:
    print("lost", error)
"""


def test_a_driver_that_is_cut_off_leaves_nothing(hosts, cluster, wait_until, tmp_path):
    """The cluster frees what it held, but for what is detached; the driver itself hears of it."""
    first, second = hosts.add(), hosts.add()
    cluster.add_worker(first.address, inside=first.inside)
    cluster.connect()
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [*second.inside, sys.executable, str(script), cluster.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver, killing(driver):
        assert driver.stdout.readline() == "ready\n"
        assert ray.available_resources().get("CPU", 0) == 0
        second.cut()
        wait_until(lambda: ray.available_resources().get("CPU", 0) == 1, CONCLUSIONS_S)
        with pytest.raises(ValueError, match="Failed to look up actor"):
            ray.get_actor("own", namespace="cut")
        kept = ray.get_actor("kept", namespace="cut")
        assert ray.get(kept.host.remote()) == 1
        assert "was lost" in driver.communicate(timeout=CONCLUSIONS_S)[0]
        assert driver.returncode == 0
    ray.kill(kept)


def test_what_init_starts_is_not_there_for_other_hosts(hosts, no_cluster):
    host = hosts.add()
    ray.init(num_cpus=1, configure_logging=False)
    ray.get(host_of_task.remote())
    me = psutil.Process()
    ports = {
        connection.laddr.port
        for process in (me, *me.children(recursive=True))
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert len(ports) >= 2  # pages of scheduler and node; all else is on Unix sockets
    for port in ports:
        connect = f"import socket; socket.create_connection(({hosts.address!r}, {port}), 5)"
        done = subprocess.run(
            [*host.inside, sys.executable, "-c", connect],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "ConnectionRefusedError" in done.stderr
    ray.shutdown()
