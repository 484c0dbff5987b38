"""Programs whose processes are stopped (SIGSTOP) in the middle of their work, for a number of seconds.

`limit_s` is the node's time-out that the cluster was started with. What each program checks: nothing
takes longer than it may, and every value is right.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from _killing import killing

import raycompat as ray
from raycompat._host import processes
from raycompat.cluster_utils import Cluster

#: Seconds that a busy machine may take more than a limit says.
SLACK_S = 120.0

#: Bytes of a large value.
LARGE_BYTES = 50_000_000


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Stop processes; continue those that are still there."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGCONT)


def all_of(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    return [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]


def wait_until(condition: Callable[[], object], deadline_s: float) -> float:
    """Poll a condition; return how many seconds it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < deadline_s, "waited in vain"
        time.sleep(0.02)
    return time.monotonic() - start


def num_nodes() -> int:
    return sum(node["Alive"] for node in ray.nodes())


@ray.remote(max_retries=-1)
def slow(number: int, seconds: float) -> int:
    time.sleep(seconds)
    return number * number


@ray.remote(max_retries=-1, scheduling_strategy="SPREAD")
def total(array: np.ndarray) -> float:
    return float(array.sum())


@ray.remote(max_retries=-1, scheduling_strategy="SPREAD")
def made(number: int) -> np.ndarray:
    return np.full(LARGE_BYTES // 8, float(number))


@ray.remote(max_retries=-1)
def items(number: int, seconds: float) -> Iterator[int]:
    for item in range(number):
        time.sleep(seconds)
        yield item


@ray.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0.01)
class Adder:
    def add(self, one: int, other: int) -> int:
        time.sleep(0.01)
        return one + other


class Work:
    """Calls by leases and by the scheduler, actors, generators and large values, all under way."""

    def __init__(self, seconds: float = 0.1) -> None:
        self.calls = [slow.remote(number, seconds) for number in range(20)]
        self.parked = [
            slow.options(scheduling_strategy="SPREAD").remote(number, seconds)
            for number in range(6)
        ]
        self.actors = [Adder.remote() for _ in range(3)]
        self.sums = [actor.add.remote(number, 1) for actor in self.actors for number in range(20)]
        self.stream = items.remote(10, seconds / 4)
        self.large = [total.remote(made.remote(number)) for number in range(4)]

    def check(self, timeout_s: float) -> None:
        """See that all of it ends in time, with the right values."""
        squares = [number * number for number in range(20)]
        assert ray.get(self.calls, timeout=timeout_s) == squares
        assert ray.get(self.parked, timeout=timeout_s) == squares[:6]
        assert ray.get(self.sums, timeout=timeout_s) == [*range(1, 21)] * 3
        assert [ray.get(ref, timeout=timeout_s) for ref in self.stream] == [*range(10)]
        sums = [number * (LARGE_BYTES // 8) for number in range(4)]
        assert ray.get(self.large, timeout=timeout_s) == sums


def node_is_stopped(cluster: Cluster, limit_s: float, *, with_its_processes: bool) -> None:
    """Stop a node: its process alone, or all that it has started, as when a machine is paused."""
    victim = cluster.add_node(num_cpus=1)
    wait_until(lambda: num_nodes() == 3, SLACK_S)
    work = Work()
    ray.get(work.calls[0], timeout=SLACK_S)
    family = all_of(victim._node.process.pid)
    with (
        new_driver(cluster.address) as driver,
        stopped(*(family if with_its_processes else family[:1])),
    ):
        start = time.monotonic()
        driver.communicate("connect\n", timeout=SLACK_S)
        assert driver.returncode == 0
        wait_until(lambda: num_nodes() == 2, limit_s + SLACK_S)
        assert time.monotonic() - start > limit_s / 2
        work.check(limit_s + SLACK_S)
    wait_until(lambda: not any(map(processes.start_of, family[1:])), limit_s + SLACK_S)
    cluster.remove_node(victim, allow_graceful=False)


#: A driver that comes while a node is stopped.
CONNECTS = """
import sys
import raycompat as ray

print("ready", flush=True)
assert sys.stdin.readline()
ray.init(address=sys.argv[1], configure_logging=False, log_to_driver=False)
assert ray.nodes()
ray.shutdown()
"""


@contextmanager
def new_driver(address: str) -> Iterator[subprocess.Popen[str]]:
    """Start a driver that connects when the test asks for it."""
    with subprocess.Popen(
        [sys.executable, "-c", CONNECTS, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        yield driver


def executor_is_stopped(folder: Path, limit_s: float) -> None:
    """Stop the process of a task, and of an actor: they are killed, and tried again."""

    @ray.remote(max_retries=1)
    def once(path: str) -> str:
        if not os.path.exists(path):
            Path(path).touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return "done"

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Once:
        def method(self, path: str) -> str:
            return once._function(path)

    start = time.monotonic()
    actor = Once.remote()
    calls = [
        once.remote(str(folder / "lease")),
        once.options(scheduling_strategy="SPREAD").remote(str(folder / "scheduler")),
        actor.method.remote(str(folder / "actor")),
    ]
    assert ray.get(calls, timeout=2 * limit_s + SLACK_S) == ["done"] * 3
    assert time.monotonic() - start > limit_s / 2


def scheduler_is_stopped(cluster: Cluster, seconds: float) -> None:
    """Stop the scheduler: time-outs are kept meanwhile, and then all goes on; no node is lost."""
    work, before = Work(), num_nodes()
    ray.get(work.calls[0], timeout=SLACK_S)
    local = cluster._local
    assert local is not None
    with stopped(local.scheduler.pid):
        start = time.monotonic()
        try:
            ray.get(made.remote(1), timeout=0.5)
        except ray.exceptions.GetTimeoutError:
            assert time.monotonic() - start < SLACK_S
        else:
            raise AssertionError("no scheduler, no value")
        time.sleep(max(0.0, seconds - (time.monotonic() - start)))
    work.check(SLACK_S)
    assert num_nodes() == before


#: A driver that says how far it is, and is stopped in the middle.
DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
import raycompat as ray
from _faults import Work, SLACK_S

ray.init(address=sys.argv[1], configure_logging=False, log_to_driver=False)
work = Work()
ray.get(work.calls[0], timeout=SLACK_S)
print("begun", flush=True)
work.check(SLACK_S)
ray.shutdown()
print("done", flush=True)
"""


def driver_is_stopped(cluster: Cluster, seconds: float) -> None:
    """Stop a driver: others go on meanwhile, and then it does."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", DRIVER, cluster.address, here]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver, killing(driver):
        assert driver.stdout is not None
        assert driver.stdout.readline() == "begun\n"
        with stopped(driver.pid):
            start = time.monotonic()
            Work(0.01).check(SLACK_S)
            time.sleep(max(0.0, seconds - (time.monotonic() - start)))
        assert driver.stdout.readline() == "done\n"
        assert driver.wait(SLACK_S) == 0
