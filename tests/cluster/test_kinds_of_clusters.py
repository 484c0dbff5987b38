"""Schedulers and workers that were started with options that others use: programs of Ray run there too."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time

import pytest

import raycompat as ray

pytestmark = pytest.mark.nightly

#: Seconds for a scheduler or its workers to start, on a machine that has other work.
START_S = 60

#: By name: variables of all processes, options of the scheduler, options of the workers, and how many there are.
KINDS = {
    "blocked handlers": (
        {"DASK_DISTRIBUTED__SCHEDULER__BLOCKED_HANDLERS": "['feed', 'dump_cluster_state']"},
        (),
        (),
        1,
    ),
    "several processes, with nannies": ({}, (), ("--nworkers", "2", "--nthreads", "1"), 2),
    "name": ({}, (), ("--no-nanny", "--name", "a name/with *signs*"), 1),
    "resources": ({}, (), ("--no-nanny", "--resources", "licence=2 GPU=0"), 1),
    "lifetime": ({}, (), ("--lifetime", "1 hour", "--lifetime-stagger", "1 minute"), 1),
    "no limit of memory, no spilling": (
        {"DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False"},
        (),
        ("--no-nanny", "--memory-limit", "0"),
        1,
    ),
    "preload": ({}, (), ("--no-nanny", "--preload", "PRELOAD"), 1),
    "IPv6": ({}, ("--host", "tcp://[::1]"), ("--no-nanny", "--host", "tcp://[::1]"), 1),
    "ws": ({}, ("--protocol", "ws"), ("--no-nanny", "--protocol", "ws"), 1),
    # Where the package distributed-ucxx is installed; it needs no GPU.
    "ucxx": (
        {"UCX_TLS": "tcp,sm,self"},
        ("--protocol", "ucxx"),
        ("--no-nanny", "--protocol", "ucxx"),
        1,
    ),
    # The scheduler is reached through the first port, and the worker through the second one.
    "proxies": (
        {},
        (),
        (
            "--no-nanny",
            "--listen-address",
            "tcp://127.0.0.1:PORT",
            "--contact-address",
            "tcp://PROXY",
        ),
        1,
    ),
}


class Proxy(socketserver.ThreadingTCPServer):
    """Passes connections on to another port of this host."""

    def __init__(self, to):
        super().__init__(("127.0.0.1", 0), PassOn)
        self.to, self.port = to, self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()  # which waits for the connections: their ends are gone


class PassOn(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.to)) as other:
            back = threading.Thread(target=copy, args=(other, self.request))
            back.start()
            copy(self.request, other)
            back.join()


def copy(source, target):
    with contextlib.suppress(OSError):  # an end was killed
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def ended(*commands, log, variables):
    """Run `dask` with these options, and end it."""
    with log.open("a") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *commands],
            stdout=out,
            stderr=out,
            env={**os.environ, **variables},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(START_S)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_actors_and_values_on_a_cluster_with_other_options(kind, tmp_path, no_cluster):
    if kind == "ucxx":
        pytest.importorskip("distributed_ucxx", reason="distributed-ucxx is not installed")
    variables, of_scheduler, of_workers, num_nodes = KINDS[kind]
    file, log, preload = tmp_path / "scheduler.json", tmp_path / "log", tmp_path / "preload.py"
    preload.write_text("def dask_setup(worker):\n    worker.was_set_up = True\n")
    of_workers = [str(preload) if each == "PRELOAD" else each for each in of_workers]
    host = () if "--host" in of_scheduler else ("--host", "127.0.0.1")
    scheduler = ("scheduler", "--port", "0", "--no-dashboard", "--no-show", *host, *of_scheduler)
    worker = ("worker", "--no-dashboard", "--local-directory", str(tmp_path), *of_workers)

    @ray.remote(num_cpus=0)
    def size_of(value):
        return len(value)

    @ray.remote(num_cpus=0)
    class Counter:
        count = 0

        def add(self):
            self.count += 1
            return self.count

    with ended(*scheduler, "--scheduler-file", str(file), log=log, variables=variables) as process:
        deadline = time.monotonic() + START_S
        while not (file.exists() and file.read_text().endswith("}")):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)  # polling with a deadline: another process writes it
        address = json.loads(file.read_text())["address"]
        with contextlib.ExitStack() as stack:
            if kind == "proxies":
                of_scheduler = stack.enter_context(Proxy(int(address.rpartition(":")[2])))
                of_worker = stack.enter_context(Proxy(free_port()))
                address = f"tcp://127.0.0.1:{of_scheduler.port}"
                worker = [
                    each.replace("PORT", f"{of_worker.to}").replace(
                        "PROXY", f"127.0.0.1:{of_worker.port}"
                    )
                    for each in worker
                ]
            stack.enter_context(ended(*worker, address, log=log, variables=variables))
            ray.init(address=address, configure_logging=False)
            while len([each for each in ray.nodes() if each["Alive"]]) < num_nodes:
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)  # polling with a deadline: another process starts
            spread = {"scheduling_strategy": "SPREAD"}
            large = ray.put(bytes(500_000))
            sizes = [size_of.remote(large), size_of.options(**spread).remote(large)]
            counter = Counter.remote()
            assert ray.get([*sizes, counter.add.remote()], timeout=START_S) == [500_000, 500_000, 1]
            if kind == "resources":
                licensed = size_of.options(resources={"licence": 1}).remote(b"1")
                assert ray.get(licensed, timeout=START_S) == 1
                assert ray.cluster_resources()["licence"] == 2
            ray.shutdown()
