"""A Dask cluster made of processes: any Dask cluster, as a user has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from _dask_process import DaskProcess

import raycompat as ray
from raycompat._host import segment
from raycompat._messages.nodes import ClusterState

#: Seconds until a process that a test starts must be there, or gone.
PROCESS_S = 60.0

#: Only a new interpreter follows a change of this variable.
PYTHONPATH = os.environ.get("PYTHONPATH", "")


class DaskCluster:
    """A scheduler and workers in separate processes: any Dask cluster, as a user has it."""

    def __init__(self, directory: Path, host: str = "127.0.0.1") -> None:
        self._directory = directory
        self.scheduler = self._start(
            "dask_scheduler",
            *("--host", host, "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(self.scheduler_file)),
        )
        self.address = self._await_file(self.scheduler_file)["address"]
        #: Their processes, by pid.
        self.workers: dict[int, subprocess.Popen[bytes] | DaskProcess] = {}

    def _start(
        self, module: str, *arguments: str, inside: Sequence[str] = ()
    ) -> subprocess.Popen[bytes] | DaskProcess:
        if not inside and os.environ.get("PYTHONPATH", "") == PYTHONPATH:
            return DaskProcess(module, arguments, self.log(module))
        with self.log(module).open("ab") as log:
            command = [*inside, sys.executable, "-m", f"distributed.cli.{module}", *arguments]
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
            time.sleep(0.02)  # polling with a deadline: another process writes it
        return json.loads(path.read_text())

    def add_worker(
        self, host: str = "127.0.0.1", *options: str, inside: Sequence[str] = ()
    ) -> subprocess.Popen[bytes] | DaskProcess:
        """Start a worker; `inside` is a command that runs another one, on another host maybe."""
        worker = self._start(
            "dask_worker",
            *(self.address, "--host", host, "--nthreads", "2", "--no-nanny", "--no-dashboard"),
            *("--local-directory", str(self._directory), *options),
            inside=inside,
        )
        self.workers[worker.pid] = worker
        return worker

    def connect(self, nodes: int | None = None) -> None:
        """Make this process a driver; return when every worker is a node, or so many are."""
        ray.init(address=self.address, configure_logging=False)
        deadline = time.monotonic() + PROCESS_S
        alive = nodes or sum(each.poll() is None for each in self.workers.values())
        while sum(node["Alive"] for node in ray.nodes()) < alive:
            assert time.monotonic() < deadline
            time.sleep(0.02)  # polling with a deadline: other processes join

    def pid_of(self, address: str) -> int:
        """Return the pid of the worker at `address`."""
        session = sys.modules["raycompat._caller.current_session"].get()
        nodes = session.rpc(ClusterState())["nodes"]
        return next(node["pid"] for node in nodes if node["address"] == address)

    @property
    def home(self) -> int:
        """Pid of the node that the driver's large values go to."""
        session = sys.modules["raycompat._caller.current_session"].get()
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
        # The next node does the same: some nodes were killed before they could remove their segments.
        segment.sweep_shared_memory(and_mine=True)
