"""Processes die at random under a workload; all results are right, and nothing is left.

``make chaos``; or ``python tests/nightly/chaos.py --seconds 20 --seed 3``. Chained tasks of 10 MB
each, tasks that call tasks, and actors run on three Dask workers while executors are killed one after
the other and a node dies now and then, never the driver's own: that would take what the driver has
put with it. What was killed, begun and ended is counted with a log to which every execution appends.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import raycompat as ray

#: Seconds until a process that was started here must be there.
START_S = 60.0
#: Seconds after the last death in which everything must come to its end.
END_S = 120.0
#: Seconds until what is left counts as left over: a segment waits 30 for a reader that was killed.
LEFT_S = 45.0
#: Seconds between two deaths.
KILL_EVERY_S = 0.5
NUM_NODE_KILLS = 2
#: Elements of an array of 10 MB.
LENGTH = 1_250_000
#: Chains under way at once, and tasks in each.
NUM_CHAINS, NUM_LINKS = 4, 4
NUM_ACTORS = 2


class Nodes:
    """A scheduler and three nodes, processes of ours."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        address_file = directory / "scheduler.json"
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        #: The pids of all nodes that there ever were.
        self.pids: set[int] = set()
        self._scheduler = self._process(
            "distributed.cli.dask_scheduler",
            *("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(address_file)),
            "--no-dashboard",
        )
        deadline = time.monotonic() + START_S
        while not (address_file.exists() and address_file.read_text().endswith("}")):
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.02)
        self.address = json.loads(address_file.read_text())["address"]
        for _ in range(3):
            self.start()

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        # Appended to: a node that dies on its own says why.
        with (self._directory / "processes.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", *arguments], stdout=log, stderr=log)

    def start(self) -> None:
        worker = self._process(
            "distributed.cli.dask_worker",
            *(self.address, "--nthreads", "2", "--no-nanny", "--no-dashboard"),
            *("--local-directory", str(self._directory)),
        )
        self.workers[worker.pid] = worker
        self.pids.add(worker.pid)

    def executors(self) -> list[psutil.Process]:
        """Return the processes under the nodes' forkservers."""
        found = []
        for pid in self.workers:
            try:
                for child in psutil.Process(pid).children():
                    if "raycompat._node.forkserver" in child.cmdline():
                        found += child.children()
            except psutil.NoSuchProcess:
                continue
        return found

    def kill(self, pid: int) -> None:
        worker = self.workers.pop(pid)
        worker.kill()
        worker.wait()

    def end(self) -> str:
        for process in (*self.workers.values(), self._scheduler):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(START_S)
        return (self._directory / "processes.log").read_text(errors="replace")


# --- the workload -------------------------------------------------------------------------------


def append(log: str, what: str, call: str) -> None:
    """Note that an execution has begun or ended, in one write: many processes do."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{what} {call}\n".encode())
    os.close(descriptor)


@ray.remote(max_retries=-1)
def link(log: str, call: str, array: np.ndarray, factor: int) -> np.ndarray:
    append(log, "begin", call)
    result = array * factor + 1
    append(log, "end", call)
    return result


@ray.remote(max_retries=-1)
def total(log: str, call: str, array: np.ndarray) -> int:
    append(log, "begin", call)
    result = int(array.sum())
    append(log, "end", call)
    return result


@ray.remote(max_retries=-1)
def tree(log: str, call: str, box: dict[str, Any], depth: int) -> int:
    """Call tasks that call tasks; the array goes along inside of something."""
    append(log, "begin", call)
    if depth:
        parts = [tree.remote(log, f"{call}.{n}", box, depth - 1) for n in range(2)]
        result = sum(ray.get(parts))
    else:
        result = int(ray.get(box["array"])[-1])
    append(log, "end", call)
    return result


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Scale:
    """Knows nothing that is lost when it is restarted, but keeps what it was given."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def scale(self, log: str, call: str, array: np.ndarray, factor: int) -> np.ndarray:
        append(log, "begin", call)
        result = array * factor
        append(log, "end", call)
        return result

    def keep(self, log: str, call: str, box: dict[str, Any]) -> int:
        append(log, "begin", call)
        self.kept = [*self.kept[-2:], box]
        result = int(ray.get(box["array"])[0])
        append(log, "end", call)
        return result


