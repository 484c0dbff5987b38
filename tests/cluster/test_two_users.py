"""Another user of the Dask cluster restarts it, restarts and retires its workers, and uses Dask's own API."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import dask.array as da
import dask.bag as db
import pytest
from _dask_state import state_of
from distributed import Client, LocalCluster
from distributed.utils import offload

import raycompat as ray
from raycompat.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
)
from raycompat.util import dask

#: Seconds for a worker to start again, on a machine that has other work.
RESTART_S = 60

FROM_DASK = {"scheduling_strategy": "SPREAD"}  # by the scheduler, and not by a lease


@ray.remote(num_cpus=0)
def zeros(size):
    return bytes(size)


@ray.remote(num_cpus=0)
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)  # polling: the test ends it
    return path


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

    def wait_for(self, path):
        while not os.path.exists(path):
            time.sleep(0.01)  # polling: the test ends it
        return self.count


def answer_after_restart(counter):
    """Return what an actor answers once it has restarted: a call without retries fails before."""
    deadline = time.monotonic() + RESTART_S
    while True:
        try:
            return ray.get(counter.add.remote(), timeout=RESTART_S)
        except ActorUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # polling with a deadline: a worker starts


@pytest.fixture(autouse=True, scope="module")
def thread_of_dask():
    """Start the thread that a scheduler in this process uses, and that Dask keeps."""
    asyncio.run(offload(int))


@pytest.fixture
def shared(no_cluster):
    """A Dask cluster with a worker that has a nanny, and the client of another user."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


def restart(client):
    client.restart(timeout=RESTART_S)
    return r"The Dask cluster was restarted by the client Client-"


def restart_by_this_program(client):
    dask.client().restart(timeout=RESTART_S)
    return r"The Dask cluster was restarted by "


def restart_workers(client):
    client.restart_workers(list(client.scheduler_info()["workers"]), timeout=RESTART_S)
    return r"The Dask worker was restarted by the client Client-"


@pytest.mark.parametrize(
    "ends_workers",
    [
        restart,
        pytest.param(restart_by_this_program, marks=pytest.mark.nightly),
        pytest.param(restart_workers, marks=pytest.mark.nightly),
    ],
)
def test_a_restart_by_another_user_is_the_death_of_all_nodes(
    shared, ends_workers, tmp_path, wait_until, capsys
):
    cluster, client = shared
    ray.init(address=cluster, configure_logging=False)
    path = str(tmp_path / "end")
    made = [zeros.remote(200_000), zeros.options(**FROM_DASK).remote(200_000)]
    kept = [ray.put(bytes(200_000)), ray.put([made[0]])]
    once = zeros.options(max_retries=0, **FROM_DASK).remote(200_000)
    running = [wait_for.remote(path), wait_for.options(**FROM_DASK).remote(path)]
    running_once = [
        wait_for.options(max_retries=0).remote(path),
        wait_for.options(max_retries=0, **FROM_DASK).remote(path),
    ]
    mortal = Counter.remote()
    restarted = Counter.options(max_restarts=1).remote()
    retried = Counter.options(max_restarts=-1, max_task_retries=-1).remote()
    detached = Counter.options(
        name="kept", namespace="two", lifetime="detached", max_restarts=-1
    ).remote()
    actors = [mortal, restarted, retried, detached]
    group = ray.util.placement_group([{"CPU": 1}])
    ray.wait([*made, once], num_returns=3, timeout=RESTART_S)
    assert ray.get([each.add.remote() for each in actors], timeout=RESTART_S) == [1] * 4
    assert group.wait(RESTART_S)
    calls = [each.wait_for.remote(path) for each in actors[:3]]
    wait_until(lambda: len(ray.util.state.list_tasks(filters=[("state", "=", "RUNNING")])) >= 4)
    of_the_other = client.submit(sum, [1, 2])
    assert of_the_other.result() == 3

    said = ends_workers(client)
    os.close(os.open(path, os.O_CREAT))

    assert ray.get([*made, kept[0]], timeout=RESTART_S) == [bytes(200_000)] * 3
    assert ray.get(ray.get(kept[1])[0]) == bytes(200_000)
    assert ray.get(running, timeout=RESTART_S) == [path, path]
    for ref in running_once:
        with pytest.raises(NodeDiedError, match=said):
            ray.get(ref, timeout=RESTART_S)
    with pytest.raises(ObjectLostError, match=said):
        ray.get(once, timeout=RESTART_S)
    for ref, error in ((calls[0], ActorDiedError), (mortal.add.remote(), ActorDiedError)):
        with pytest.raises(error, match=said):
            ray.get(ref, timeout=RESTART_S)
    with pytest.raises(ActorUnavailableError, match=said):
        ray.get(calls[1], timeout=RESTART_S)
    assert ray.get(calls[2], timeout=RESTART_S) == 0  # by the actor that has restarted
    assert [answer_after_restart(each) for each in (restarted, retried, detached)] == [1, 1, 1]
    assert group.wait(RESTART_S)
    if ends_workers is not restart_workers:
        assert of_the_other.status == "cancelled"
        wait_until(lambda: "raycompat: The Dask cluster was restarted" in capsys.readouterr().err)
    assert client.submit(sum, [3, 4]).result() == 7
    ray.kill(detached)
    ray.shutdown()
    dask.detach(client)
    del of_the_other
    wait_until(lambda: client.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks))


