"""The command line as a user has it: commands as processes, in a folder of the test's own."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from raycompat._host import own_folder, processes, segment

#: Seconds that a command has, on a machine that is busy.
COMMAND_S = 100

#: An address of this machine that others can reach, if it has one.
OUTSIDE = next(
    (
        each.address
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if each.family.name == "AF_INET" and not each.address.startswith("127.")
    ),
    None,
)


class CommandLine:
    """Runs commands whose clusters are found in `folder` alone, and ends what they have left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if name[:9] != "RAYCOMPAT"},
            "TMPDIR": str(folder),
            "PYTHONWARNINGS": "default",
        }
        for name in ("RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS"):
            self.environment.pop(name, None)
        #: Process ids of all that was seen to run.
        self.seen: set[tuple[int, int]] = set()

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``raycompat`` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "raycompat", *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            env={**self.environment, **variables},
            cwd=self.folder,
            check=False,
        )
        self.note()
        return done

    def must(self, *arguments: str, **variables: str) -> str:
        """Run it, see that it succeeds, and return what it has printed."""
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start_head(self, *arguments: str, has_dashboard: bool = False, **variables: str) -> str:
        """Start a small cluster and return its address."""
        dashboard = "--dashboard-port=0" if has_dashboard else "--include-dashboard=false"
        options = ("--port=0", dashboard, "--num-cpus=2")
        self.must("start", "--head", *options, *arguments, **variables)
        return self.current["address"]

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin to run a command that stays, as in a terminal: in the background SIGINT is ignored."""
        return subprocess.Popen(
            [sys.executable, "-m", "raycompat", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def python(self, source: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a driver."""
        return subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            env={**self.environment, **variables},
            cwd=self.folder,
            check=False,
        )

    @functools.cached_property
    def own_folder(self) -> Path:
        return own_folder.make(self.folder)

    @property
    def current(self) -> dict[str, object]:
        return json.loads((self.own_folder / "current.json").read_text())

    def records(self) -> list[dict[str, object]]:
        """Return what is noted of the processes that were started."""
        return [json.loads(path.read_text()) for path in self.own_folder.glob("processes/*.json")]

    def pid_of(self, role: str) -> int:
        (pid,) = [each["pid"] for each in self.records() if each["role"] == role]
        return pid

    def processes(self) -> list[psutil.Process]:
        """Return all processes in the sessions of those that were started."""
        sessions = {each["pid"] for each in self.records()}
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) in sessions and process.status() != "zombie":
                    found.append(process)
            except (psutil.NoSuchProcess, ProcessLookupError):
                continue
        return found

    def note(self) -> None:
        """Remember what runs now, to see later that it does not."""
        for process in self.processes():
            start = processes.start_of(process.pid)
            if start is not None:
                self.seen.add((process.pid, start))

    def left(self) -> list[int]:
        """Return the pids of those that were seen to run and still do."""
        return [pid for pid, start in self.seen if processes.start_of(pid) == start]

    def wait_until_none_is_left(self) -> None:
        deadline = time.monotonic() + COMMAND_S
        while self.left():
            assert time.monotonic() < deadline, f"still there: {self.left()}"
            time.sleep(0.02)

    def close(self) -> None:
        self.note()
        if self.records():
            self.must("stop", "--force")
        assert self.left() == []
        segment.sweep_shared_memory()
