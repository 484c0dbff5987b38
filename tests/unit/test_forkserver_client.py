"""A node's end of a forkserver: neither waits for the other to read."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import subprocess
import sys
import threading

import pytest

from raycompat._host.forkserver import MAX_PACKET_BYTES
from raycompat._node import forkserver, forkserver_client
from raycompat._node.forkserver_client import ForkserverClient, ForkserverDied

#: More than both sockets hold requests and answers.
MANY = 1000


class Server:
    """Answers each request before it reads the next, as the forkserver does; in a thread."""

    pid = 0

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self.thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        with self._control:
            self._say("ready", 0)
            while True:
                packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET_BYTES, 3)
                if not packet:
                    return
                request = pickle.loads(packet)
                if request["op"] == "end":
                    return
                if request["op"] == "kill":
                    self._say("exited", request["pid"], -9)
                    continue
                for descriptor in descriptors:
                    os.write(descriptor, b"child")
                    os.close(descriptor)
                self._say("forked", request["number"], request["number"])

    def _say(self, *message: object) -> None:
        self._control.send(pickle.dumps(message))

    def poll(self) -> None:
        """Say that it runs."""

    def wait(self) -> None:
        self.thread.join()


def test_many_processes_may_be_ended_and_begun_at_once(monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = Server(theirs)
    monkeypatch.setattr(forkserver_client, "_start_forkserver", lambda *_: (ours, server))
    exited = []

    async def run() -> None:
        over = asyncio.Event()

        def on_exit(pid: int, code: int) -> None:
            exited.append(pid)
            if len(exited) == MANY:
                over.set()

        client = ForkserverClient(on_exit, lambda _: None)
        client.start()
        server.thread.start()
        await client.wait_until_ready()
        for pid in range(MANY):
            client.kill(pid)
        read, write = os.pipe()
        with open(read, "rb") as output, open(write, "wb") as given:
            assert await client.fork({}, [given.fileno()]) == 0
            given.close()
            assert output.read() == b"child"
        await over.wait()
        client.close()

    asyncio.run(run())
    assert exited == list(range(MANY))


def test_a_forkserver_survives_a_library_that_cannot_be_imported(capsys):
    forkserver._import("raycompat.no_such_library")
    gc.unfreeze()  # this process is none that forks
    assert "no_such_library" in capsys.readouterr().err


def test_a_process_that_nobody_waits_for_any_more_is_killed(monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = Server(theirs)
    monkeypatch.setattr(forkserver_client, "_start_forkserver", lambda *_: (ours, server))

    async def run() -> None:
        over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        client = ForkserverClient(lambda pid, code: over.set_result(pid), lambda _: None)
        client.start()
        server.thread.start()
        await client.wait_until_ready()
        fork = asyncio.create_task(client.fork({}, []))
        await asyncio.sleep(0)  # it asks
        fork.cancel()
        assert await over == 0
        client.close()
        with pytest.raises(RuntimeError, match="has died"):
            await client.fork({}, [])

    asyncio.run(run())


def test_a_forkserver_that_dies_with_unread_requests_is_an_ordinary_death(monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = Server(theirs)
    monkeypatch.setattr(forkserver_client, "_start_forkserver", lambda *_: (ours, server))
    exited, errors = [], []

    async def run() -> None:
        died = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(about))
        client = ForkserverClient(lambda pid, code: exited.append(pid), lambda _: died.set())
        client.start()
        server._say("ready", 0)
        await client.wait_until_ready()
        client.kill(4)
        server._say("exited", 5, 0)
        theirs.close()
        await died.wait()
        ours.close()

    asyncio.run(run())
    assert (exited, errors) == ([5], [])


def test_a_forkserver_that_cannot_start_says_why(monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = Server(theirs)
    monkeypatch.setattr(forkserver_client, "_start_forkserver", lambda *_: (ours, server))

    async def run() -> None:
        client = ForkserverClient(lambda *_: None, lambda _: None)
        client.start()
        server._say("unable", "Traceback of an import")
        theirs.close()
        with pytest.raises(ForkserverDied, match="could not start:\nTraceback of an import"):
            await client.wait_until_ready()

    asyncio.run(run())


def test_a_forkserver_whose_reports_nobody_has_read_ends_in_order():
    """Its log keeps the last words of the process that has died, which started it."""
    program = (
        "import socket\n"
        "from raycompat._host.forkserver import Forkserver\n"
        "mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "forkserver = Forkserver(its)\n"
        "forkserver.report('ready')\n"
        "mine.close()\n"
        "print(list(forkserver.requests()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
