"""Programs that end in every way, one after the other: no process, file or folder is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from raycompat._host import own_folder, segment

#: Seconds after which what is still there counts as left.
DEADLINE_S = 30.0

PROGRAM = """
    import os, signal, subprocess, sys, threading, time
    import raycompat as ray

    print("begins", flush=True)
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)

    @ray.remote(num_cpus=0)
    class Actor:
        def __init__(self):
            self.child = subprocess.Popen(["sleep", "600"])
            self.other = subprocess.Popen(["sh", "-c", "sleep 600 & "], start_new_session=True)

        def array(self):
            return bytes(1_000_000)

        def leave(self):
            ray.actor.exit_actor()

        def crash(self):
            os._exit(1)

    @ray.remote
    def task(lasts):
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        while lasts:
            time.sleep(1)

    actors = [Actor.remote() for _ in range(2)]
    refs = ray.get([actor.array.remote() for actor in actors]), ray.put(bytes(1_000_000))
    ray.get(task.remote(False))
    way = sys.argv[1]
    if way == "kill":
        ray.kill(actors[0])
    elif way in ("leave", "crash"):
        getattr(actors[0], way).remote()
    elif way == "drop":
        del actors[0]
    elif way != "shutdown":
        task.remote(True)
    print("ends", flush=True)
    if way == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    elif way == "SIGINT":
        threading.Event().wait()
    elif way == "exit":
        os._exit(3)
    elif way == "shutdown":
        ray.shutdown()
"""

WAYS = ["shutdown", "SIGKILL", "SIGINT", "crash", "kill", "leave", "drop", "exit", "end"]


class Run:
    """One run of the program, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder = folder
        folder.mkdir()
        #: The processes of it that were seen.
        self.pids: set[int] = set()
        self.driver = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), way],
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait_for(self, line: str) -> None:
        """Wait until the program has printed a line."""
        assert self.driver.stdout is not None
        while self.driver.stdout.readline().rstrip() not in (line, ""):
            pass

    def find(self) -> dict[str, list[str]]:
        """Return what is left of it."""
        ours = self._processes()
        found = {
            "processes": [str(each) for each in ours],
            "files": list(self._files()),
            "shared memory": [
                str(path)
                for path in Path("/dev/shm").glob(f"{segment.PREFIX}*/{segment.PREFIX}*")
                if int(path.name.removeprefix(segment.PREFIX).split(".")[0]) in self.pids
            ],
        }
        return {kind: names for kind, names in found.items() if names}

    def _files(self) -> Iterator[str]:
        """Return its files and folders but the user's folder for records, which stays (`own_folder`)."""
        for parent, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                if not name.startswith(own_folder.prefix()):
                    yield os.path.join(parent, name)

    def _processes(self) -> list[psutil.Process]:
        """Return its processes, and remember their pids."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it has ended
                if process.environ().get("TMPDIR") == str(self.folder):
                    found.append(process)
        self.pids |= {each.pid for each in found}
        return found

    def check(self) -> None:
        """Wait until the program has ended and nothing of it is left."""
        self.driver.wait(120)
        assert self.driver.stdout is not None
        self.driver.stdout.close()
        deadline = time.monotonic() + DEADLINE_S
        while found := self.find():
            assert time.monotonic() < deadline, found
            time.sleep(0.02)


def run(folder: Path, way: str) -> None:
    program = Run(folder, way)
    program.wait_for("ends")
    program.find()
    if way == "SIGINT":
        program.driver.send_signal(signal.SIGINT)
    program.check()


@pytest.mark.parametrize("way", WAYS[:4])
def test_a_program_that_ends_leaves_nothing(no_cluster, tmp_path, way):
    run(tmp_path / "run", way)


def kill_during_init(folder: Path, delay_s: float) -> None:
    program = Run(folder, "shutdown")
    program.wait_for("begins")
    time.sleep(delay_s)  # the moment of the kill is the parameter of this test
    program.find()
    program.driver.kill()
    program.check()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_two_hundred_programs_leave_nothing(no_cluster, tmp_path):
    for number in range(200):
        run(tmp_path / str(number), WAYS[number % len(WAYS)])


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_drivers_that_are_killed_at_many_moments_of_init_leave_nothing(no_cluster, tmp_path):
    moments = random.Random(4)
    for number in range(200):
        kill_during_init(tmp_path / str(number), moments.uniform(0, 1.5))
