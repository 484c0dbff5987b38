"""The recipes of ``docs/deploying.rst``, as far as one machine goes: SSH to itself, a queue of one."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import raycompat as ray
from raycompat._host import segment
from raycompat._messages.nodes import ClusterState

#: Warnings of dask-jobqueue's and asyncssh's own are not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

QUIET = {"configure_logging": False, "log_to_driver": False}

#: Bytes that a value must have to be kept by a node.
LARGE = 1_000_000

#: The scheduler's dashboard, on any port.
SCHEDULER_OPTIONS = {"dashboard_address": "127.0.0.1:0"}


@ray.remote
def square(x):
    return x * x


@ray.remote
def nested(x):
    return ray.get(square.remote(x)) + 1


@ray.remote
def ones(size):
    return np.ones(size, dtype=np.uint8)


@ray.remote(scheduling_strategy="SPREAD")
def total(array):
    return int(array.sum())


@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


@pytest.fixture(autouse=True)
def pids():
    """Pids of the test's nodes: queues and SSH end nodes without notice, as a crash would.

    The segments that they left are removed, as the next node does at its start.
    """
    found: set[int] = set()
    yield found
    alive = [psutil.Process(pid) for pid in found if psutil.pid_exists(pid)]
    assert not psutil.wait_procs(alive, 30)[1]
    segment.sweep_shared_memory()


def pids_of_nodes():
    session = sys.modules["raycompat._caller.current_session"].get()
    return {node["pid"] for node in session.rpc(ClusterState())["nodes"]}


def use_everything():
    assert ray.get([nested.remote(x) for x in range(4)], timeout=60) == [1, 2, 5, 10]
    made = ones.remote(LARGE)
    assert ray.get([total.remote(made) for _ in range(4)], timeout=60) == [LARGE] * 4
    counter = Counter.remote()
    assert ray.get([counter.add.remote() for _ in range(3)], timeout=60) == [1, 2, 3]


# --- a queue ------------------------------------------------------------------------------------

#: Slurm's commands on this machine: a job is a script that runs in a separate session.
COMMANDS = {
    "sbatch": """#!/bin/sh
cp "$1" {folder}/$$.sh
setsid sh {folder}/$$.sh > {folder}/$$.log 2>&1 < /dev/null &
echo "Submitted batch job $!"
""",
    "scancel": """#!/bin/sh
for job; do kill -TERM -- -$job; done
""",
}


@pytest.fixture(scope="module")
def jobqueue():
    """Import `dask_jobqueue`, and restore the handler of SIGINT, which that replaces."""
    before = signal.getsignal(signal.SIGINT)
    module = pytest.importorskip("dask_jobqueue")
    signal.signal(signal.SIGINT, before)
    return module


@pytest.fixture
def slurm(jobqueue, tmp_path, monkeypatch, no_cluster):
    """A queue that starts its jobs at once."""
    for name, text in COMMANDS.items():
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return jobqueue.SLURMCluster


@pytest.fixture
def local_queue(jobqueue, no_cluster):
    """Jobs are processes of this one, which waits for their end: the queue only kills them."""
    local = importlib.import_module("dask_jobqueue.local")

    class Job(local.LocalJob):
        async def close(self):
            await super().close()
            self.process.proc.wait(30)
            self.process.stdout.close()
            self.process.stderr.close()

    class Queue(local.LocalCluster):
        job_cls = Job

    return Queue


def start(queue, **options):
    given = {"cores": 2, "processes": 1, "memory": "1GB", "interface": "lo"}
    return queue(**{**given, **options}, scheduler_options=SCHEDULER_OPTIONS)


@pytest.mark.parametrize("queue", ["slurm", pytest.param("local_queue", marks=pytest.mark.nightly)])
def test_jobs_of_a_queue_are_nodes(request, queue, wait_until, pids):
    with start(request.getfixturevalue(queue)) as cluster:
        with pytest.raises(ConnectionError, match="Call cluster.scale"):
            ray.init(address=cluster, **QUIET)
        cluster.scale(jobs=1)
        with ray.init(address=cluster, **QUIET):
            assert ray.get(square.remote(3), timeout=60) == 9
            cluster.scale(jobs=2)
            wait_until(lambda: ray.cluster_resources()["CPU"] == 4, 60)
            pids |= pids_of_nodes()
            use_everything()


@pytest.mark.nightly
def test_an_adaptive_queue_follows_calls_and_actors(local_queue, wait_until, pids):
    with start(local_queue) as cluster:
        cluster.adapt(minimum_jobs=0, maximum_jobs=2, interval="100ms", wait_count=2)
        with ray.init(address=cluster, **QUIET):  # waits for a first job
            counters = [Counter.options(num_cpus=2).remote() for _ in range(2)]
            assert ray.get([each.add.remote() for each in counters], timeout=120) == [1, 1]
            pids |= pids_of_nodes()
            assert len(cluster.workers) == 2
            del counters
            wait_until(lambda: not cluster.scheduler_info["workers"], 60)
            assert ray.get(square.remote(3), timeout=120) == 9
            pids |= pids_of_nodes()


def test_what_a_job_declares_is_there(slurm, pids):
    options = {"worker_extra_args": ["--resources", "'GPU=2 disk=1'"]}
    with start(slurm, **options) as cluster:
        cluster.scale(jobs=1)
        cluster.wait_for_workers(1, 60)
        with ray.init(address=cluster, **QUIET):
            pids |= pids_of_nodes()
            resources = ray.cluster_resources()
            assert (resources["GPU"], resources["disk"]) == (2, 1)
            assert ray.get(square.options(resources={"disk": 1}).remote(3), timeout=60) == 9


def end_walltime(job):
    """Kill a job as a queue does, all of it at once: what Dask's nanny had is for us to remove."""
    processes = [psutil.Process(job), *psutil.Process(job).children(recursive=True)]
    mapped = {each.path for process in processes for each in process.memory_maps()}
    os.killpg(job, signal.SIGKILL)
    for path in mapped:
        if path.startswith("/dev/shm/sem.mp-"):
            Path(path).unlink(missing_ok=True)


