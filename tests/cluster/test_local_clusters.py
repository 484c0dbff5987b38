"""Clusters that this machine's processes start: what they refuse, pass on to nodes, and leave behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from _python_path import before_others

import raycompat as ray
from raycompat._host import own_folder, processes
from raycompat._protocol import current_cluster
from raycompat.cluster_utils import Cluster

QUIET = {"configure_logging": False, "log_to_driver": False}


@pytest.fixture(autouse=True)
def no_session(no_cluster):
    """No session runs, before and after."""


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster
        ray.shutdown()


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    ["_system_config", "redis_password", "node_ip_address", "min_worker_port", "huge_pages"],
)
def test_what_is_not_honoured_is_refused(cluster, option):
    with pytest.raises(ray.exceptions.UnsupportedRayFeatureError, match=rf"add_node\({option}"):
        cluster.add_node(**{option: 1})
    assert cluster.address is None


def test_an_unknown_argument_has_a_hint(cluster):
    with pytest.raises(TypeError, match=r"'num_cpu'\. Did you mean num_cpus\?"):
        cluster.add_node(num_cpu=1)


@pytest.mark.parametrize("option", ["labels", "env_vars"])
@pytest.mark.parametrize("value", [{"name": 1}, ["name"], {1: "value"}])
def test_texts_have_to_be_texts(cluster, option, value):
    with pytest.raises(TypeError, match=f"{option}=.*expected a dict of strings"):
        cluster.add_node(**{option: value})


def test_labels_of_the_cluster_s_own_are_refused(cluster):
    with pytest.raises(ValueError, match="every node already has this label"):
        cluster.add_node(labels={"ray.io/node-id": "mine"})


def test_a_cluster_that_outlives_its_program_is_refused():
    with pytest.raises(ray.exceptions.UnsupportedRayFeatureError, match="raycompat start --head"):
        Cluster(shutdown_at_exit=False)


def test_a_node_that_does_not_start_is_an_error_with_its_log(cluster, tmp_path):
    (tmp_path / "tornado.py").write_text("raise RuntimeError('not the real one')")
    with pytest.raises(ray.exceptions.RaySystemError, match="not the real one"):
        cluster.add_node(env_vars={"PYTHONPATH": before_others(tmp_path)})
    assert cluster.list_all_nodes() == []
    cluster.add_node(num_cpus=1)
    cluster.connect()
    assert ray.cluster_resources()["CPU"] == 1


# --- what nodes are given -----------------------------------------------------------------------


def test_nodes_have_what_they_were_given(cluster, tmp_path):
    @ray.remote(resources={"here": 1})
    def environment(name):
        return os.environ.get(name)

    cluster.add_node(
        memory=10**9,
        object_store_memory=10**8,
        num_cpus=1,
        include_dashboard=True,
        dashboard_port=0,
        temp_dir=str(tmp_path),
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+/status\?token=[\w-]{43}", cluster.webui_url)
    with pytest.raises(ray.exceptions.UnsupportedRayFeatureError, match="Only the first node"):
        cluster.add_node(include_dashboard=True)
    node = cluster.add_node(
        num_cpus=1, env_vars={"OF_THE_NODE": "seen"}, labels={"zone": "a"}, resources={"here": 1}
    )
    ray.init(address=cluster.address, **QUIET)
    rows = {row["NodeID"]: row["Resources"] for row in ray.nodes()}
    assert rows[cluster.head_node.node_id]["memory"] == 10**9
    assert rows[cluster.head_node.node_id]["object_store_memory"] == 10**8
    assert ray.get(environment.remote("OF_THE_NODE")) == "seen"
    assert json.loads(ray.get(environment.remote("RAYCOMPAT_NODE_LABELS"))) == {"zone": "a"}
    assert tmp_path in Path(node.address_info["session_dir"]).parents
    cluster.shutdown()
    assert list(tmp_path.iterdir()) == []


def test_the_node_of_init_is_given_its_labels():
    @ray.remote
    def labels():
        return json.loads(os.environ["RAYCOMPAT_NODE_LABELS"])

    ray.init(num_cpus=1, labels={"zone": "b"}, include_dashboard=False, **QUIET)
    assert ray.get(labels.remote()) == {"zone": "b"}


# --- how they end -------------------------------------------------------------------------------


def test_the_end_of_the_block_ends_the_cluster_and_the_session():
    with Cluster(initialize_head=True) as cluster:
        cluster.connect()
        node = cluster.head_node
        assert current_cluster.find() is not None
    assert not ray.is_initialized()
    assert not node.any_processes_alive()
    assert current_cluster.find() is None


@pytest.mark.parametrize("gracefully", [True, False], ids=["gracefully", "killed"])
def test_all_nodes_end_with_the_head_and_a_new_one_can_be_added(cluster, gracefully):
    cluster.add_node()
    worker = cluster.add_node()
    cluster.remove_node(cluster.head_node, allow_graceful=gracefully)
    assert cluster.list_all_nodes() == []
    assert cluster.address is None
    assert not worker.any_processes_alive()
    assert current_cluster.find() is None
    assert cluster.add_node(num_cpus=3).is_head()
    ray.init(address="auto", **QUIET)
    assert ray.cluster_resources()["CPU"] == 3


def test_a_session_on_another_cluster_stays_and_so_do_its_nodes(cluster):
    head = cluster.add_node()
    cluster.connect()
    with Cluster() as other, pytest.raises(KeyError, match="not a node of this cluster"):
        other.remove_node(head)
    with Cluster(initialize_head=True):
        pass
    assert len(ray.nodes()) == 1


def test_a_node_that_was_killed_takes_its_executors_with_it_and_one_that_died_is_missed(
    cluster, wait_until
):
    @ray.remote(resources={"here": 1})
    class Actor:
        def pid(self):
            return os.getpid()

    cluster.add_node()
    node = cluster.add_node(resources={"here": 1})
    ray.init(address=cluster.address, **QUIET)
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    cluster.remove_node(node, allow_graceful=False)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    node = cluster.add_node()
    psutil.Process(node._node.process.pid).kill()
    wait_until(lambda: sum(row["Alive"] for row in ray.nodes()) == 1)
    # The kernel closes the connections of a process before its parent can see its end.
    wait_until(lambda: not cluster.remaining_processes_alive())
    with pytest.raises(TimeoutError):
        cluster.wait_for_nodes(timeout=0)
    with pytest.raises(RuntimeError, match="is not running any more"):
        node.kill_raylet()
    cluster.remove_node(node)
    cluster.wait_for_nodes()


STARTS = """
import os, sys, psutil
from raycompat.cluster_utils import Cluster

cluster = Cluster(initialize_head=True)
cluster.add_node()
print(*(each.pid for each in psutil.Process().children(recursive=True)), flush=True)
{end}
"""

#: A child that is forked and lives on has the parent's descriptors.
FORKS = """
if not os.fork():
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(1)", FORKS])
def test_a_program_that_dies_leaves_no_process_and_no_folder(
    end, wait_until, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = subprocess.Popen(
        [sys.executable, "-c", STARTS.format(end=end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) >= 4
    program.wait(60)
    try:
        wait_until(lambda: not any(processes.start_of(pid) for pid in pids))
        wait_until(
            lambda: (
                not [
                    each
                    for each in tmp_path.iterdir()
                    if "raycompat-" in each.name and each not in own_folder.all_in(tmp_path)
                ]
            )
        )
    finally:
        program.stdin.close()
        program.stdout.close()
