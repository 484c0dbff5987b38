"""What processes still do, and what is left of them, when their job or their node ends."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

import raycompat as ray
from raycompat.util import dask

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


def test_large_messages_are_sent_when_python_ends():
    """Dask encodes them in another thread: then Python begins no work in threads any more."""
    program = """
    import raycompat as ray

    ray.init(num_cpus=1, configure_logging=False, include_dashboard=False)
    say = ray.remote(lambda number: print(f"line {number}"))
    ray.get([say.remote(number) for number in range(5)])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=os.environ | {"DASK_DISTRIBUTED__COMM__OFFLOAD": "1B"},
    )
    assert [f"line {number}" in done.stdout for number in range(5)] == [True] * 5
    assert "Error" not in done.stderr


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


@ray.remote(num_cpus=0)
class Parent:
    """An actor that starts processes of every kind."""

    def start(self) -> list[int]:
        return start_processes()

    def crash(self) -> None:
        os._exit(1)


def start_processes() -> list[int]:
    """Start children, also in other sessions, and daemons, whose parents have ended."""
    context = multiprocessing.get_context("fork")
    forked = context.Process(target=time.sleep, args=(600,), daemon=True)
    forked.start()
    pids = [forked.pid]
    for in_session in (False, True):
        child = subprocess.Popen(["sleep", "600"], start_new_session=in_session)
        daemon = subprocess.run(
            ["sh", "-c", "sleep 600 > /dev/null & echo $!"],
            stdout=subprocess.PIPE,
            start_new_session=in_session,
            check=True,
        )
        pids += [child.pid, int(daemon.stdout)]
    with_own_child = "import subprocess; subprocess.run(['sleep', '600'])"
    pids.append(subprocess.Popen([sys.executable, "-c", with_own_child], env={}).pid)
    return pids


def start_processes_and_wait(folder: Path) -> None:
    text = " ".join(map(str, start_processes()))
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / "pids")
    threading.Event().wait()


def those_that_run(pids: list[int]) -> list[int]:
    return [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(actor, how: str) -> None:
    if how == "killed":
        ray.kill(actor)
    elif how == "crashes":
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(actor.crash.remote())


@pytest.mark.parametrize("how", ["killed", "dropped", "crashes"])
def test_processes_that_an_actor_has_started_end_with_it(cluster, wait_until, how):
    other = Parent.remote()
    others = ray.get(other.start.remote())
    actor = Parent.remote()
    pids = ray.get(actor.start.remote())
    assert those_that_run(pids) == pids
    end(actor, how)
    del actor
    wait_until(lambda: not those_that_run(pids))
    assert those_that_run(others) == others  # also daemons, which the same process has adopted
    ray.kill(other)
    wait_until(lambda: not those_that_run(others))


def test_processes_of_a_task_stay_with_its_process(cluster, wait_until, tmp_path):
    @ray.remote(num_cpus=1)
    def start():
        return start_processes(), os.getpid()

    pids, own = ray.get(start.remote())
    assert those_that_run(pids) == pids
    psutil.Process(own).kill()
    wait_until(lambda: not those_that_run(pids))

    running = ray.remote(num_cpus=1)(start_processes_and_wait).remote(tmp_path)
    wait_until((tmp_path / "pids").exists)
    ray.cancel(running, force=True)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not those_that_run(pids))


@pytest.mark.parametrize("how", ["shutdown", "node killed"])
def test_processes_that_were_started_end_with_their_node(no_cluster, wait_until, how):
    ray.init(num_cpus=1, **QUIET)
    actor = Parent.remote()
    pids = ray.get([actor.start.remote(), ray.remote(start_processes).remote()])
    pids = [*pids[0], *pids[1]]
    if how == "node killed":
        (node,) = dask.client().run(os.getpid).values()
        psutil.Process(node).kill()
        wait_until(lambda: not those_that_run(pids))
    ray.shutdown()
    assert not those_that_run(pids)
