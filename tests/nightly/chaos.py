"""Tasks, actors and large objects, while processes and nodes are killed or stopped: ``make chaos``.

A Dask scheduler and three Dask workers, which are the nodes. Every half second an executor, chosen
at random, is killed or stopped (SIGSTOP). One that is stopped goes on some seconds later, or is killed
by its node when it has been stopped for too long. One node is killed and one is stopped for good,
never the driver's own, and each time another one is added. Every value must be what plain Python says,
every call must have run, and nothing must be left over.

``python tests/nightly/chaos.py --seconds 120 --seed 7`` makes the same calls and the same
choices again; which process is hit at which moment is up to the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil

import raycompat as ray
from raycompat._caller import current_session
from raycompat._messages.nodes import ClusterState
from raycompat._node.pulse import NAME as PULSE
from raycompat._protocol import liveness

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "cluster")]

from _dask_cluster import DaskCluster  # noqa: E402
from _left_over import LeftOver  # noqa: E402

#: Where the workers say that they are.
HOSTS = ("127.0.0.1", "127.0.0.1", "127.0.0.2")
NUM_NODE_KILLS = 2
#: Seconds between two executors that are killed or stopped, and how many of these are stopped.
PERIOD_S, STOPPED = 0.5, 1 / 3
#: Seconds for which a process may be stopped before it is killed.
TIMEOUT_S = 6.0
#: Rounds that are under way at once.
NUM_ROUNDS_AHEAD = 4
NUM_ACTORS = 3
#: Seconds after which a missing value counts as lost.
GET_S = 120.0
#: Seconds after which what is still there counts as left over. More than the 30 s for which a node
#: keeps what it has set aside for a reader, as that may have been killed.
LEFT_S = 60.0
#: Bytes of a large object.
LARGE = 10_000_000


# --- what is computed ---------------------------------------------------------------------------


class Python:
    """Calls functions at once: what everything must be equal to."""

    def __init__(self) -> None:
        self.labels: set[str] = set()

    def executed(self, label: str) -> None:
        self.labels.add(label)

    def call(self, function: Callable[..., Any], label: str, *args: Any) -> Any:
        return function(self, label, *args)

    def actor(self, label: str, *args: Any) -> Any:
        return Scale(self, label, *args)

    def method(self, actor: Any, name: str, label: str, *args: Any) -> Any:
        return getattr(actor, name)(label, *args)

    def get(self, value: Any) -> Any:
        return value


class Cluster:
    """Calls them as tasks that are retried for ever."""

    def __init__(self, log: str) -> None:
        self._log = log

    def executed(self, label: str) -> None:
        """One line for each execution; one write, so that no kill leaves half of it."""
        number = os.open(self._log, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(number, f"{label}\n".encode())
        finally:
            os.close(number)

    def call(self, function: Callable[..., Any], label: str, *args: Any) -> Any:
        return REMOTE[function.__name__].remote(self, label, *args)

    def actor(self, label: str, *args: Any) -> Any:
        return RemoteScale.remote(self, label, *args)

    def method(self, actor: Any, name: str, label: str, *args: Any) -> Any:
        return getattr(actor, name).remote(label, *args)

    def get(self, value: Any) -> Any:
        return ray.get(value, timeout=GET_S)


def checksum(array: np.ndarray) -> int:
    return zlib.crc32(memoryview(array))


def make(at: Any, label: str, number: int) -> np.ndarray:
    """Return a large object."""
    at.executed(label)
    return np.frombuffer(random.Random(number).randbytes(LARGE), dtype=np.uint8)


def mix(at: Any, label: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a large object made of two."""
    at.executed(label)
    return first ^ np.roll(second, 1)


def weigh(at: Any, label: str, array: np.ndarray) -> int:
    at.executed(label)
    return checksum(array)


def add(at: Any, label: str, *numbers: int) -> int:
    at.executed(label)
    return sum(numbers) % 1_000_003


