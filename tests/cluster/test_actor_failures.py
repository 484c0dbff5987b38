"""What becomes of actors when nodes die or callers stop, and when there are very many of them."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

import raycompat as ray


@pytest.fixture
def nodes(dask_cluster):
    """Two Dask workers as nodes, this process as the driver; gives their processes by pid."""
    for _ in range(2):
        dask_cluster.add_worker()
    dask_cluster.connect()
    return dask_cluster.workers


@ray.remote(max_restarts=1)
class Mortal:
    def __init__(self) -> None:
        self.calls = 0

    def node(self) -> int:
        return psutil.Process().parent().ppid()

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def hold(self, path: str) -> str:
        while not os.path.exists(path):
            time.sleep(0.01)
        return "held"


def test_an_actor_is_restarted_on_another_node_when_its_own_dies(nodes, wait_until, tmp_path):
    mortal = Mortal.remote()
    assert ray.get(mortal.count.remote()) == 1
    before = ray.get(mortal.node.remote())
    held = mortal.hold.remote(str(tmp_path / "go"))
    again = mortal.hold.options(max_task_retries=1).remote(str(tmp_path / "go"))
    nodes[before].kill()
    with pytest.raises(ray.exceptions.ActorUnavailableError, match="its node has died. It is not"):
        ray.get(held, timeout=30)
    (tmp_path / "go").touch()
    assert ray.get(again, timeout=30) == "held"
    assert ray.get(mortal.count.remote()) == 1
    assert ray.get(mortal.node.remote()) != before
    wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 1)


def test_an_actor_without_restarts_dies_with_its_node(nodes):
    mortal = Mortal.options(max_restarts=0).remote()
    node = ray.get(mortal.node.remote())
    refs = [mortal.hold.remote("/nowhere"), *(mortal.count.remote() for _ in range(100))]
    nodes[node].kill()
    for ref in refs:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref, timeout=30)


def test_a_caller_that_is_stopped_does_not_stop_the_actor(cluster, wait_until):
    @ray.remote(num_cpus=0)
    class Giver:
        def large(self) -> bytes:
            return bytes(90_000)

        def pid(self) -> int:
            return os.getpid()

    @ray.remote(num_cpus=0)
    class Stopped:
        def ask(self, giver, number: int) -> int:
            self.refs = [giver.large.remote() for _ in range(number)]
            return os.getpid()

        def count(self) -> int:
            return len(ray.get(self.refs))

    giver, stopped = Giver.remote(), Stopped.remote()
    pid = ray.get(stopped.ask.remote(giver, 1))
    asked = stopped.ask.remote(giver, 200)  # far more than the socket between them holds
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(20):
            assert ray.get(giver.pid.remote(), timeout=30) != pid
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(asked) == pid
    assert ray.get(stopped.count.remote(), timeout=30) == 200


@pytest.mark.nightly
def test_two_hundred_actors_live_at_once(cluster, wait_until):
    @ray.remote
    class Idle:
        def pid(self) -> int:
            return os.getpid()

    actors = [Idle.remote() for _ in range(200)]
    pids = ray.get([actor.pid.remote() for actor in actors])
    assert len(set(pids)) == 200
    used = [psutil.Process(pid).memory_full_info().uss for pid in pids]
    assert max(used) < 30_000_000  # bytes; measured: 8 MB each
    del actors
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))


def test_actors_come_and_go_without_leaving_anything(cluster, session, wait_until):
    @ray.remote
    class Brief:
        def hello(self) -> str:
            return "hello"

    process = psutil.Process()
    ray.get(Brief.remote().hello.remote())
    wait_until(lambda: not session.channels)
    before = process.num_fds(), process.num_threads()
    for _ in range(10):
        assert ray.get([Brief.remote().hello.remote() for _ in range(4)]) == ["hello"] * 4
    wait_until(lambda: not session.channels)
    wait_until(lambda: (process.num_fds(), process.num_threads()) <= before)


def test_a_queued_call_is_cancelled_while_the_running_one_lasts(cluster, tmp_path):
    actor, go = Mortal.remote(), tmp_path / "go"
    ray.get(actor.__ray_ready__.remote(), timeout=30)
    running = actor.hold.remote(str(go))
    queued = [actor.count.remote() for _ in range(3)]
    ray.cancel(queued[1])
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(queued[1], timeout=30)
    go.touch()
    assert ray.get([running, queued[0], queued[2]], timeout=30) == ["held", 1, 2]
