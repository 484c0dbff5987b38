"""A small cluster for the tests of a module."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import raycompat as ray
from raycompat._protocol import segment


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs, two logical GPUs, quiet."""
    ray.shutdown()
    with ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, configure_logging=False):
        yield


@pytest.fixture
def no_cluster():
    """Nothing runs, before and after."""
    ray.shutdown()
    yield
    ray.shutdown()


@pytest.fixture
def session():
    """Return the driver's session."""
    return sys.modules["raycompat._caller.session"].current()


@pytest.fixture
def inventory(session) -> Callable[[str], list[str]]:
    """Return a function that lists what the scheduler keeps: tasks, calls, pins, actors."""
    return lambda what: list(session.rpc("raycompat_inventory")[what])


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return a function that polls a condition until it holds, or a deadline has passed."""

    def poll(condition: Callable[[], object], deadline_s: float = 30.0) -> None:
        deadline = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    return poll


#: Seconds until a process that a test starts must be there, or gone.
PROCESS_S = 60.0


class DaskCluster:
    """A scheduler and workers as processes of their own: any Dask cluster, as a user has it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.scheduler = self._start(
            "dask_scheduler",
            *("--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(self.scheduler_file)),
        )
        self.address = self._await_file(self.scheduler_file)["address"]
        #: Their processes, by pid.
        self.workers: dict[int, subprocess.Popen[bytes]] = {}

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log(module).open("ab") as log:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def log(self, module: str) -> Path:
        """Return where "dask_scheduler" or all that are "dask_worker" write."""
        return self._directory / f"{module}.log"

    @property
    def scheduler_file(self) -> Path:
        return self._directory / "scheduler.json"

    def _await_file(self, path: Path) -> dict[str, str]:
        deadline = time.monotonic() + PROCESS_S
        while not (path.exists() and path.read_text().endswith("}")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return json.loads(path.read_text())

    def add_worker(self, host: str = "127.0.0.1", *options: str) -> subprocess.Popen[bytes]:
        worker = self._start(
            "dask_worker",
            *(self.address, "--host", host, "--nthreads", "2", "--no-nanny", "--no-dashboard"),
            *("--local-directory", str(self._directory), *options),
        )
        self.workers[worker.pid] = worker
        return worker

    def connect(self) -> None:
        """Make this process a driver; return when every worker is a node."""
        ray.init(address=self.address, configure_logging=False)
        deadline = time.monotonic() + PROCESS_S
        alive = sum(each.poll() is None for each in self.workers.values())
        while sum(node["Alive"] for node in ray.nodes()) < alive:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def pid_of(self, address: str) -> int:
        """Return the pid of the worker at `address`."""
        session = sys.modules["raycompat._caller.session"].current()
        nodes = session.rpc("raycompat_state")["nodes"]
        return next(node["pid"] for node in nodes if node["address"] == address)

    @property
    def home(self) -> int:
        """Pid of the node that the driver's large values go to."""
        session = sys.modules["raycompat._caller.session"].current()
        return self.pid_of(session.home.address)

    @property
    def others(self) -> list[int]:
        """Pids of the other living nodes."""
        alive = [pid for pid, each in self.workers.items() if each.poll() is None]
        return [pid for pid in alive if pid != self.home]

    def close(self) -> None:
        for process in (*self.workers.values(), self.scheduler):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PROCESS_S)
        # As the node does that starts next, for some were killed, and whose end did not see that of ours.
        segment.sweep(["/dev/shm"], and_mine=True)


@pytest.fixture
def dask_cluster(tmp_path, no_cluster, monkeypatch, request):
    """A Dask scheduler without workers; what a test adds ends with it.

    Unless the test has other settings for it, Dask's memory manager is off: it drops copies that
    nobody needs just then.
    """
    for name, value in getattr(request, "param", {"START": "false"}).items():
        variable = f"DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__{name}"
        monkeypatch.setenv(variable, value)
    cluster = DaskCluster(tmp_path)
    yield cluster
    ray.shutdown()
    cluster.close()


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory):
    """A Dask cluster of one node, for the tests of a module; nothing is connected to it."""
    ray.shutdown()
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"))
    cluster.add_worker()
    cluster.connect()
    ray.shutdown()
    yield cluster
    ray.shutdown()
    cluster.close()
