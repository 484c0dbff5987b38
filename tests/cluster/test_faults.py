"""Processes that stop in the middle of their work: nothing waits longer than it may, nothing is lost.

`tests/nightly/fault_walk.py` does the same with a minute for each.
"""

from __future__ import annotations

import os

import _faults
import psutil
import pytest

import raycompat as ray
from raycompat._node import pulse
from raycompat.cluster_utils import Cluster

#: Seconds after which a node, or a process that is stopped, is dead here.
LIMIT_S = 8.0


pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster():
    ray.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAYCOMPAT_NODE_TIMEOUT_S", str(LIMIT_S))
        with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
            cluster.add_node(num_cpus=1)
            ray.init(address=cluster.address, configure_logging=False, log_to_driver=False)
            yield cluster
            ray.shutdown()


@pytest.mark.parametrize(
    "with_its_processes",
    [
        pytest.param(False, id="process", marks=pytest.mark.nightly),
        pytest.param(True, id="machine"),
    ],
)
def test_a_stopped_node_is_dead_after_its_time(cluster, with_its_processes):
    _faults.node_is_stopped(cluster, LIMIT_S, with_its_processes=with_its_processes)


def test_a_stopped_executor_is_ended_and_its_call_tried_again(cluster, tmp_path):
    _faults.executor_is_stopped(tmp_path, LIMIT_S)


@pytest.mark.nightly
def test_a_stopped_scheduler_is_waited_for(cluster):
    _faults.scheduler_is_stopped(cluster, 1.25 * LIMIT_S)


@pytest.mark.nightly
def test_a_stopped_driver_keeps_no_one_from_working(cluster):
    _faults.driver_is_stopped(cluster, 2.0)


def test_a_killed_forkserver_is_replaced(cluster, wait_until):
    @ray.remote
    def pid():
        return os.getpid()

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Actor:
        def pid(self):
            return os.getpid()

    actor = Actor.remote()
    ray.get(actor.pid.remote())
    nodes = [psutil.Process(node._node.process.pid) for node in cluster.list_all_nodes()]
    killed = [forkserver for node in nodes for forkserver in node.children()]
    for forkserver in killed:
        forkserver.kill()
    by_scheduler = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
    calls = [actor.pid.remote(), *(pid.options(**by_scheduler).remote() for _ in range(4))]
    ray.get([*calls, pid.remote()], timeout=60)
    assert not psutil.wait_procs(killed, 10)[1]

    def have_pulses() -> bool:
        names = [{each.name() for each in node.children(recursive=True)} for node in nodes]
        return all(pulse.NAME in each for each in names)

    wait_until(have_pulses)
