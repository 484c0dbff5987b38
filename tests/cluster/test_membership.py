"""Nodes that come and go, and what becomes of drivers, values, calls and actors."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import raycompat as ray

LARGE = 1 << 20

#: Seconds within which every waiting thread gets the error that the scheduler has died.
SCHEDULER_DEATH_S = 30.0


@ray.remote
def total(array):
    return float(array.sum())


@ray.remote
def node_pid():
    """Pid of the node that a call runs on."""
    return psutil.Process().parent().ppid()


def living() -> list[str]:
    """Ids of the nodes that are there."""
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


# --- the node that keeps a driver's values --------------------------------------------------------


def test_a_driver_outlives_its_home(dask_cluster, wait_until, session_of_driver):
    for _ in range(2):
        dask_cluster.add_worker()
    dask_cluster.connect()
    own = ray.put(np.ones(LARGE))
    first = session_of_driver().home
    dask_cluster.workers[dask_cluster.home].kill()
    wait_until(lambda: session_of_driver().home.address != first.address)
    assert ray.get(own).sum() == LARGE
    assert ray.get(total.remote(own), timeout=60) == LARGE
    for strategy in ("DEFAULT", "SPREAD"):
        later = ray.put(np.full(LARGE, 2.0))
        call = total.options(scheduling_strategy=strategy)
        assert ray.get([call.remote(own), call.remote(later)], timeout=60) == [LARGE, 2 * LARGE]
    first_store = Path("/dev/shm").glob(f"*/{first.place.store}-*-*")
    assert not list(first_store)  # what the driver has given away is not its to remove any more
    assert len(living()) == 1


def test_a_driver_outlives_its_only_node(dask_cluster, wait_until, session_of_driver):
    dask_cluster.add_worker()
    dask_cluster.connect()
    own = ray.put(np.ones(LARGE))
    first = session_of_driver().home
    dask_cluster.workers[dask_cluster.home].kill()
    wait_until(lambda: not living())
    given = ray.put(np.full(LARGE, 2.0))  # to the node that has left; it is asked for again
    by_scheduler = total.options(scheduling_strategy="SPREAD")
    waiting = [total.remote(own), by_scheduler.remote(given)]
    dask_cluster.add_worker()
    wait_until(lambda: session_of_driver().home.address != first.address)
    assert ray.get(waiting, timeout=60) == [LARGE, 2 * LARGE]
    assert ray.get(by_scheduler.remote(own), timeout=60) == LARGE


@pytest.fixture
def session_of_driver():
    return sys.modules["raycompat._caller.current_session"].get


# --- the scheduler dies ---------------------------------------------------------------------------


@ray.remote
class Sleeper:
    def pid(self):
        return os.getpid()

    def sleep(self):
        time.sleep(1000)


@ray.remote
def sleep():
    time.sleep(1000)


@ray.remote
def pid():
    return os.getpid()


@ray.remote
def wait_in_vain(refs):
    """Run until what one of `refs` stands for is there, which never is."""
    return ray.get(refs[0])


def test_all_who_wait_hear_that_the_scheduler_has_died(dask_cluster, wait_until):
    node = dask_cluster.add_worker()
    dask_cluster.connect()
    actor = Sleeper.remote()
    pids = ray.get([pid.remote(), actor.pid.remote()])
    kept, small = ray.put(np.ones(LARGE)), ray.put(1)
    by_scheduler = sleep.options(scheduling_strategy="SPREAD", num_cpus=0).remote()
    stream = (ref for ref in endless.remote())
    first = ray.get(next(stream))
    waiting = [sleep.remote(), by_scheduler, actor.sleep.remote(), wait_in_vain.remote([small])]
    dask_cluster.scheduler.kill()
    for ref in [*waiting[:3], actor.pid.remote]:
        with pytest.raises(ray.exceptions.RaySystemError, match="scheduler at tcp.* was lost"):
            ray.get(ref() if callable(ref) else ref, timeout=SCHEDULER_DEATH_S)
    with pytest.raises(ray.exceptions.RaySystemError, match=r"Call ray\.shutdown"):
        pid.remote()
    with pytest.raises(ray.exceptions.RaySystemError, match="was lost"):
        ray.nodes()
    assert first == 0
    with pytest.raises(ray.exceptions.RaySystemError):
        for ref in stream:
            ray.get(ref)
    assert ray.get(small) == 1  # what is here is here
    assert ray.get(kept).sum() == LARGE
    node.wait(SCHEDULER_DEATH_S)
    wait_until(lambda: not any(psutil.pid_exists(each) for each in pids))
    ray.shutdown()


class Poll:
    """Reports a thread that waits without end for data of a connection."""

    def __init__(self, poll, waits):
        self._poll = poll
        self._waits = waits

    def poll(self, timeout_ms):
        if timeout_ms is None:
            self._waits.set()
        return self._poll.poll(timeout_ms)


def test_a_thread_that_reads_an_actors_answer_hears_of_a_lost_scheduler_too(no_cluster, tmp_path):
    """The actor may live on, and answer late or never."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    session = sys.modules["raycompat._caller.current_session"].get()

    @ray.remote
    class Slow:
        def wait_for(self, path):
            while not path.exists():
                time.sleep(0.01)

    actor = Slow.remote()
    ray.get(actor.__ray_ready__.remote())
    (channel,) = session.channels.values()
    reads = threading.Event()
    channel._connection._poll = Poll(channel._connection._poll, reads)
    answer = actor.wait_for.remote(tmp_path / "end")
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(ray.get, answer)
        assert reads.wait(SCHEDULER_DEATH_S)
        session.call_soon(session.lose_connection)
        try:
            with pytest.raises(ray.exceptions.RaySystemError, match="was lost"):
                reader.result(SCHEDULER_DEATH_S)
        finally:
            (tmp_path / "end").touch()