def first_of(at: Any, label: str, numbers: list[int]) -> int:
    at.executed(label)
    return numbers[0]


def weigh_inside(at: Any, label: str, nested: dict[str, list[Any]]) -> list[int]:
    """Look at large objects that are given as references inside of something."""
    at.executed(label)
    return [checksum(at.get(each)) for each in nested["inside"]]


def fan_out(at: Any, label: str, number: int, width: int) -> int:
    """Call tasks and wait for them."""
    at.executed(label)
    made = [at.call(make, f"{label}.make{i}", number + i) for i in range(width)]
    weights = [at.call(weigh, f"{label}.weigh{i}", each) for i, each in enumerate(made)]
    return at.get(at.call(add, f"{label}.add", *weights))


def pass_up(at: Any, label: str, number: int) -> dict[str, list[Any]]:
    """Return references to what this task has only just asked for."""
    at.executed(label)
    first = at.call(make, f"{label}.make", number)
    return {"inside": [first, at.call(mix, f"{label}.mix", first, first)]}


def ask(at: Any, label: str, actor: Any, array: np.ndarray) -> int:
    """Call an actor's method with a large argument and wait for it."""
    at.executed(label)
    return at.get(at.method(actor, "weigh", f"{label}.weigh", array[: LARGE // 2].copy()))


REMOTE = {
    function.__name__: ray.remote(max_retries=-1)(function)
    for function in (make, mix, weigh, add, first_of, weigh_inside, fan_out, pass_up, ask)
}


class Scale:
    """Its state is what it was made of, as whatever else it had is gone after a restart."""

    def __init__(self, at: Any, label: str, tare: np.ndarray) -> None:
        at.executed(label)
        self.at = at
        self.tare = tare

    def weigh(self, label: str, array: np.ndarray) -> int:
        self.at.executed(label)
        return checksum(array) ^ checksum(self.tare)

    def weigh_inside(self, label: str, nested: dict[str, list[Any]]) -> list[int]:
        return weigh_inside(self.at, label, nested)

    def add(self, label: str, *numbers: int) -> int:
        return add(self.at, label, *numbers)


# Tasks wait for actors, so these must not wait for the tasks' CPUs.
RemoteScale = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Scale)


@dataclass
class Round:
    """Some calls, each of which may use what those before it give."""

    label: str
    seed: int

    def run(self, at: Any, actors: list[Any], given: Any) -> list[Any]:
        """Make the calls; return what they give, or references to that."""
        choose = random.Random(self.seed)
        numbers: list[Any] = []
        arrays = [given, at.call(make, f"{self.label}.first", choose.randrange(1000))]
        nested: list[Any] = []
        for i in range(choose.randint(4, 16)):
            self._one(at, choose, f"{self.label}.{i}", actors, numbers, arrays, nested)
        shown = [at.call(weigh_inside, f"{self.label}.up{i}", up) for i, up in enumerate(nested)]
        return [*numbers, *shown, arrays[-1]]

    @staticmethod
    def _one(
        at: Any,
        choose: random.Random,
        label: str,
        actors: list[Any],
        numbers: list[Any],
        arrays: list[Any],
        nested: list[Any],
    ) -> None:
        kind = choose.randrange(10)
        actor, array, other = choose.choice(actors), choose.choice(arrays), choose.choice(arrays)
        inside = {"inside": [choose.choice(arrays) for _ in range(choose.randint(1, 3))]}
        few = choose.sample(numbers, min(len(numbers), 3))
        number, width = choose.randrange(1000), choose.randint(1, 3)
        if kind <= 1:
            arrays.append(at.call(mix, label, array, other))
        elif kind == 2:
            numbers.append(at.call(weigh, label, array))
        elif kind == 3:
            numbers.append(at.call(add, label, number, *few))
        elif kind == 4:
            weights = at.call(weigh_inside, label, inside)
            numbers.append(at.call(first_of, f"{label}.one", weights))
        elif kind == 5:
            numbers.append(at.call(fan_out, label, number, width))
        elif kind == 6:
            nested.append(at.call(pass_up, label, number))
        elif kind == 7:
            numbers.append(at.call(ask, label, actor, array))
        elif kind == 8:
            numbers.append(at.method(actor, "weigh", label, array))
        else:
            weights = at.method(actor, "weigh_inside", label, inside)
            one = at.call(first_of, f"{label}.one", weights)
            numbers.append(at.method(actor, "add", f"{label}.add", one, *few))


# --- what is killed -----------------------------------------------------------------------------


@dataclass
class Killer:
    """Kills and stops executors all the time, and nodes now and then, until it is closed."""

    cluster: Any
    seed: int
    #: Seconds after the start at which a node dies.
    node_times: list[float]
    num_executors: int = 0
    num_stopped: int = 0
    num_nodes: int = 0
    error: BaseException | None = None
    _closed: threading.Event = field(default_factory=threading.Event)
    #: Executors that are stopped, and when each is to go on.
    _stopped: list[tuple[float, psutil.Process]] = field(default_factory=list)

    def __enter__(self) -> Killer:
        self._home = self.cluster.home
        self._thread = threading.Thread(target=self._run, name="killer")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        choose = random.Random(self.seed)
        began = time.monotonic()
        try:
            while not self._closed.wait(PERIOD_S):
                is_time = time.monotonic() - began >= [*self.node_times, np.inf][self.num_nodes]
                if is_time:
                    self._end_node(choose)
                else:
                    self._hit_executor(choose)
                self._continue_executors()
        except BaseException as error:
            self.error = error

    def _nodes(self) -> set[int]:
        """Return the workers that are nodes by now; without the driver's own, which has its values."""
        nodes = current_session.get().rpc(ClusterState())["nodes"]
        return {node["pid"] for node in nodes} - {self._home}

    def _alive(self) -> list[int]:
        return [pid for pid, each in self.cluster.workers.items() if each.poll() is None]

    def _end_node(self, choose: random.Random) -> None:
        """Kill a node, or stop its process for good."""
        victim = choose.choice(sorted(self._nodes().intersection(self._alive())))
        process = self.cluster.workers[victim]
        host = process.args[process.args.index("--host") + 1]
        if self.num_nodes % 2:
            process.send_signal(signal.SIGSTOP)
        else:
            process.kill()
            process.wait()
        self.cluster.add_worker(host)
        self.num_nodes += 1

    def _hit_executor(self, choose: random.Random) -> None:
        """Kill or stop a child of a node's forkserver; psutil sees to it that it is still the same.

        The node's pulse is spared: a node that is stopped, and has none, is there for ever.
        """
        executors: list[psutil.Process] = []
        for node in self._alive():
            with suppress(psutil.NoSuchProcess):
                for forkserver in psutil.Process(node).children():
                    executors.extend(each for each in forkserver.children() if each.name() != PULSE)
        if not executors:
            return
        victim, seconds = choose.choice(executors), choose.uniform(0, 2 * TIMEOUT_S)
        is_stopped = choose.random() < STOPPED
        with suppress(psutil.NoSuchProcess):
            if is_stopped:
                victim.suspend()
                self._stopped.append((time.monotonic() + seconds, victim))
                self.num_stopped += 1
            else:
                victim.kill()
                self.num_executors += 1

    def _continue_executors(self) -> None:
        now = time.monotonic()
        for when, process in self._stopped:
            if when <= now:
                with suppress(psutil.NoSuchProcess):  # it was stopped for too long
                    process.resume()
        self._stopped = [each for each in self._stopped if each[0] > now]


# --- together -----------------------------------------------------------------------------------


@dataclass
class Report:
    seed: int
    seconds: float = 0.0
    num_rounds: int = 0
    num_calls: int = 0
    num_executors_killed: int = 0
    num_executors_stopped: int = 0
    num_nodes_killed: int = 0
    num_executions_again: int = 0

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.num_calls} calls in {self.num_rounds} rounds and "
            f"{self.seconds:.0f} s; {self.num_executors_killed} executors killed, "
            f"{self.num_executors_stopped} stopped; {self.num_nodes_killed} nodes killed or stopped; "
            f"{self.num_executions_again} executions beyond the first"
        )


