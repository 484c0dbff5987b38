"""What processes still do, and what is left of them, when their job or their node ends."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import raycompat as ray

QUIET = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}


@ray.remote(num_cpus=0)
class Noting:
    """An actor that notes in files what happens at its end."""

    def __init__(self, folder: Path, name: str, how: str = "") -> None:
        self.folder, self.name, self.how = folder, name, how
        self.file = (folder / f"{name}.written").open("w")
        self.file.write("0123456789")
        atexit.register(self.note, "atexit")

    def note(self, event: str) -> None:
        with (self.folder / f"{self.name}.events").open("a") as file:
            file.write(event + "\n")

    def pid(self) -> int:
        return os.getpid()

    def work(self) -> None:
        (self.folder / f"{self.name}.started").touch()
        try:
            while True:
                time.sleep(1)
        finally:
            self.note("finally")

    def __ray_shutdown__(self) -> None:
        self.note("ray_shutdown")
        if self.how == "hangs":
            threading.Event().wait()

    def __del__(self) -> None:
        self.note("del")


def events(folder: Path, name: str) -> list[str]:
    return (folder / f"{name}.events").read_text().split()


AT_THE_END = ["ray_shutdown", "atexit", "del"]


def test_shutdown_ends_actors_and_tasks_gracefully_and_kills_what_hangs(
    no_cluster, tmp_path, wait_until
):
    ray.init(num_cpus=2, **QUIET)

    @ray.remote
    def task(folder, name, lasts):
        global written
        atexit.register((folder / f"{name}.atexit").touch)
        written = (folder / f"{name}.written").open("w")
        written.write("0123456789")
        (folder / f"{name}.started").touch()
        while lasts:
            time.sleep(1)
        return os.getpid()

    idle, works = Noting.remote(tmp_path, "idle"), Noting.remote(tmp_path, "works")
    hangs = Noting.remote(tmp_path, "hangs", "hangs")
    detached = Noting.options(name="detached", lifetime="detached").remote(tmp_path, "detached")
    pids = ray.get([each.pid.remote() for each in (idle, works, hangs, detached)])
    works.work.remote()
    pids.append(ray.get(task.remote(tmp_path, "ended", False)))
    running = task.remote(tmp_path, "running", True)
    for name in ("works", "running"):
        wait_until((tmp_path / f"{name}.started").exists)
    ray.shutdown()
    del running
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert events(tmp_path, "idle") == events(tmp_path, "detached") == AT_THE_END
    assert events(tmp_path, "works") == ["finally", *AT_THE_END]
    assert events(tmp_path, "hangs") == ["ray_shutdown"]
    for name in ("ended", "running"):
        assert (tmp_path / f"{name}.atexit").exists()
    for name in ("idle", "works", "detached", "ended", "running"):
        assert (name, (tmp_path / f"{name}.written").read_text()) == (name, "0123456789")


DRIVER = """
    import sys
    from pathlib import Path
    import raycompat as ray

    sys.path.append(sys.argv[1])
    from test_ends import Noting

    ray.init(sys.argv[2], namespace="ends", configure_logging=False)
    folder = Path(sys.argv[3])
    actors = [Noting.remote(folder, "mine")]
    if sys.argv[4] == "detached":
        detached = Noting.options(name="detached", lifetime="detached").remote(folder, "detached")
        actors.append(detached)
    print(*ray.get([actor.pid.remote() for actor in actors]), flush=True)
    if sys.argv[5] == "dies":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("keeps", ["nothing", "detached"])
@pytest.mark.parametrize("driver", ["ends", "dies"])
def test_a_driver_that_is_gone_ends_its_actors_gracefully(
    cluster, session, tmp_path, wait_until, keeps, driver
):
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), str(Path(__file__).parent)]
    done = subprocess.run(
        [*command, session.setup.scheduler, str(tmp_path), keeps, driver],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    pids = done.stdout.split()
    assert pids, done.stderr
    wait_until(lambda: not Path(f"/proc/{pids[0]}").exists())
    assert events(tmp_path, "mine") == AT_THE_END
    if keeps == "detached":
        assert Path(f"/proc/{pids[1]}").exists()
        ray.get_actor("detached", namespace="ends").__ray_terminate__.remote()
        wait_until(lambda: not Path(f"/proc/{pids[1]}").exists())
        assert events(tmp_path, "detached") == AT_THE_END


def test_in_local_mode_actors_that_end_are_shut_down(no_cluster, tmp_path, wait_until):
    ray.init(local_mode=True, **QUIET)

    @ray.remote
    class Actor:
        def __init__(self, file):
            self.file = file

        def leave(self):
            ray.actor.exit_actor()

        def __ray_shutdown__(self):
            self.file.touch()

    dropped, killed, leaves, lasts = actors = [
        Actor.remote(tmp_path / name) for name in ("dropped", "killed", "leaves", "lasts")
    ]
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(leaves.leave.remote())
    assert (tmp_path / "leaves").exists()
    ray.kill(killed)
    actors.remove(dropped)
    del dropped
    wait_until(lambda: ray.get(ray.put((tmp_path / "dropped").exists())))
    assert not (tmp_path / "lasts").exists()
    ray.shutdown()
    assert (tmp_path / "lasts").exists()
    assert not (tmp_path / "killed").exists()
    del lasts
