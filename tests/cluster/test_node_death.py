"""The only node of a cluster that `init` started, or its scheduler, dies: everything that waits ends."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import raycompat as ray
from raycompat._launch import driver
from raycompat.cluster_utils import Cluster

#: Seconds for everything to end; what is lost is noticed within a second, what is stopped within three.
TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def no_session(no_cluster):
    """No session runs, before and after."""


def _kill_node():
    os.kill(driver._cluster.nodes[0].process.pid, signal.SIGKILL)


def _stop_node():
    os.kill(driver._cluster.nodes[0].process.pid, signal.SIGSTOP)


def _kill_scheduler():
    os.kill(driver._cluster.scheduler.pid, signal.SIGKILL)


NODE, SCHEDULER = ray.exceptions.LocalRayletDiedError, ray.exceptions.RaySystemError


class Waits:
    """A cluster of two CPUs in which everything waits, and the ways to wait."""

    def __init__(self) -> None:
        @ray.remote
        def wait(*_):
            threading.Event().wait()

        @ray.remote
        def items():
            yield 1
            threading.Event().wait()

        @ray.remote(num_cpus=0)
        class Waiting:
            def wait(self):
                threading.Event().wait()

            def ready(self):
                return True

        self.function, self.ref = wait, wait.remote()
        self.items = items.options(num_cpus=0).remote()
        assert ray.get(next(self.items)) == 1
        self.actor = Waiting.remote()
        assert ray.get(self.actor.ready.remote())
        self.call = self.actor.wait.remote()
        self.unplaced = Waiting.options(num_cpus=2).remote()
        self.group = ray.util.placement_group([{"CPU": 2}])
        self.large = ray.put(bytes(1_000_000))

    def ways(self):
        """Return functions that wait, by name."""
        return {
            "get": lambda: ray.get(self.ref),
            "wait": lambda: ray.get(ray.wait([self.ref], timeout=None)[0]),
            "await": lambda: asyncio.run(self._await()),
            "future": lambda: self.ref.future().result(),
            "generator": lambda: ray.get(next(self.items)),
            "method": lambda: ray.get(self.call),
            "queued method": lambda: ray.get(self.actor.ready.remote()),
            "unplaced actor": lambda: ray.get(self.unplaced.ready.remote()),
            "dependent call": lambda: ray.get(self.function.remote(self.ref)),
            "group": lambda: ray.get(self.group.ready()),
            "data": lambda: ray.data.range(4).map(lambda row: time.sleep(1000)).take(1),
        }

    async def _await(self):
        return await self.ref


@pytest.mark.parametrize(
    ("strike", "error", "text"),
    [
        (_kill_node, NODE, "ended by signal SIGKILL"),
        (_stop_node, NODE, "was stopped for"),
        (_kill_scheduler, SCHEDULER, "connection to the cluster's scheduler"),
    ],
)
def test_everything_that_waits_ends(strike, error, text, monkeypatch):
    monkeypatch.setenv("RAYCOMPAT_NODE_TIMEOUT_S", "2")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    waits = Waits()
    begun, ways = threading.Semaphore(0), waits.ways()

    def outcome(wait):
        begun.release()
        try:
            return wait()
        except Exception as raised:
            return raised

    with ThreadPoolExecutor(len(ways)) as threads:
        pending = {name: threads.submit(outcome, wait) for name, wait in ways.items()}
        for _ in ways:
            assert begun.acquire(timeout=TIMEOUT_S)
        strike()
        found = {name: each.result(TIMEOUT_S) for name, each in pending.items()}
    # The scheduler may report the end of an actor first.
    allowed = dict.fromkeys(("method", "queued method"), (error, ray.exceptions.ActorDiedError))
    wrong = {
        name: each for name, each in found.items() if not isinstance(each, allowed.get(name, error))
    }
    assert not wrong
    assert text in str(found["get"])
    # What comes later ends too.
    for later in (
        lambda: ray.get(waits.function.remote()),
        lambda: ray.put(1),
        lambda: ray.get(waits.actor.ready.remote()),
        ray.nodes,
        lambda: ray.get_actor("name"),
        lambda: ray.util.placement_group([{"CPU": 1}]).wait(TIMEOUT_S),
    ):
        with pytest.raises(error):
            later()
    ray.shutdown()
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    assert ray.get(ray.remote(lambda: "again").remote(), timeout=TIMEOUT_S) == "again"
    ray.shutdown()


def test_where_nodes_come_back_calls_wait_for_them():
    with Cluster() as cluster:
        first = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, configure_logging=False, log_to_driver=False)
        first.kill_all_processes()
        ref = ray.remote(lambda: "later").remote()
        assert ray.wait([ref], timeout=0.5) == ([], [ref])
        cluster.add_node(num_cpus=1)
        assert ray.get(ref, timeout=TIMEOUT_S) == "later"
        ray.shutdown()


def test_a_second_node_of_the_cluster_takes_over(wait_until):
    """Another program has added a node to the cluster that this one started."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)
    from raycompat._launch.node_options import node_options

    node = driver._cluster.start_node(node_options({"num_cpus": 1}, is_head=False))
    node.join(driver._cluster.address)
    node.wait_until_up()
    wait_until(lambda: len(ray.nodes()) == 2)
    _kill_node()
    assert ray.get(ray.remote(lambda: "other node").remote(), timeout=TIMEOUT_S) == "other node"
    ray.shutdown()