@ray.remote
def endless():
    number = 0
    while True:
        yield number
        number += 1
        time.sleep(0.1)


# --- Dask's own ways to change a cluster ----------------------------------------------------------


@ray.remote
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.001)
    return ray.get_runtime_context().get_node_id()


@ray.remote
class Resident:
    def node(self):
        return ray.get_runtime_context().get_node_id()


@ray.remote(num_cpus=2, scheduling_strategy="SPREAD")
def make(value):
    return np.full(LARGE, value), ray.get_runtime_context().get_node_id()


def test_a_node_that_is_retired_leaves_its_values_and_calls_to_others(
    dask_cluster, tmp_path, wait_until, session_of_driver
):
    for _ in range(2):
        dask_cluster.add_worker()
    dask_cluster.connect()
    values = [make.remote(each) for each in range(4)]
    ray.wait(values, num_returns=4)
    again = {"max_restarts": 1, "max_task_retries": -1}
    residents = [Resident.options(**again).remote() for _ in range(4)]
    spread = [Resident.options(**again, scheduling_strategy="SPREAD").remote()]
    ray.get([each.node.remote() for each in residents + spread])
    go = tmp_path / "go"
    running = [wait_for.remote(str(go)) for _ in range(2)]
    running += [
        wait_for.options(scheduling_strategy="SPREAD", num_cpus=0).remote(str(go)) for _ in range(2)
    ]
    leaving = next(a for a in addresses() if a != session_of_driver().home.address)
    process = dask_cluster.workers[dask_cluster.pid_of(leaving)]
    assert leaving in session_of_driver().client.retire_workers([leaving])
    process.wait(60)
    go.touch()
    (left,) = living()
    assert ray.get(running, timeout=60) == [left] * 4
    nodes = ray.get([each.node.remote() for each in residents + spread], timeout=60)
    assert nodes == [left] * 5
    for number, ref in enumerate(values):
        assert int(ray.get(ref, timeout=60)[0][0]) == number
        assert int(ray.get(total_of_pair.remote(ref), timeout=60)) == number * LARGE


@ray.remote
def total_of_pair(pair):
    return float(pair[0].sum())


def addresses() -> list[str]:
    session = sys.modules["raycompat._caller.current_session"].get()
    return [node["address"] for node in session.rpc("raycompat_state")["nodes"]]


def test_a_restart_of_the_workers_ends_what_there_was(dask_cluster, wait_until, session_of_driver):
    dask_cluster.add_worker("127.0.0.1", "--nanny")
    ray.init(address=dask_cluster.address, configure_logging=False)
    resident = Resident.options(max_restarts=-1).remote()
    detached = Resident.options(name="resident", lifetime="detached").remote()
    ray.get([resident.node.remote(), detached.node.remote()])
    own, given = ray.put(np.ones(LARGE)), ray.put(np.ones(LARGE))
    by_scheduler = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
    assert ray.get(total.options(**by_scheduler).remote(given)) == LARGE
    made = make.remote(1)
    ray.wait([made])
    sleeper = Sleeper.remote()
    ray.get(sleeper.pid.remote())
    running = [sleep.remote(), sleep.options(**by_scheduler).remote(), sleeper.sleep.remote()]
    session_of_driver().client.restart(timeout=60)
    for ref in [*running, given, made]:
        with pytest.raises((ray.exceptions.ObjectLostError, ray.exceptions.ActorDiedError)):
            ray.get(ref, timeout=60)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(resident.node.remote(), timeout=60)
    with pytest.raises(ValueError, match="Failed to look up actor"):
        ray.get_actor("resident")
    assert ray.get(own).sum() == LARGE
    assert ray.get(total.remote(own), timeout=60) == LARGE
    another = Resident.remote()
    assert ray.get(another.node.remote(), timeout=60) in living()
    del another
    wait_until(lambda: ray.available_resources().get("CPU") == 2)
