"""Large objects: on one host and on several, on disk, lost and made again, and after crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import psutil
import pytest

import raycompat as ray
from raycompat._cli.status import described_nodes
from raycompat._host import segment
from raycompat._messages.nodes import ClusterState
from raycompat._messages.objects import Locate

MEGABYTE = 1_000_000


@ray.remote
def node_of(*_: object) -> int:
    """Return the pid of the node that this runs on."""
    return psutil.Process().parent().ppid()


@ray.remote
class Agent:
    """Lives on one node, and does things there."""

    def node(self) -> int:
        return psutil.Process().parent().ppid()

    def put(self, size: int) -> list[object]:
        return [ray.put(np.ones(size, dtype=np.uint8))]

    def read(self, refs: list[object]) -> int:
        return sum(int(each.sum()) for each in ray.get(refs))


def resource_of(pid: int) -> str:
    """Return the resource that only this node has."""
    address = next(
        node["address"]
        for node in sys.modules["raycompat._caller.current_session"]
        .get()
        .rpc(ClusterState())["nodes"]
        if node["pid"] == pid
    )
    return "node:" + address.split("://")[1].rpartition(":")[0]


def agent_on(pid: int) -> object:
    """Return an agent that lives on one node."""
    return Agent.options(num_cpus=0, resources={resource_of(pid): 0.001}).remote()


def outgoing(client: object, key: str) -> int:
    """Return how often nodes have sent a value to others."""

    def count(dask_worker: object) -> int:
        return sum(key in transfer["keys"] for transfer in dask_worker.transfer_outgoing_log)

    return sum(client.run(count).values())


@pytest.fixture
def two_hosts(dask_cluster):
    """Two nodes whose addresses say that they are on different hosts."""
    for host in ("127.0.0.1", "127.0.0.2"):
        dask_cluster.add_worker(host)
    dask_cluster.connect()
    return dask_cluster


# --- limits -------------------------------------------------------------------------------------


@pytest.fixture
def small_store(no_cluster):
    """A store of 100 MB."""
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * MEGABYTE,
        configure_logging=False,
    )


def shared_bytes() -> int:
    """Return the bytes of this cluster's segments. One with two names counts once."""
    session = sys.modules["raycompat._caller.current_session"].get()
    sizes = {}
    for path in Path("/dev/shm").glob(f"*/{session.home.place.store}*"):
        for each in path.iterdir() if path.is_dir() else [path]:
            status = each.stat()
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


@ray.remote
def total(array: np.ndarray) -> float:
    return float(array.sum())


@ray.remote
def make(value: int) -> np.ndarray:
    return np.full(10 * MEGABYTE, value % 256, dtype=np.uint8)


def test_puts_of_three_times_the_store_are_kept(small_store, wait_until):
    refs = [ray.put(np.full(10 * MEGABYTE, value, dtype=np.uint8)) for value in range(30)]
    assert shared_bytes() <= 100 * MEGABYTE
    totals = ray.get([total.remote(ref) for ref in refs])
    assert totals == [10.0 * MEGABYTE * value for value in range(30)]
    assert shared_bytes() <= 100 * MEGABYTE
    assert [int(ray.get(ref)[-1]) for ref in refs] == list(range(30))

    def spilled() -> tuple[int, str]:
        state = sys.modules["raycompat._caller.current_session"].get().rpc(ClusterState())
        [node] = described_nodes(state)
        return node["spilled_bytes"], node["spill_directory"]

    def files() -> list[Path]:
        return [path for path in Path(directory).rglob("*") if path.stat().st_size > MEGABYTE]

    wait_until(lambda: spilled()[0] >= 190 * MEGABYTE)  # reported with Dask's heartbeat
    directory = spilled()[1]
    assert len(files()) >= 19
    refs.clear()
    wait_until(lambda: spilled()[0] == 0)
    assert not files()


def test_results_of_three_times_the_store_are_kept(small_store):
    refs = [make.remote(value) for value in range(30)]
    assert [int(ray.get(ref)[0]) for ref in refs] == list(range(30))
    assert [int(ray.get(ref)[0]) for ref in refs] == list(range(30))
    # Each of the two executors that write at the same time may exceed the limit by one value.
    assert shared_bytes() <= 121 * MEGABYTE