@pytest.mark.nightly
def test_calls_of_a_job_that_ends_are_run_by_another(slurm, wait_until, tmp_path, pids):
    @ray.remote(max_retries=2)
    def hold(folder):
        import time

        (folder / f"began-{os.getpid()}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        return "ran"

    with start(slurm, cores=1) as cluster:
        cluster.scale(jobs=1)
        with ray.init(address=cluster, **QUIET):
            ref = hold.remote(tmp_path)
            wait_until(lambda: list(tmp_path.glob("began-*")), 60)
            [job] = [worker.job_id for worker in cluster.workers.values()]
            end_walltime(int(job))
            cluster.scale(jobs=2)
            wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, 60)
            (tmp_path / "go").touch()
            assert ray.get(ref, timeout=60) == "ran"
            pids |= pids_of_nodes()


# --- SSH ----------------------------------------------------------------------------------------

#: A server that admits clients with the key, and runs their commands.
SERVER = """
import asyncio, contextlib, os, signal, sys
import asyncssh

async def copy(source, target):
    while data := await source.read(65536):
        target.write(data)

async def run(process):
    child = await asyncio.create_subprocess_shell(
        process.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        await asyncio.gather(copy(child.stdout, process.stdout), copy(child.stderr, process.stderr))
        process.exit(await child.wait())
    finally:  # the connection is closed: as sshd hangs up
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            await child.wait()

async def main(folder):
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[folder + "/host"],
        authorized_client_keys=folder + "/user.pub",
        process_factory=run,
        encoding=None,
    )
    print(server.get_port(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def ssh(tmp_path, no_cluster):
    """What connects to this machine by SSH."""
    asyncssh = pytest.importorskip("asyncssh")
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(tmp_path / name)
        key.write_public_key(tmp_path / f"{name}.pub")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    port = int(server.stdout.readline())
    public = (tmp_path / "host.pub").read_text()
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {public}")
    yield {"port": port, "known_hosts": str(known), "client_keys": [str(tmp_path / "user")]}
    children = psutil.Process(server.pid).children(recursive=True)
    server.stdin.close()
    server.wait(30)
    server.stdout.close()
    psutil.wait_procs(children, 30)


def test_machines_that_are_reached_by_ssh_are_nodes(ssh, pids):
    from distributed import SSHCluster

    with SSHCluster(
        ["127.0.0.1"] * 3,
        connect_options=ssh,
        scheduler_options=SCHEDULER_OPTIONS,
        worker_options={"nthreads": 2, "resources": {"GPU": 4}, "host": "127.0.0.1"},
        remote_python=sys.executable,
    ) as cluster:
        with ray.init(address=cluster, **QUIET):
            assert len(ray.nodes()) == 2
            pids |= pids_of_nodes()
            assert ray.cluster_resources()["CPU"] == 4
            assert ray.cluster_resources()["GPU"] == 8
            use_everything()