class Chain:
    """Tasks and an actor's methods on one array, and what they must give."""

    def __init__(self, number: int, log: str, start: Any, rng: random.Random) -> None:
        self.number = number
        actor = ACTORS[number % NUM_ACTORS]
        offset, step = 0, 1  # the array is offset + step * start
        array = start
        for n in range(NUM_LINKS):
            factor = rng.randint(-2, 3)
            if n == NUM_LINKS // 2:
                array = actor.scale.remote(log, f"{number}-scale", array, factor)
                offset, step = offset * factor, step * factor
            else:
                array = link.remote(log, f"{number}-link{n}", array, factor)
                offset, step = offset * factor + 1, step * factor
        self.expected = [
            offset * LENGTH + step * (LENGTH * (LENGTH - 1) // 2),
            4 * (offset + step * (LENGTH - 1)),
            offset,
            offset,
        ]
        self.refs = [
            total.remote(log, f"{number}-total", array),
            tree.remote(log, f"{number}-tree", {"array": array}, 2),
            actor.keep.remote(log, f"{number}-keep", {"array": array}),
            link.remote(log, f"{number}-last", array, 1),
        ]

    def check(self, timeout_s: float) -> str | None:
        """Return what is wrong with the results."""
        try:
            values = ray.get(self.refs, timeout=timeout_s)
        except Exception as error:
            return f"chain {self.number}: {error!r}"
        values[-1] = int(values[-1][0]) - 1
        if values != self.expected:
            return f"chain {self.number}: {values}, not {self.expected}"
        return None


ACTORS: list[Any] = []


# --- deaths -------------------------------------------------------------------------------------


class Reaper(threading.Thread):
    """Kills executors at random, and one node at a time."""

    def __init__(self, nodes: Nodes, home: int, seconds: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._nodes, self._home = nodes, home
        self._rng = random.Random(seed)
        begin = time.monotonic()
        self._node_deaths = [
            begin + seconds * (n + 1) / (NUM_NODE_KILLS + 1) for n in range(NUM_NODE_KILLS)
        ]
        self.num_executors = self.num_nodes = 0
        self.over = threading.Event()

    def run(self) -> None:
        # The rhythm of the deaths, not a wait for something.
        while not self.over.wait(KILL_EVERY_S):
            if self._node_deaths and time.monotonic() > self._node_deaths[0]:
                self._node_deaths.pop(0)
                pid = self._rng.choice([pid for pid in self._nodes.workers if pid != self._home])
                self._nodes.kill(pid)
                self._nodes.start()
                self.num_nodes += 1
                continue
            executors = self._nodes.executors()
            if executors:
                try:
                    self._rng.choice(executors).kill()
                    self.num_executors += 1
                except psutil.NoSuchProcess:
                    continue


# --- the run ------------------------------------------------------------------------------------


def pid_of_home(nodes: Nodes) -> int:
    """Return the pid of the node that the driver calls home."""
    address = sys.modules["raycompat._caller.session"].current().setup.node_address
    port = int(address.rpartition(":")[2])
    for pid in nodes.workers:
        for connection in psutil.Process(pid).net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                return pid
    raise AssertionError(f"no process of ours listens at {address}")


def work(seconds: float, seed: int, log: str) -> tuple[int, list[str]]:
    """Run chains until the time is over; return how many, and what was wrong."""
    rng = random.Random(seed)
    begin = last_line = time.monotonic()
    ACTORS[:] = [Scale.remote() for _ in range(NUM_ACTORS)]
    start = ray.put(np.arange(LENGTH))
    wrong: list[str] = []
    chains: dict[Any, Chain] = {}
    number = 0
    while time.monotonic() < begin + seconds or chains:
        while len(chains) < NUM_CHAINS and time.monotonic() < begin + seconds:
            chain = Chain(number, log, start, rng)
            chains[chain.refs[0]] = chain
            number += 1
        ready, _ = ray.wait(list(chains), timeout=1.0)
        for ref in ready:
            wrong += filter(None, [chains.pop(ref).check(END_S)])
        now = time.monotonic()
        if now > begin + seconds + END_S:
            wrong += [f"chain {chain.number} has not ended" for chain in chains.values()]
            break
        if now - last_line > 5:
            last_line = now
            print(f"{now - begin:.0f} s: {number} chains, {len(wrong)} wrong", flush=True)
        if len(wrong) > 10:
            break
    return number, wrong


def left_of(nodes: Nodes) -> list[str]:
    """Return the segments of the nodes; live ones keep free ones for the next writers."""
    found = []
    for path in Path("/dev/shm").glob("raycompat-*"):
        pid = int(path.name.split("-")[1].partition(".")[0])
        if pid in nodes.pids and not (pid in nodes.workers and path.name.endswith("-free")):
            found.append(path.name)
    return found


def left(left_over: Any, nodes: Nodes, threads_before: int) -> dict[str, Any]:
    """Return what is left when it has had its time to go."""
    deadline = time.monotonic() + LEFT_S
    while True:
        gc.collect()
        found = dict(left_over(ray, threads_before))
        # Segments of our nodes only: it also lists those of others that died on this machine.
        found["segments"] = left_of(nodes)
        found = {what: items for what, items in found.items() if items}
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)  # polling with a deadline: the clean-up is asynchronous


def counts(log: str) -> str:
    """Return what the log of the executions says."""
    begun: collections.Counter[str] = collections.Counter()
    ended: collections.Counter[str] = collections.Counter()
    for line in Path(log).read_text().splitlines():
        what, call = line.split(" ", 1)
        (begun if what == "begin" else ended)[call] += 1
    executions = sum(begun.values())
    return (
        f"{len(begun)} calls in {executions} executions: "
        f"{executions - sum(ended.values())} interrupted and retried, "
        f"{sum(ended.values()) - len(ended)} done again (recomputed)"
    )


@dataclass
class Report:
    """What has happened."""

    num_chains: int
    num_executors_killed: int
    num_nodes_killed: int
    counts: str

    def __str__(self) -> str:
        return (
            f"{self.num_chains} chains while {self.num_executors_killed} executors and "
            f"{self.num_nodes_killed} nodes were killed: {self.counts}"
        )


def main(seconds: float, seed: int) -> Report:
    """Run the workload while processes die.

    Raises
    ------
    AssertionError
        When a result is wrong, or does not come, or something is left.
    """
    print(f"chaos for {seconds} s, seed {seed}", flush=True)
    threads_before = threading.active_count()
    # The checks of the tests: what holds after each of them holds here.
    path = Path(__file__).resolve().parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("conftest_of_tests", path)
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)

    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        log = str(Path(directory) / "executions")
        nodes = Nodes(Path(directory))
        try:
            report, problems = under_way(seconds, seed, nodes, log, conftest.left_over)
        finally:
            ray.shutdown()
            said = nodes.end()
        if found := left(conftest.left_over, nodes, threads_before):
            problems.append(f"left over after the end: {found}")
    print(report)
    if problems:
        print(f"the processes said at last:\n{said[-3000:]}")
    assert not problems, "\n".join([f"{len(problems)} problems with seed {seed}", *problems])
    return report


def under_way(
    seconds: float, seed: int, nodes: Nodes, log: str, left_over: Any
) -> tuple[Report, list[str]]:
    ray.init(address=nodes.address, configure_logging=False, log_to_driver=False)
    deadline = time.monotonic() + START_S
    while len(ray.nodes()) < 3:
        assert time.monotonic() < deadline, "the nodes did not start"
        time.sleep(0.02)
    reaper = Reaper(nodes, pid_of_home(nodes), seconds, seed)
    reaper.start()
    stop = threading.Timer(seconds, reaper.over.set)
    stop.daemon = True
    stop.start()
    try:
        number, problems = work(seconds, seed, log)
    finally:
        reaper.over.set()
        reaper.join()
        stop.cancel()
        stop.join()
        ACTORS.clear()
    if found := left(left_over, nodes, 0):
        problems.append(f"left over: {found}")
    return Report(number, reaper.num_executors, reaper.num_nodes, counts(log)), problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    given = parser.parse_args()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    main(given.seconds, given.seed)