def test_a_call_may_return_several_values_that_fill_the_store(small_store):
    """They are given to the node with the end of their call, and not before."""

    @ray.remote(num_returns=6)
    def make_six(value: int) -> list[np.ndarray]:
        return [np.full(10 * MEGABYTE, value + part, dtype=np.uint8) for part in range(6)]

    calls = [make_six.remote(value) for value in range(5)]
    made = [[int(array[-1]) for array in ray.get(refs)] for refs in calls]
    assert made == [list(range(value, value + 6)) for value in range(5)]


def test_results_of_actors_of_three_times_the_store_are_kept(small_store):
    @ray.remote
    class Maker:
        def make(self, value):
            return np.full(10 * MEGABYTE, value, dtype=np.uint8)

        def last(self, array):
            return int(array[-1])

    maker, other = Maker.remote(), Maker.remote()
    refs = [maker.make.remote(value) for value in range(30)]
    assert [int(ray.get(ref)[0]) for ref in refs] == list(range(30))
    assert ray.get([other.last.remote(ref) for ref in refs]) == list(range(30))
    # The one executor that writes may exceed the limit by one value, which has a header.
    assert shared_bytes() <= 111 * MEGABYTE


def test_a_value_larger_than_the_store_goes_to_the_disk(small_store):
    ref = ray.put(np.ones(150 * MEGABYTE, dtype=np.uint8))
    assert shared_bytes() == 0
    assert ray.get(total.remote(ref)) == 150 * MEGABYTE


def test_a_full_disk_is_said(small_store, monkeypatch):
    import errno

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(segment, "_write_file", full)
    with pytest.raises(ray.exceptions.OutOfDiskError, match="does not fit"):
        ray.put(np.ones(MEGABYTE))


def test_a_put_uses_memory_that_an_earlier_one_had(cluster, wait_until):
    session = sys.modules["raycompat._caller.current_session"].get()
    free = Path(session.home.place.directories[0], f"{session.home.place.store}-free")
    first = ray.put(np.ones(MEGABYTE))
    number = os.stat(first._entry.value.path).st_ino
    del first
    wait_until(lambda: number in [path.stat().st_ino for path in free.iterdir()])
    others = {path.stat().st_ino for path in free.iterdir()}  # earlier tests leave such, too
    second = ray.put(np.zeros(MEGABYTE))
    assert os.stat(second._entry.value.path).st_ino in others
    assert not ray.get(second).any()


def test_an_array_outlives_its_reference_though_its_memory_is_wanted(cluster):
    array = ray.get(ray.put(np.ones(MEGABYTE)))
    for _ in range(20):
        ray.put(np.zeros(MEGABYTE))
    assert array.all()


def test_thousands_of_large_values_can_be_read_at_once(cluster):
    refs = [ray.put(np.full(20_000, number)) for number in range(2000)]
    arrays = ray.get(refs)
    assert [int(array[0]) for array in arrays] == list(range(2000))


# --- several hosts ------------------------------------------------------------------------------


def test_a_value_is_fetched_once_for_all_processes_of_a_node(two_hosts):
    from raycompat.util import dask

    owner = agent_on(two_hosts.others[0])
    readers = [agent_on(two_hosts.home) for _ in range(3)]
    refs = ray.get(owner.put.remote(5 * MEGABYTE))
    results = ray.get([reader.read.remote(refs) for reader in readers for _ in range(2)])
    assert results == [5 * MEGABYTE] * 6
    assert outgoing(dask.client(), refs[0]._key) == 1
    assert int(ray.get(refs[0]).sum()) == 5 * MEGABYTE


def test_a_broadcast_goes_from_node_to_node(dask_cluster):
    from raycompat.util import dask

    for number in range(1, 5):
        dask_cluster.add_worker(f"127.0.0.{number}")
    dask_cluster.connect()
    ref = ray.put(np.ones(20 * MEGABYTE, dtype=np.uint8))
    agents = [agent_on(node) for node in dask_cluster.workers]

    @ray.remote(num_cpus=2, scheduling_strategy="SPREAD")
    def read(array):
        return psutil.Process().parent().ppid(), int(array.sum())

    results = ray.get([read.remote(ref) for _ in range(4)])
    assert {number for _, number in results} == {20 * MEGABYTE}
    assert len({node for node, _ in results}) == 4
    assert ray.get([agent.read.remote([ref]) for agent in agents]) == [20 * MEGABYTE] * 4
    assert 3 <= outgoing(dask.client(), ref._key) <= 4