def main(seconds: float, seed: int) -> Report:
    """Run for that long and until all values are there; raise if anything is wrong."""
    _say(f"chaos for {seconds:.0f} s, seed {seed}")
    left_over = LeftOver()
    report = Report(seed)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as directory,
        patch.dict(os.environ, {liveness.VARIABLE: str(TIMEOUT_S)}),
    ):
        cluster = DaskCluster(Path(directory))
        try:
            for host in HOSTS:
                cluster.add_worker(host)
            cluster.connect()
            log = Path(directory) / "executions"
            log.touch()
            _run(cluster, seconds, report, log)
            left_over.wait_until_none(LEFT_S)
        finally:
            ray.shutdown()
            cluster.close()
        left_over.wait_until_none(LEFT_S)
    return report


def _run(cluster: Any, seconds: float, report: Report, log: Path) -> None:
    began = said = time.monotonic()
    at, python = Cluster(str(log)), Python()
    given = np.frombuffer(random.Random(report.seed).randbytes(LARGE), dtype=np.uint8)
    # A value that was put is lost with its node, so this one alone is, at home.
    put = ray.put(given)
    there, here = _actors(at), _actors(python)
    seeds = random.Random(report.seed)
    under_way: deque[tuple[Round, list[Any]]] = deque()
    node_times = [seconds * (i + 1) / (NUM_NODE_KILLS + 1) for i in range(NUM_NODE_KILLS)]
    with Killer(cluster, report.seed, node_times) as killer:
        while time.monotonic() < began + seconds or killer.num_nodes < NUM_NODE_KILLS:
            assert killer.error is None, f"the killer has died: {killer.error!r}"
            if len(under_way) == NUM_ROUNDS_AHEAD:
                _check(*under_way.popleft(), python, here, given)
            this = Round(f"round{report.num_rounds}", seeds.randrange(2**32))
            under_way.append((this, this.run(at, there, put)))
            report.num_rounds += 1
            if time.monotonic() >= said + 10:
                said = time.monotonic()
                _say(
                    f"{said - began:.0f} s: {report.num_rounds} rounds, {killer.num_executors} "
                    f"executors killed, {killer.num_stopped} stopped, {killer.num_nodes} nodes ended"
                )
        while under_way:
            _check(*under_way.popleft(), python, here, given)
    assert killer.error is None, f"the killer has died: {killer.error!r}"
    executed = Counter(log.read_text().split())
    differing = sorted(set(executed) ^ python.labels)
    assert not differing, f"executed here and not there, or there and not here: {differing}"
    report.seconds = time.monotonic() - began
    report.num_calls = len(executed)
    report.num_executors_killed = killer.num_executors
    report.num_executors_stopped = killer.num_stopped
    report.num_nodes_killed = killer.num_nodes
    report.num_executions_again = executed.total() - len(executed)


def _actors(at: Any) -> list[Any]:
    tares = [at.call(make, f"tare{i}", i) for i in range(NUM_ACTORS)]
    return [at.actor(f"actor{i}", tare) for i, tare in enumerate(tares)]


def _check(this: Round, refs: list[Any], python: Python, actors: list[Any], given: Any) -> None:
    expected = this.run(python, actors, given)
    try:
        values = ray.get(refs, timeout=GET_S)
    except ray.exceptions.GetTimeoutError:
        there = [bool(ray.wait([ref], timeout=0)[0]) for ref in refs]
        raise AssertionError(f"{this} hangs; which of its values are there: {there}") from None
    for i, (value, wanted) in enumerate(zip(values, expected, strict=True)):
        assert np.array_equal(value, wanted), f"value {i} of {this}: {value}, not {wanted}"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(main(options.seconds, options.seed))