PROGRAM = Path(__file__).with_name("_program_beside_dask.py")


def use_dask(client, number):
    """Use Dask's collections, futures and actors; retire a worker, or restart the cluster, sometimes."""

    class Sum:
        total = 0

        def add(self, amount):
            self.total += amount
            return self.total

    numbers = da.arange(20_000, chunks=2_000) + number
    persisted = client.persist(numbers)
    actor = client.submit(Sum, actor=True).result()
    assert actor.add(number).result() == number
    del actor
    doubled = db.from_sequence(range(20), npartitions=4).map(lambda each: 2 * each)
    assert client.compute(doubled.sum()).result() == 380
    assert isinstance(client.submit(lambda: 1 / 0, pure=False).exception(), ZeroDivisionError)
    if number % 2:
        worker = sorted(client.scheduler_info()["workers"])[0]
        client.retire_workers([worker], close_workers=True)
        client.wait_for_workers(2, timeout=RESTART_S)
    expected = sum(range(20_000)) + 20_000 * number
    assert client.compute(persisted.sum()).result() == expected
    if number % 4 == 2:
        client.restart(wait_for_workers=False, timeout=RESTART_S)
        client.wait_for_workers(2, timeout=RESTART_S)


@pytest.mark.parametrize(
    "seconds",
    [
        3,
        pytest.param(600, marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
    ],
)
def test_one_user_has_dask_and_the_other_one_ray(seconds, tmp_path, wait_until):
    end = tmp_path / "end"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        subprocess.Popen(
            [sys.executable, str(PROGRAM), cluster.scheduler_address, str(end)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as program,
    ):
        scheduler_before, workers = state_of(client)
        worker_before = next(iter(workers.values()))
        cluster.adapt(minimum=2, maximum=3, interval="500ms")
        assert program.stdout.readline() == "1\n"
        until = time.monotonic() + seconds
        try:
            for number in itertools.count(1):
                use_dask(client, number)
                assert program.poll() is None, program.stdout.read()
                if time.monotonic() > until:
                    break
        finally:
            end.touch()
        printed, _ = program.communicate(timeout=4 * RESTART_S)
        assert program.returncode == 0, printed
        dask.detach(client)

        def is_as_before():
            scheduler, workers = state_of(client)
            for state in (scheduler_before, scheduler):
                state.pop("pauses", None)  # one for each worker, and there may be more
            return scheduler == scheduler_before and all(
                each == worker_before for each in workers.values()
            )

        wait_until(is_as_before)
