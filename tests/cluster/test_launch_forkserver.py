"""The forkserver from which a program's scheduler and nodes are forked."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from _python_path import before_others

import raycompat as ray
from raycompat._launch import forkserver_client, process
from raycompat.cluster_utils import Cluster

QUIET = {"configure_logging": False, "log_to_driver": False}


@pytest.fixture
def cluster(no_cluster, monkeypatch):
    """A cluster with one node, whose forkserver is not that of other tests."""
    monkeypatch.setenv("A_VARIABLE", "first")
    started = Cluster(initialize_head=True)
    yield started
    started.shutdown()


def pid_of(node) -> int:
    return node._node.process.pid


def forkserver_of(node) -> psutil.Process:
    return psutil.Process(pid_of(node)).parent()


def variable_on(cluster, resource: str, name: str = "A_VARIABLE") -> str | None:
    @ray.remote(resources={resource: 1})
    def variable():
        return os.environ.get(name)

    with ray.init(cluster.address, **QUIET):
        return ray.get(variable.remote())


def test_the_processes_of_a_cluster_have_one_that_ends_with_them(cluster):
    node = cluster.add_node()
    forkserver = forkserver_of(node)
    assert forkserver == forkserver_of(cluster.head_node)
    assert forkserver.parent() == psutil.Process()
    assert {each.pid for each in forkserver.children()} == {
        pid_of(node),
        pid_of(cluster.head_node),
        cluster._local.scheduler.pid,
    }
    cluster.remove_node(node)
    assert forkserver.is_running()
    cluster.shutdown()
    assert not forkserver.is_running()


def test_their_command_lines_say_what_they_are(cluster):
    def command(pid: int) -> str:
        return " ".join(psutil.Process(pid).cmdline())

    assert f"{sys.executable} -m raycompat._node.main" in command(pid_of(cluster.head_node))
    assert "raycompat._scheduler.main" in command(cluster._local.scheduler.pid)


def test_a_node_has_the_variables_of_now(cluster, monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "second")
    node = cluster.add_node(resources={"changed": 1})
    assert forkserver_of(node) != forkserver_of(cluster.head_node)
    assert variable_on(cluster, "changed") == "second"
    monkeypatch.delenv("A_VARIABLE")
    cluster.add_node(resources={"removed": 1})
    assert variable_on(cluster, "removed") is None
    monkeypatch.setenv("A_VARIABLE", "first")
    monkeypatch.setenv("RAY_VARIABLE", "needs no other forkserver")
    node = cluster.add_node(resources={"same": 1}, labels={"any": "label"})
    assert forkserver_of(node) == forkserver_of(cluster.head_node)
    assert variable_on(cluster, "same") == "first"
    assert variable_on(cluster, "same", "RAY_VARIABLE") == "needs no other forkserver"


def test_a_node_has_the_limits_of_now(cluster):
    before = os.umask(0o077)
    try:
        node = cluster.add_node()
    finally:
        os.umask(before)
    status = Path(f"/proc/{pid_of(node)}/status").read_text()
    assert "Umask:\t0077\n" in status


def test_a_program_may_have_many_open_files(no_cluster, monkeypatch):
    """More than `select` can handle."""
    monkeypatch.setenv("A_VARIABLE", "so that it gets a forkserver")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    with contextlib.ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1100):
            files.enter_context(open(os.devnull))
        cluster = Cluster(initialize_head=True)
        files.callback(cluster.shutdown)
        assert psutil.Process(pid_of(cluster.head_node)).is_running()


ORPHANS = """
import ctypes, psutil
from raycompat.cluster_utils import Cluster

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # this process gets its orphans, as the first of a container does
for _ in range(3):
    Cluster(initialize_head=True).shutdown()