@pytest.fixture
def other_host(monkeypatch, tmp_path):
    """Write the segments of this process where no other process finds them by their paths."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(segment, "SHARED_MEMORY", Path("/proc/self/cwd"))


def test_a_driver_without_a_node_on_its_host_sends_and_gets_bytes(dask_cluster, other_host):
    dask_cluster.add_worker()
    dask_cluster.connect()
    array = np.arange(MEGABYTE)
    ref = ray.put(array)
    assert ray.get(total.remote(ref)) == array.sum()
    np.testing.assert_array_equal(ray.get(ref), array)
    assert int(ray.get(make.remote(7))[-1]) == 7
    agent = agent_on(dask_cluster.home)
    assert ray.get(agent.read.remote([ref])) == array.sum()
    (given,) = ray.get(agent.put.remote(MEGABYTE))
    assert int(ray.get(given).sum()) == MEGABYTE


# --- lost and made again ------------------------------------------------------------------------


def test_the_next_put_uses_the_memory_of_a_value_that_was_just_dropped(cluster):
    """At once, and not when its reference is collected: new memory takes several times as long."""
    array = np.ones(3 * MEGABYTE, np.uint8)
    numbers = set()
    for _ in range(30):
        ref = ray.put(array)
        numbers.add(os.stat(ref._entry.value.path).st_ino)
        del ref
    assert len(numbers) <= 2  # the first one may be left of an earlier test


def test_a_lost_result_is_made_again_and_without_retries_it_is_an_error(
    two_hosts, session, tmp_path, wait_until
):
    @ray.remote(num_cpus=2, scheduling_strategy="SPREAD")
    def make_here(path):
        with open(path, "a") as log:
            log.write("made\n")
        return psutil.Process().parent().ppid(), np.ones(MEGABYTE)

    def lost_of_two(max_retries, log):
        refs = [make_here.options(max_retries=max_retries).remote(str(log)) for _ in range(2)]
        nodes = [ray.get(ref)[0] for ref in refs]
        assert set(nodes) == set(two_hosts.workers)
        return refs[nodes.index(two_hosts.others[0])]

    log = tmp_path / "log"
    retried, not_retried = lost_of_two(1, log), lost_of_two(0, tmp_path / "other log")
    client = session.client
    keys = [ref._entry.key for ref in (retried, not_retried)]
    # Until the scheduler has learned of a result, it counts the call as running on its node.
    wait_until(lambda: all(client.who_has().get(key) for key in keys))
    two_hosts.workers[two_hosts.others[0]].kill()
    for ref in (retried, not_retried):
        os.unlink(ref_path(ref))  # on another host it would be gone with its node

    @ray.remote
    def look(made):
        return made[0], made[1].sum()

    assert ray.get(look.remote(retried), timeout=60) == (two_hosts.home, MEGABYTE)
    assert len(log.read_text().split()) == 3
    with pytest.raises(ray.exceptions.ObjectLostError):
        ray.get(look.remote(not_retried), timeout=60)


def test_a_put_that_is_lost_is_an_error_for_whoever_asks_and_for_all_that_is_made_of_it(
    two_hosts, wait_until, tmp_path
):
    @ray.remote(num_cpus=0)
    def gate(path):
        import time

        while not os.path.exists(path):
            time.sleep(0.01)

    @ray.remote(scheduling_strategy="SPREAD")
    def link(array, *_):
        return np.ones(MEGABYTE) * array[0]

    @ray.remote(num_cpus=0)
    class Link:
        def link(self, array):
            return np.ones(MEGABYTE) * array[0]

    here, there = resource_of(two_hosts.home), resource_of(two_hosts.others[0])
    owner = agent_on(two_hosts.others[0])
    asked, passed, put, shared = [ray.get(owner.put.remote(MEGABYTE))[0] for _ in range(4)]
    reader = agent_on(two_hosts.home)
    assert ray.get(reader.read.remote([shared])) == MEGABYTE
    first = link.options(resources={there: 0.001}).remote(put)
    ray.wait([first])
    gate_is_open = gate.options(resources={here: 0.001}).remote(str(tmp_path / "go"))
    second = link.remote(first, gate_is_open)
    third = Link.options(resources={here: 0.001}).remote().link.remote(second)
    fourth = link.remote(third)
    two_hosts.workers[two_hosts.others[0]].kill()
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1)
    (tmp_path / "go").touch()
    for ref in (asked, total.remote(passed), fourth, third, second):
        with pytest.raises(ray.exceptions.ObjectLostError):
            ray.get(ref, timeout=60)
    assert ray.wait([asked], timeout=10)[0] == [asked]
    # A value that the other node also has is not lost.
    assert int(ray.get(shared, timeout=60).sum()) == MEGABYTE
    assert ray.get(total.remote(shared), timeout=60) == MEGABYTE


@pytest.mark.parametrize("dask_cluster", [{"INTERVAL": "50ms"}], indirect=True)
def test_a_put_stays_on_the_node_of_its_driver(two_hosts, wait_until):
    """Dask's memory manager drops copies, but not this one."""
    refs = [ray.put(np.ones(MEGABYTE, dtype=np.uint8)) for _ in range(10)]
    reader = agent_on(two_hosts.others[0])
    assert ray.get(reader.read.remote(refs)) == 10 * MEGABYTE
    session = sys.modules["raycompat._caller.current_session"].get()
    keys = [ref._key for ref in refs]

    def holders():
        found = session.rpc(Locate(keys))["holders"].values()
        return {tuple(each) for each in found}

    wait_until(lambda: all(len(each) == 1 for each in holders()))
    assert holders() == {(session.home.address,)}


