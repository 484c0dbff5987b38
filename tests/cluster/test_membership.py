"""Nodes that come and go, and what becomes of drivers, values, calls and actors."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from distributed import Status

import raycompat as ray
from raycompat._host import processes
from raycompat._messages.nodes import ClusterState
from raycompat._scheduler import notices
from raycompat.util import dask
from raycompat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

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


@ray.remote
def made(folder, length):
    (folder / "begun").touch()
    while not (folder / "go on").exists():
        time.sleep(0.001)
    return np.ones(length)


@ray.remote(num_cpus=0)
class Reader:
    def total(self, refs):
        return float(ray.get(refs[0]).sum())

    def keep(self, refs):
        self.refs = refs

    def total_of_kept(self):
        return self.total(self.refs)


@pytest.fixture
def reader_beside_paused_home(dask_cluster, wait_until, session_of_driver):
    """A reader on one of two nodes; the other one, the driver's home, is paused."""
    for _ in range(2):
        dask_cluster.add_worker()
    dask_cluster.connect()
    home, client = session_of_driver().home, session_of_driver().client
    (other,) = [node for node in living() if node != home.node_id]
    there = NodeAffinitySchedulingStrategy(other, soft=False)
    reader = Reader.options(scheduling_strategy=there).remote()

    def pause(dask_worker):
        """Pause a worker as if its memory were full; Dask would let it go on at once."""
        dask_worker.periodic_callbacks["memory_monitor"].stop()
        dask_worker.status = Status.paused

    client.run(pause, workers=[home.address])

    def running(dask_scheduler):
        return [each.address for each in dask_scheduler.running]

    wait_until(lambda: home.address not in client.run_on_scheduler(running))
    return reader


@pytest.mark.parametrize("length", [10, LARGE])
def test_others_get_a_result_whose_home_was_paused_and_died(
    dask_cluster, reader_beside_paused_home, tmp_path, wait_until, session_of_driver, length
):
    reader = reader_beside_paused_home
    ref = made.remote(tmp_path, length)
    total_of_it = reader.total.remote([ref])
    wait_until((tmp_path / "begun").exists)
    (tmp_path / "go on").touch()
    ray.wait([ref], timeout=60)
    if length < LARGE:  # another node has stored it
        assert ray.get(total_of_it, timeout=60) == length
    assert session_of_driver().rpc(ClusterState())["nodes"]  # the scheduler has the report

    def times_kept_back(dask_scheduler):
        calls = dask_scheduler.plugins["raycompat"].parts.calls.by_key
        (key,) = [each for each in calls if each.startswith("made-")]
        moves = [tuple(each[1:3]) for each in dask_scheduler.story(key)]
        return moves.count(("no-worker", "no-worker"))

    assert session_of_driver().client.run_on_scheduler(times_kept_back) <= 1
    dask_cluster.workers[dask_cluster.home].kill()
    assert ray.get(total_of_it, timeout=60) == length


def test_others_hear_that_a_put_is_lost_with_its_home_when_the_driver_has_dropped_it(
    dask_cluster, reader_beside_paused_home, session_of_driver
):
    reader, ref = reader_beside_paused_home, ray.put(np.ones(LARGE))
    ray.get(reader.keep.remote([ref]))
    del ref
    gc.collect()
    assert session_of_driver().rpc(ClusterState())["nodes"]  # the scheduler has the release
    dask_cluster.workers[dask_cluster.home].kill()
    with pytest.raises(ray.exceptions.ObjectLostError):
        ray.get(reader.total_of_kept.remote(), timeout=60)


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
    wait_until(lambda: not any(processes.start_of(each) for each in pids))
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
    return [node["address"] for node in session.rpc(ClusterState())["nodes"]]


# --- nodes that Dask has paused -------------------------------------------------------------------


def set_status(address: str, name: str, wait_until) -> None:
    """Pause a worker ("paused") or let it accept tasks ("running"); return when the scheduler knows it."""

    def change(dask_worker):
        dask_worker.memory_manager.memory_pause_fraction = False  # else it decides by its memory
        dask_worker.status = Status[name]

    def is_known(dask_scheduler):
        return dask_scheduler.workers[address].status.name == name

    client = dask.client()
    client.run(change, workers=[address])
    wait_until(lambda: client.run_on_scheduler(is_known))


def test_a_call_that_waits_for_a_paused_node_starts_when_it_is_resumed(dask_cluster, wait_until):
    dask_cluster.add_worker()
    dask_cluster.connect()

    def be_patient():  # checks for notices about waiting calls would start the calls too
        notices.PATIENCE_S = 1000.0

    dask.client().run_on_scheduler(be_patient)
    spread = pid.options(scheduling_strategy="SPREAD")  # without a lease, whose return would too
    ray.get(spread.remote())
    (address,) = addresses()
    set_status(address, "paused", wait_until)
    ref = spread.remote()
    assert ray.wait([ref], timeout=0.2)[0] == []
    set_status(address, "running", wait_until)
    ray.get(ref, timeout=30)


@ray.remote
def once(path, go, size):
    """Write a line to a file, and return some bytes when another file exists."""
    with open(path, "a") as file:
        file.write("called\n")
    while not os.path.exists(go):
        time.sleep(0.001)
    return bytes(size)


@ray.remote
def lengths(refs):
    return [len(value) for value in ray.get(refs)]


def transitions_of(ref) -> int:
    """Return the number of steps of a call that Dask's scheduler has recorded."""
    key = ref._entry.key

    def look(dask_scheduler):
        return len(dask_scheduler.story(key))

    return dask.client().run_on_scheduler(look)


def test_a_large_result_waits_for_the_paused_node_that_got_it(
    dask_cluster, wait_until, session_of_driver, tmp_path
):
    for _ in range(2):
        dask_cluster.add_worker()
    dask_cluster.connect()
    home, lines, go = session_of_driver().home.address, tmp_path / "lines", tmp_path / "go"
    set_status(home, "paused", wait_until)
    ref = once.options(max_retries=0).remote(lines, go, LARGE)
    key, strategies = ref._entry.key, ("DEFAULT", "SPREAD")
    readers = [lengths.options(scheduling_strategy=how).remote([ref]) for how in strategies]
    wait_until(lines.exists)
    go.touch()
    ray.get(ref)

    def is_given(dask_scheduler):
        parts = dask_scheduler.plugins["raycompat"].parts
        return parts.calls.by_key[key].address == home

    wait_until(lambda: dask.client().run_on_scheduler(is_given))
    before = transitions_of(ref)
    assert ray.wait(readers, timeout=0.2)[0] == []
    assert transitions_of(ref) == before
    set_status(home, "running", wait_until)
    assert ray.get(readers, timeout=60) == [[LARGE]] * 2
    assert lines.read_text() == "called\n"
