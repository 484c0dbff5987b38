"""`ray.env`: values that each process makes for itself, once; Ray's way of 2017."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import raycompat as ray
from raycompat._caller import environment_variables
from raycompat.exceptions import UnsupportedRayFeatureError


class Unpicklable:
    """Something like a graph: made where it is used, by calls that are counted."""

    def __init__(self, label="first"):
        self.label = label
        self.pid = os.getpid()
        self.uses = 0
        self.resets = 0
        self.lock = threading.Lock()

    def use(self):
        self.uses += 1
        return self.pid, self.uses, self.resets


def reset(value):
    value.uses = 0
    value.resets += 1
    return value


@ray.remote
def use():
    return (os.getpid(), *ray.env.thing.use(), id(ray.env.thing))


@pytest.fixture(autouse=True)
def no_variables():
    """Nothing is defined, before and after."""
    environment_variables._definitions.clear()
    yield
    environment_variables._definitions.clear()


@pytest.fixture
def thing(cluster):
    ray.env.thing = ray.EnvironmentVariable(Unpicklable, reset)


def test_threads_of_a_task_may_read_a_variable_at_once(thing):
    @ray.remote
    def read_in_threads():
        together = threading.Barrier(4)

        def read():
            together.wait()
            return id(ray.env.thing)

        with ThreadPoolExecutor(4) as pool:
            return {each.result() for each in [pool.submit(read) for _ in range(4)]}

    assert len(ray.get(read_in_threads.remote())) == 1


def test_each_process_makes_its_own_value_once(thing):
    assert ray.env.thing is ray.env.thing
    assert ray.env.thing.pid == os.getpid()
    seen = {}
    for pid, made_by, _, resets, identity in ray.get([use.remote() for _ in range(40)]):
        assert made_by == pid != os.getpid()
        seen.setdefault(pid, []).append((identity, resets))
    for calls in seen.values():
        assert len({identity for identity, _ in calls}) == 1
        assert sorted(resets for _, resets in calls) == list(range(len(calls)))


def test_the_reinitializer_runs_after_each_task_that_used_the_variable(thing):
    @ray.remote
    def idle():
        return os.getpid()

    for _ in range(10):
        _, _, uses, _, _ = ray.get(use.remote())
        assert uses == 1
        ray.get(idle.remote())


def test_a_task_that_fails_leaves_a_value_put_right(thing):
    @ray.remote(num_cpus=2)
    def fail():
        ray.env.thing.use()
        raise ZeroDivisionError

    @ray.remote(num_cpus=2)
    def look():
        return ray.env.thing.use()[1:]

    _, before = ray.get(look.remote())
    with pytest.raises(ZeroDivisionError):
        ray.get(fail.remote())
    assert ray.get(look.remote()) == (1, before + 2)


def test_without_a_reinitializer_the_value_stays_as_it_is(cluster):
    ray.env.counts = ray.EnvironmentVariable(lambda: [0])

    @ray.remote(num_cpus=2)
    def count():
        ray.env.counts[0] += 1
        return ray.env.counts[0]

    assert [ray.get(count.remote()) for _ in range(3)] == [1, 2, 3]
    assert ray.env.counts == [0]


def test_what_the_reinitializer_returns_is_the_next_value(cluster):
    ray.env.generation = ray.EnvironmentVariable(lambda: 0, lambda number: number + 1)

    @ray.remote(num_cpus=2)
    def generation():
        return ray.env.generation

    assert [ray.get(generation.remote()) for _ in range(3)] == [0, 1, 2]
    assert ray.env.generation == ray.env.generation == 0


@pytest.mark.parametrize("options", [{"num_cpus": 1}, {"num_gpus": 1}], ids=["lease", "scheduler"])
def test_a_new_definition_reaches_running_executors(thing, options):
    @ray.remote(**options)
    def label():
        return ray.env.thing.label

    for number in range(3):
        ray.env.thing = ray.EnvironmentVariable(lambda number=number: Unpicklable(number))
        assert ray.env.thing.label == number
        assert set(ray.get([label.remote() for _ in range(4)])) == {number}


def test_a_new_definition_leaves_other_variables_alone(thing):
    ray.env.other = ray.EnvironmentVariable(lambda: "a")

    @ray.remote(num_cpus=2)
    def both():
        return id(ray.env.thing), ray.env.other

    before, other = ray.get(both.remote())
    assert other == "a"
    ray.env.other = ray.EnvironmentVariable(lambda: "b")
    assert ray.get(both.remote()) == (before, "b")


def test_an_actor_sees_what_was_defined_before_each_call(cluster):
    @ray.remote
    class Reader:
        def __init__(self):
            self.first = ray.env.shade

        def read(self):
            return self.first, ray.env.shade

    ray.env.shade = ray.EnvironmentVariable(lambda: "red")
    reader = Reader.remote()
    assert ray.get(reader.read.remote()) == ("red", "red")
    ray.env.shade = ray.EnvironmentVariable(lambda: "blue")
    assert ray.get(reader.read.remote()) == ("red", "blue")


def test_an_actor_sees_the_variables_of_its_own_driver(cluster, tmp_path):
    @ray.remote
    class Reader:
        def read(self):
            return ray.env.shade

    ray.env.shade = ray.EnvironmentVariable(lambda: "mine")
    reader = Reader.options(name="reader", namespace="shades").remote()
    assert ray.get(reader.read.remote()) == "mine"
    address = ray.get_runtime_context().gcs_address
    program = tmp_path / "other_driver.py"
    program.write_text(
        "import raycompat as ray\n"
        f"ray.init(address={address!r}, namespace='shades', configure_logging=False)\n"
        "for number in range(5):\n"
        "    ray.env.shade = ray.EnvironmentVariable(lambda: 'yours')\n"
        "reader = ray.get_actor('reader')\n"
        "assert ray.get(reader.read.remote(), timeout=60) == 'mine'\n"
    )
    path = os.pathsep.join(sys.path)
    subprocess.run(
        [sys.executable, program], check=True, timeout=100, env={**os.environ, "PYTHONPATH": path}
    )
    assert ray.get(reader.read.remote()) == "mine"


def test_tasks_of_tasks_see_what_their_caller_sees(cluster):
    ray.env.depth = ray.EnvironmentVariable(lambda: "deep")

    @ray.remote
    def inner():
        return ray.env.depth

    @ray.remote
    def outer():
        return ray.get(inner.remote())

    assert ray.get(outer.remote()) == "deep"
    ray.env.depth = ray.EnvironmentVariable(lambda: "deeper")
    assert ray.get(outer.remote()) == "deeper"


def test_an_initializer_may_use_other_variables_and_references(cluster):
    def define(data):
        ray.env.data = ray.EnvironmentVariable(lambda: ray.get(data))

    define(ray.put(np.arange(1000)))
    ray.env.total = ray.EnvironmentVariable(lambda: int(ray.env.data.sum()))

    @ray.remote
    def total():
        return ray.env.total

    assert ray.get([total.remote() for _ in range(4)]) == [499500] * 4


def test_an_error_in_the_initializer_is_that_of_the_task(cluster):
    def initialize():
        raise LookupError("no such model")

    ray.env.broken = ray.EnvironmentVariable(initialize)

    @ray.remote
    def read():
        return ray.env.broken

    with pytest.raises(LookupError, match="no such model"):
        ray.get(read.remote())
    with pytest.raises(LookupError, match="no such model"):
        ray.env.broken  # noqa: B018
    ray.env.broken = ray.EnvironmentVariable(lambda: "mended")
    assert ray.get(read.remote()) == ray.env.broken == "mended"


def test_an_error_in_the_reinitializer_is_that_of_the_task(cluster):
    def reinitialize(value):
        raise LookupError("cannot put it right")

    ray.env.odd = ray.EnvironmentVariable(Unpicklable, reinitialize)

    @ray.remote(num_cpus=2)
    def read(what):
        return ray.env.odd.use()[1], what

    for _ in range(2):  # the value is made again
        with pytest.raises(LookupError, match="cannot put it right"):
            ray.get(read.remote(np.zeros(1_000_000)))


def test_both_a_task_and_its_reinitializer_may_fail(cluster):
    def reinitialize(value):
        raise LookupError("cannot put it right")

    ray.env.odd = ray.EnvironmentVariable(lambda: 1, reinitialize)

    @ray.remote
    def fail():
        return ray.env.odd / 0

    with pytest.raises(ZeroDivisionError):
        ray.get(fail.remote())


def test_a_variable_that_is_not_defined(cluster):
    @ray.remote
    def read():
        return ray.env.nothing_of_the_kind

    with pytest.raises(AttributeError, match="ray.env has no variable 'nothing_of_the_kind'"):
        ray.env.nothing_of_the_kind  # noqa: B018
    with pytest.raises(AttributeError, match="Define it in the driver, before the call"):
        ray.get(read.remote())


def test_what_cannot_be_pickled_is_named(cluster):
    lock = threading.Lock()
    ray.env.locked = ray.EnvironmentVariable(lambda: lock)

    @ray.remote
    def nothing():
        return None

    try:
        with pytest.raises(TypeError, match="environment variable locked"):
            nothing.remote()
    finally:
        ray.env.locked = ray.EnvironmentVariable(threading.Lock)
    assert ray.get(nothing.remote()) is None


def test_variables_are_defined_in_the_driver(cluster):
    @ray.remote
    def define():
        ray.env.mine = ray.EnvironmentVariable(int)

    with pytest.raises(RuntimeError, match="Assign it there, before the call"):
        ray.get(define.remote())


@pytest.mark.parametrize("kind", ["async", "threads"])
def test_actors_that_run_several_calls_at_once_refuse(thing, kind):
    class Threaded:
        def read(self):
            return ray.env.thing.label

    class Async:
        async def read(self):
            return ray.env.thing.label

    actor = ray.remote(Async) if kind == "async" else ray.remote(max_concurrency=2)(Threaded)
    with pytest.raises(UnsupportedRayFeatureError, match=r"the value in the actor's __init__"):
        ray.get(actor.remote().read.remote())


def test_generators_are_put_right_at_their_end(thing):
    @ray.remote(num_cpus=2)
    def stream():
        for _ in range(3):
            yield ray.env.thing.use()[1]

    for _ in range(2):
        assert [ray.get(ref) for ref in stream.remote()] == [1, 2, 3]


def test_what_is_no_environment_variable():
    with pytest.raises(TypeError, match=r"ray.env.number = 5: expected a ray.EnvironmentVariable"):
        ray.env.number = 5
    with pytest.raises(TypeError, match="initializer is 5; expected a function"):
        ray.EnvironmentVariable(5)
    with pytest.raises(TypeError, match="reinitializer is 5; expected a function"):
        ray.EnvironmentVariable(int, 5)
    with pytest.raises(TypeError, match="initializer is None"):
        ray.EnvironmentVariable(None)
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del ray.env.thing
    assert pickle.loads(pickle.dumps(ray.env)) is ray.env


def test_variables_may_be_defined_before_init_and_outlive_shutdown(no_cluster):
    ray.env.early = ray.EnvironmentVariable(lambda: os.getpid())

    @ray.remote
    def early():
        return ray.env.early == os.getpid()

    for _ in range(2):
        ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
        assert ray.get(early.remote())
        ray.shutdown()
