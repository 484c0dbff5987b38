"""What a process of an actor or a task still does when it ends by itself: exit handlers, open files."""

from __future__ import annotations

import gzip

import pytest
from _polling import is_running, wait_until

pytestmark = pytest.mark.usefixtures("cluster")

#: What an actor notes at its end, in this order.
AT_THE_END = ["ray_shutdown", "atexit", "del"]


@pytest.fixture
def Noting(ray, cluster):
    """A class of actors that note in a file what happens at their end."""

    class Noting:
        def __init__(self, folder, raising=""):
            import atexit

            self.folder, self.raising = folder, raising
            self.file = open(folder / "written", "w")  # noqa: SIM115
            self.file.write("0123456789")
            atexit.register(self.at_exit)

        def note(self, event):
            with open(self.folder / "events", "a") as file:
                file.write(event + "\n")
            if event == self.raising:
                raise ValueError(event)

        def at_exit(self):
            self.note("atexit")

        def __ray_shutdown__(self):
            self.note("ray_shutdown")

        def __del__(self):
            self.note("del")

        def pid(self):
            import os

            return os.getpid()

        def leave(self):
            ray.actor.exit_actor()

        def leave_python(self):
            import sys

            sys.exit(0)

        def work(self, path):
            import time

            open(path + ".started", "w").close()
            while not __import__("os").path.exists(path):
                time.sleep(0.005)
            self.note("worked")
            return "worked"

    return Noting


@pytest.fixture(params=["one call at a time", "threads", "event loop"])
def Actor(request, ray, Noting):
    """An actor class of each kind."""
    if request.param == "threads":
        return ray.remote(num_cpus=0, max_concurrency=3)(Noting)
    if request.param == "one call at a time":
        return ray.remote(num_cpus=0)(Noting)

    class InLoop(Noting):
        async def work(self, path):
            import asyncio
            import os

            open(path + ".started", "w").close()
            while not os.path.exists(path):
                await asyncio.sleep(0.005)
            self.note("worked")
            return "worked"

        async def leave(self):
            ray.actor.exit_actor()

    return ray.remote(num_cpus=0)(InLoop)


def events_of(folder):
    file = folder / "events"
    return file.read_text().split() if file.exists() else []


def wait_for_end(pid):
    wait_until(lambda: not is_running(pid))


@pytest.mark.parametrize("way", ["dropped", "leave", "__ray_terminate__"])
def test_an_actor_that_ends_runs_its_exit_handlers_and_writes_its_files(ray, Actor, way, tmp_path):
    actor = Actor.remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    if way != "dropped":
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(getattr(actor, way).remote())
    del actor
    wait_for_end(pid)
    assert events_of(tmp_path) == AT_THE_END
    assert (tmp_path / "written").read_text() == "0123456789"


@pytest.mark.parametrize("max_concurrency", [1, 3])
def test_sys_exit_runs_the_exit_handlers(ray, Noting, max_concurrency, tmp_path):
    actor = ray.remote(num_cpus=0, max_concurrency=max_concurrency)(Noting).remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.leave_python.remote())
    wait_for_end(pid)
    assert events_of(tmp_path) == AT_THE_END
    assert (tmp_path / "written").read_text() == "0123456789"


def test_an_actor_that_is_killed_runs_nothing(ray, Actor, tmp_path):
    actor = Actor.remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    wait_for_end(pid)
    assert events_of(tmp_path) == []
    assert (tmp_path / "written").read_text() == ""


def test_calls_that_run_end_before_the_exit_handlers_begin(ray, Actor, tmp_path):
    actor = Actor.remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    path = str(tmp_path / "continue")
    work = actor.work.remote(path)
    wait_until(lambda: (tmp_path / "continue.started").exists())
    end = actor.__ray_terminate__.remote()
    open(path, "w").close()
    assert ray.get(work) == "worked"
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(end)
    wait_for_end(pid)
    assert events_of(tmp_path) == ["worked", *AT_THE_END]


@pytest.mark.parametrize("raising", AT_THE_END)
def test_a_handler_that_raises_does_not_stop_the_others(ray, Noting, raising, tmp_path):
    actor = ray.remote(num_cpus=0)(Noting).remote(tmp_path, raising)
    ray.get(actor.pid.remote())
    del actor
    wait_until(lambda: events_of(tmp_path) == AT_THE_END)
    wait_until(lambda: (tmp_path / "written").read_text() == "0123456789")


def test_a_thread_that_is_no_daemon_and_a_pool_of_threads_end_their_work(ray, cluster, tmp_path):
    @ray.remote(num_cpus=0)
    class Writer:
        def __init__(self, folder):
            import threading
            from concurrent.futures import ThreadPoolExecutor

            self.go_on = threading.Event()
            threading.Thread(target=self.write, args=(folder / "thread",)).start()
            self.pool = ThreadPoolExecutor(1)
            self.pool.submit(self.write, folder / "pool")

        def write(self, path):
            self.go_on.wait()
            path.write_text("written")

        def pid(self):
            import os

            return os.getpid()

        def __ray_shutdown__(self):
            self.go_on.set()

    actor = Writer.remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    del actor
    wait_for_end(pid)
    assert (tmp_path / "thread").read_text() == (tmp_path / "pool").read_text() == "written"


def test_a_process_of_tasks_runs_its_exit_handlers_and_writes_its_files(ray, cluster, tmp_path):
    @ray.remote(num_cpus=0, max_calls=1)
    def open_files(folder):
        import atexit
        import gzip
        import os
        import tempfile

        global text, binary, packed, temporary
        text = open(folder / "text", "w")
        text.write("text")
        binary = open(folder / "binary", "wb")
        binary.write(b"binary")
        packed = gzip.open(folder / "packed", "wt")
        packed.write("packed")
        temporary = tempfile.TemporaryDirectory(dir=folder)
        atexit.register((folder / "atexit").touch)
        return os.getpid(), temporary.name

    pid, temporary = ray.get(open_files.remote(tmp_path))
    wait_for_end(pid)
    assert (tmp_path / "atexit").exists()
    assert (tmp_path / "text").read_text() == "text"
    assert (tmp_path / "binary").read_bytes() == b"binary"
    with gzip.open(tmp_path / "packed", "rt") as file:
        assert file.read() == "packed"
    assert not (tmp_path / temporary).exists()
