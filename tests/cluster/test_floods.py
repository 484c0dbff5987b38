"""Floods of connections that say nothing: other programs still get in, and no process spins."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time

import psutil
import pytest

import raycompat as ray
from raycompat._launch import driver

PASSWORD = "correct horse battery staple"

#: Seconds for another driver to do its work on a busy machine.
DRIVER_S = 90

DRIVER = """
import sys
import raycompat as ray
ray.init(sys.argv[1], configure_logging=False, log_to_driver=False)
print("answer", ray.get(ray.remote(num_cpus=0)(lambda: 42).remote()))
"""


@pytest.fixture(autouse=True)
def no_session(no_cluster):
    """No session runs, before and after."""


@pytest.fixture(params=["password", "open"])
def scheduler(request, monkeypatch):
    """The scheduler of a cluster that listens on TCP: its process, and its address."""
    if request.param == "password":
        monkeypatch.setenv("RAYCOMPAT_PASSWORD", PASSWORD)
    else:
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with ray.init("local", num_cpus=1, include_dashboard=False, configure_logging=False) as context:
        yield psutil.Process(driver._cluster.scheduler.pid), context.address_info["address"]


@contextlib.contextmanager
def flood(address: str, count: int):
    """Open connections that send nothing."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as connections:
        for _ in range(count):
            connection = connections.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex((host, int(port)))
        yield


def run_driver(address: str) -> str:
    command = [sys.executable, "-c", DRIVER, address]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DRIVER_S, env=dict(os.environ), check=False
    ).stdout


def test_the_scheduler_has_the_limit_of_files_that_it_may_have(scheduler):
    process, _ = scheduler
    soft, hard = process.rlimit(resource.RLIMIT_NOFILE)
    assert soft == min(hard, 65536)


def test_a_flood_of_silent_connections_shuts_out_no_driver(scheduler):
    process, address = scheduler
    process.rlimit(resource.RLIMIT_NOFILE, (400, 400))
    with flood(address, 1100):
        assert run_driver(address) == "answer 42\n"
        assert process.num_fds() < 400


def test_a_scheduler_that_cannot_open_files_waits_and_then_goes_on(scheduler):
    process, address = scheduler
    _, hard = process.rlimit(resource.RLIMIT_NOFILE)
    process.rlimit(resource.RLIMIT_NOFILE, (process.num_fds() + 3, hard))
    with flood(address, 50):
        time.sleep(0.5)  # the flood is accepted as far as it can be
        before, start = sum(process.cpu_times()[:2]), time.monotonic()
        time.sleep(2)  # a scheduler that spins uses all of this time
        used = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - start)
        assert used < 0.5
    process.rlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert run_driver(address) == "answer 42\n"
