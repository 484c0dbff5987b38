"""Many callers, many calls, sudden deaths, and loops without end."""

from __future__ import annotations

import os
import signal
import time

import pytest
from _polling import wait_for_files, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.timeout(120)
def test_the_calls_of_each_of_eight_callers_stay_in_their_order(ray):
    @ray.remote(num_cpus=0)
    class Log:
        def __init__(self):
            self.expected = {}

        def note(self, caller, number):
            in_order = self.expected.get(caller, 0) == number
            self.expected[caller] = number + 1
            return in_order

    @ray.remote(num_cpus=0)
    def call(log, caller, number):
        return ray.get([log.note.remote(caller, index) for index in range(number)])

    log = Log.remote()
    for answers in ray.get([call.remote(log, caller, 5000) for caller in range(8)]):
        assert len(answers) == 5000
        assert all(answers)


@pytest.fixture
def Writer(ray, cluster):
    """An actor class that leaves a line for each call that it begins, and stops at one of them."""

    @ray.remote(num_cpus=0)
    class Writer:
        def __init__(self, path):
            self.path = path

        def write(self, number, stop_at=None, stopped=None):
            with open(self.path, "a") as log:
                log.write(f"{number}\n")
            again = ray.get_runtime_context().was_current_actor_reconstructed
            if number == stop_at and not again:
                with open(stopped, "w") as file:
                    file.write(str(os.getpid()))
                time.sleep(3600)
            return number

    return Writer


def _pid(path):
    wait_for_files(path)
    wait_until(lambda: path.read_text())
    return int(path.read_text())


@pytest.mark.parametrize("restarts", [0, 1])
def test_without_retries_every_one_of_a_thousand_calls_ends_and_none_runs_twice(
    ray, Writer, tmp_path, restarts
):
    log, stopped = tmp_path / "log", tmp_path / "stopped"
    writer = Writer.options(max_restarts=restarts).remote(str(log))
    refs = [writer.write.remote(number, 400, str(stopped)) for number in range(1000)]
    assert ray.get(refs[:400], timeout=50) == list(range(400))
    os.kill(_pid(stopped), signal.SIGKILL)
    ready, rest = ray.wait(refs, num_returns=1000, timeout=50)
    assert len(ready) == 1000
    assert not rest
    for ref in refs[400:]:
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(ref)
    assert log.read_text().split() == [str(number) for number in range(401)]


def test_with_retries_every_one_of_a_thousand_calls_gives_its_result(ray, Writer, tmp_path):
    log, stopped = tmp_path / "log", tmp_path / "stopped"
    writer = Writer.options(max_restarts=1, max_task_retries=1).remote(str(log))
    refs = [writer.write.remote(number, 400, str(stopped)) for number in range(1000)]
    os.kill(_pid(stopped), signal.SIGKILL)
    assert ray.get(refs, timeout=50) == list(range(1000))
    lines = log.read_text().split()
    assert sorted(set(map(int, lines))) == list(range(1000))
    assert lines.count("400") == 2


def test_endless_workers_of_a_parameter_server_do_not_starve_other_calls(fresh):
    ray = fresh(num_cpus=2)

    @ray.remote
    class Parameters:
        def __init__(self):
            self.weights, self.pushes = [0.0] * 100, 0

        def pull(self):
            return self.weights

        def push(self, gradient):
            self.weights = [w + g for w, g in zip(self.weights, gradient, strict=True)]
            self.pushes += 1

        def count(self):
            return self.pushes

    @ray.remote(num_cpus=0.25)
    def work(parameters):
        while True:
            weights = ray.get(parameters.pull.remote())
            ray.get(parameters.push.remote([0.001] * len(weights)))

    @ray.remote
    def square(number):
        return number * number

    parameters = Parameters.remote()
    workers = [work.remote(parameters) for _ in range(4)]
    wait_until(lambda: ray.get(parameters.count.remote()) >= 40)
    assert ray.get([square.remote(number) for number in range(20)]) == [n * n for n in range(20)]
    before = ray.get(parameters.count.remote())
    wait_until(lambda: ray.get(parameters.count.remote()) >= before + 40)
    assert ray.wait(workers, timeout=0)[0] == []
    ray.shutdown()
