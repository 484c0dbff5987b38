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
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import raycompat as ray

#: Seconds until a process that was started here must be there.
START_S = 60.0
#: Seconds after the last death in which everything must come to its end.
END_S = 120.0
#: Seconds until what is left counts as left over.
LEFT_S = 30.0
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

    def __init__(self, nodes: Nodes, home: int, options: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        self._nodes, self._home = nodes, home
        self._rng = random.Random(options.seed)
        self._every_s = options.kill_every
        begin = time.monotonic()
        self._node_deaths = [
            begin + options.seconds * (n + 1) / (options.node_deaths + 1)
            for n in range(options.node_deaths)
        ]
        self.num_executors = self.num_nodes = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(
            self._every_s
        ):  # the rhythm of the deaths, not a wait for something
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


def work(options: argparse.Namespace, log: str) -> tuple[int, list[str]]:
    """Run chains until the time is over; return how many, and what was wrong."""
    rng = random.Random(options.seed)
    begin = last_line = time.monotonic()
    ACTORS[:] = [Scale.remote() for _ in range(NUM_ACTORS)]
    start = ray.put(np.arange(LENGTH))
    wrong: list[str] = []
    chains: dict[Any, Chain] = {}
    number = 0
    while time.monotonic() < begin + options.seconds or chains:
        while len(chains) < NUM_CHAINS and time.monotonic() < begin + options.seconds:
            chain = Chain(number, log, start, rng)
            chains[chain.refs[0]] = chain
            number += 1
        ready, _ = ray.wait(list(chains), timeout=1.0)
        for ref in ready:
            wrong += filter(None, [chains.pop(ref).check(END_S)])
        now = time.monotonic()
        if now > begin + options.seconds + END_S:
            wrong += [f"chain {chain.number} has not ended" for chain in chains.values()]
            break
        if now - last_line > 5:
            last_line = now
            print(f"{now - begin:.0f} s: {number} chains, {len(wrong)} wrong", flush=True)
        if len(wrong) > 10:
            break
    return number, wrong


def left_on(pids: list[int]) -> list[str]:
    """Return the segments of live nodes, but free ones."""
    found = []
    for pid in pids:
        for path in Path("/dev/shm").glob(f"raycompat-{pid}.*"):
            if not path.name.endswith("-free"):
                found.append(path.name)
    return found


def nothing_left(left_over: Any, nodes: Nodes) -> dict[str, Any]:
    """Return what is left when it has had its time to go."""
    deadline = time.monotonic() + LEFT_S
    while True:
        gc.collect()
        left = dict(left_over(ray, 0))
        left |= {"on the nodes": found} if (found := left_on(list(nodes.workers))) else {}
        if not left or time.monotonic() > deadline:
            return left
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--kill-every", type=float, default=0.5, help="seconds")
    parser.add_argument("--node-deaths", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    print(f"chaos: {options}", flush=True)
    # The checks of the tests: what holds after each of them holds here.
    path = Path(__file__).resolve().parents[1] / "conftest.py"
    spec = importlib.util.spec_from_file_location("conftest_of_tests", path)
    assert spec is not None
    assert spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)

    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        log = str(Path(directory) / "executions")
        nodes = Nodes(Path(directory))
        try:
            problems = under_way(options, nodes, log, conftest.left_over)
        finally:
            ray.shutdown()
            said = nodes.end()
        print(counts(log))
    if found := conftest.left_over(ray, threading.active_count()):
        problems.append(f"left over after the end: {found}")
    for problem in problems:
        print(f"PROBLEM: {problem}")
    if problems:
        print(f"the processes said at last:\n{said[-3000:]}")
    return 1 if problems else 0


def under_way(options: argparse.Namespace, nodes: Nodes, log: str, left_over: Any) -> list[str]:
    ray.init(address=nodes.address, configure_logging=False, log_to_driver=False)
    deadline = time.monotonic() + START_S
    while len(ray.nodes()) < 3:
        assert time.monotonic() < deadline, "the nodes did not start"
        time.sleep(0.02)
    reaper = Reaper(nodes, pid_of_home(nodes), options)
    reaper.start()
    stop = threading.Timer(options.seconds, reaper.over.set)
    stop.daemon = True
    stop.start()
    try:
        number, problems = work(options, log)
    finally:
        reaper.over.set()
        reaper.join()
        stop.cancel()
        ACTORS.clear()
    if left := nothing_left(left_over, nodes):
        problems.append(f"left over: {left}")
    print(
        f"{number} chains with {len(problems)} problems while {reaper.num_executors} executors and "
        f"{reaper.num_nodes} nodes were killed"
    )
    return problems


if __name__ == "__main__":
    sys.exit(main())