def test_a_segment_that_somebody_has_removed_is_made_again(cluster):
    ref = make.remote(3)
    os.unlink(ref_path(ref))
    assert int(ray.get(ref, timeout=60)[0]) == 3
    assert ray.get(total.remote(ref)) == 30.0 * MEGABYTE


def ref_path(ref: object) -> str:
    ray.wait([ref])
    return ref._entry.value.path


def test_values_outlive_the_process_that_made_them(cluster, wait_until):
    @ray.remote(max_calls=1)
    def make_here(value):
        return os.getpid(), np.full(MEGABYTE, value), [ray.put(np.full(MEGABYTE, value))]

    refs = [make_here.remote(value) for value in range(3)]
    pids, arrays, inner = zip(*ray.get(refs), strict=True)
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    assert [array[0] for array in arrays] == [0, 1, 2]
    del arrays
    assert ray.get([total.remote(ref) for (ref,) in inner]) == [0, MEGABYTE, 2 * MEGABYTE]
    assert [ray.get(ref)[1][-1] for ref in refs] == [0, 1, 2]


# --- crashes ------------------------------------------------------------------------------------

DRIVER = """
    import os, sys
    import numpy as np
    import psutil
    import raycompat as ray
    from raycompat._messages.nodes import ClusterState

    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

    @ray.remote
    class Keeper:
        def keep(self):
            self.refs = [ray.put(np.ones(300_000)) for _ in range(3)]
            return os.getpid()

    @ray.remote
    def make():
        return np.ones(300_000)

    keeper = Keeper.remote()
    pid = ray.get(keeper.keep.remote())
    made = [make.remote() for _ in range(3)]
    ray.wait(made, num_returns=3)
    put = [ray.put(np.ones(300_000)) for _ in range(3)]
    session = sys.modules["raycompat._caller.current_session"].get()
    processes = [p.pid for p in psutil.Process().children(recursive=True)]
    nodes = session.rpc(ClusterState())["nodes"]
    (forkserver,) = psutil.Process().children()
    scheduler = next(p.pid for p in forkserver.children() if p.pid != nodes[0]["pid"])
    victims = pid, nodes[0]["pid"], scheduler, forkserver.pid
    print(session.home.place.store, *victims, *processes, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("victim", ["driver", "executor", "node", "scheduler", "forkserver"])
def test_a_crash_leaves_nothing(no_cluster, wait_until, tmp_path, victim):
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    driver = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    store, *pids = driver.stdout.readline().split()
    executor, node, scheduler, forkserver, *processes = map(int, pids)
    assert list(Path("/dev/shm").glob(f"*/{store}-*"))
    chosen = {
        "driver": driver.pid,
        "executor": executor,
        "node": node,
        "scheduler": scheduler,
        "forkserver": forkserver,
    }
    os.kill(chosen[victim], signal.SIGKILL)
    wait_until(lambda: not is_running(chosen[victim]))
    if victim == "executor":
        mine = f"{store}-{executor}-*"
        wait_until(lambda: not list(Path("/dev/shm").glob(mine)))
    driver.stdin.close()
    driver.wait(60)
    driver.stdout.close()
    wait_until(lambda: not any(is_running(pid) for pid in processes))
    segment.sweep_shared_memory()  # as the next node does at its start
    assert not list(Path("/dev/shm").glob(f"*/{store}*"))


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