print([(each.name(), each.status()) for each in psutil.Process().children()])
"""


def test_every_process_is_reaped(no_cluster):
    done = subprocess.run(
        [sys.executable, "-c", ORPHANS], capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "[]\n", done.stderr


def test_threads_may_wait_for_different_reports():
    """A thread that waits sees what another has read."""
    with tempfile.TemporaryFile() as errors:
        server = forkserver_client.acquire(process.variables_of_processes())
        try:
            is_over = threading.Event()
            waiting = threading.Thread(target=server.read_until, args=(is_over.is_set,))
            waiting.start()
            assert not server.read_until(is_over.is_set, 0.0)
            input_, output = os.pipe()
            forked = forkserver_client.fork(
                "raycompat._protocol.frames",
                "{}",
                process.variables_of_processes(),
                [input_, errors.fileno(), output],
            )
            assert forked.is_forked_within(60)
            is_over.set()
            assert forked.wait(60)  # the module has no function to run
            assert forked.exit_code() == 1
            waiting.join()
            forked.let_go()
        finally:
            os.close(input_)
            os.close(output)
            forkserver_client.release(server)


def test_a_node_runs_in_the_folder_of_now(cluster, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert psutil.Process(pid_of(cluster.add_node())).cwd() == str(tmp_path)
    assert psutil.Process(pid_of(cluster.head_node)).cwd() != str(tmp_path)


def test_a_cluster_goes_on_when_it_is_killed(cluster):
    killed = forkserver_of(cluster.head_node)
    killed.kill()
    psutil.wait_procs([killed])
    node = cluster.add_node(resources={"new": 1})
    assert variable_on(cluster, "new") == "first"
    cluster.remove_node(node)
    head = psutil.Process(pid_of(cluster.head_node))
    cluster.shutdown()
    assert (
        not head.is_running() or head.status() == psutil.STATUS_ZOMBIE
    )  # init reaps it, in its time


def test_one_that_is_stopped_is_an_error_and_ends(cluster, monkeypatch):
    for limit in ("_START_S", "_END_S", "_REAP_S"):
        monkeypatch.setattr(process, limit, 0.5)
    monkeypatch.setattr(forkserver_client, "_REPORT_S", 0.5)
    forkserver = forkserver_of(cluster.head_node)
    forkserver.suspend()
    with pytest.raises(ray.exceptions.RaySystemError, match="has not started within"):
        cluster.add_node()
    cluster.shutdown()
    assert not forkserver.is_running()


def test_one_that_cannot_import_says_why(cluster, tmp_path):
    (tmp_path / "dask.py").write_text("raise ValueError('this is no Dask')")
    with pytest.raises(ray.exceptions.RaySystemError, match=r"(?s)ended.* 1\..*this is no Dask"):
        cluster.add_node(env_vars={"PYTHONPATH": before_others(tmp_path)})


REFUSES = """
import errno, os
from raycompat._launch import forkserver

def refuse():
    raise OSError(errno.EAGAIN, "no more processes")

os.fork = refuse
forkserver.main()
"""


def test_a_machine_that_refuses_a_process_is_told(cluster, monkeypatch):
    command = [sys.executable, "-c", REFUSES]
    monkeypatch.setattr(
        "raycompat._protocol.run_module.command", lambda _, *arguments: [*command, *arguments]
    )
    with pytest.raises(ray.exceptions.RaySystemError, match="refuses it.*no more processes"):
        cluster.add_node(env_vars={"A_VARIABLE": "another forkserver"})


def test_nodes_may_be_added_by_several_threads(cluster):
    threads = [threading.Thread(target=cluster.add_node, kwargs={"num_cpus": 1}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cluster.wait_for_nodes()
    assert len({pid_of(node) for node in cluster.list_all_nodes()}) == 5


def test_a_forked_child_ends_no_process(cluster):
    child = os.fork()
    if not child:
        cluster._local.scheduler.kill()
        cluster.head_node._node.process.kill()
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert psutil.Process(pid_of(cluster.head_node)).is_running()
    assert variable_on(cluster, "node:__internal_head__") == "first"
