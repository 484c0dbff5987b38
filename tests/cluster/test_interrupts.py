"""Ctrl-C at any line of an operation leaves all of it, or nothing, and loses nothing."""

from __future__ import annotations

import time

import numpy as np
import psutil
import pytest
from _interruption import interruptions

import raycompat as ray
from raycompat._launch.process import those_left
from raycompat.dag import InputNode

pytestmark = [
    pytest.mark.timeout(600),
    # Python prints an interrupt that comes in a ``__del__``, and goes on.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@ray.remote(num_cpus=0)
class Named:
    def ping(self):
        return "pong"


@ray.remote(num_cpus=0)
class Sizes:
    def size(self, array):
        return array.nbytes


@ray.remote
def count(number):
    yield from range(number)


@ray.remote
def size(array):
    return array.nbytes


def has_actor(name):
    try:
        return ray.get(ray.get_actor(name).ping.remote(), timeout=30) == "pong"
    except ValueError:
        return False
    except ray.exceptions.RayActorError:  # the last handle has gone with the interrupt
        return False


def test_a_name_is_free_or_its_actor_there(cluster, wait_until):
    ray.get(Named.remote().ping.remote())
    for interruption in interruptions():
        actor = interruption.run(lambda: Named.options(name="one").remote())
        if actor is not None:
            assert ray.get(actor.ping.remote(), timeout=30) == "pong"
            del actor
        else:
            has_actor("one")  # true or false, but it does not wait for ever
        wait_until(lambda: not has_actor("one"))


def has_group(name):
    try:
        return ray.util.get_placement_group(name) is not None
    except ValueError:
        return False


def test_a_placement_group_is_there_or_not(cluster, wait_until):
    for interruption in interruptions():
        group = interruption.run(lambda: ray.util.placement_group([{"CPU": 1}], name="one"))
        if group is not None:
            assert group.wait(30)
            ray.util.remove_placement_group(group)
        wait_until(lambda: not has_group("one"))
    wait_until(lambda: ray.available_resources().get("CPU") == 2)


@pytest.mark.parametrize(
    "options", [{}, {"scheduling_strategy": "SPREAD"}], ids=["lease", "scheduler"]
)
def test_a_value_that_was_about_to_be_passed_is_there(cluster, options):
    call = size.options(**options)
    ray.get(call.remote(np.zeros(1)))
    for interruption in interruptions():
        ref = ray.put(np.zeros(30_000))
        interruption.run(lambda ref=ref: call.remote(ref))
        assert ray.get(call.remote(ref), timeout=30) == 240_000


def test_methods_run_after_one_whose_call_was_interrupted(cluster):
    actor = Sizes.remote()
    ray.get(actor.size.remote(np.zeros(1)))
    for interruption in interruptions():
        ref = ray.put(np.zeros(30_000))
        interruption.run(lambda ref=ref: actor.size.remote(ref))
        assert ray.get(actor.size.remote(ref), timeout=30) == 240_000


def test_a_put_is_there_or_not(cluster):
    array = np.zeros(30_000)
    for interruption in interruptions():
        ref = interruption.run(lambda: ray.put(array))
        if ref is not None:
            assert ray.get(ref, timeout=30).nbytes == 240_000


def test_no_item_of_a_generator_is_lost(cluster, wait_until):
    for waits in (False, True):
        for interruption in interruptions():
            items = count.options(scheduling_strategy="SPREAD").remote(4)
            if not waits:
                wait_until(lambda items=items: items._stream._ended)
            first = interruption.run(lambda items=items: next(items))
            got = [] if first is None else [ray.get(first)]
            assert got + [ray.get(ref) for ref in items] == [0, 1, 2, 3], interruption.where


@ray.remote(num_cpus=0)
class Answers:
    def fail(self):
        raise KeyError("no")

    def number(self, value=4):
        return value

    def count(self, number):
        yield from range(number)


def test_an_answer_that_is_interrupted_is_not_lost(cluster):
    actor = Answers.remote()
    ray.get(actor.number.remote())
    for interruption in interruptions():
        failing, value = actor.fail.remote(), actor.number.remote()
        dependent = actor.number.remote(size.remote(np.zeros(1)))
        items = actor.count.remote(4)
        interruption.run(lambda ref=value: ray.get(ref))
        interruption.run(lambda ref=dependent: ray.get(ref))
        with pytest.raises(KeyError):
            ray.get(failing, timeout=30)
        assert ray.get([value, dependent], timeout=30) == [4, 8]
        assert [ray.get(ref, timeout=30) for ref in items] == [0, 1, 2, 3], interruption.where


@pytest.mark.parametrize("first", [40, 250])
def test_shutdown_ends_everything(no_cluster, first):
    before = set(psutil.Process().children(recursive=True))
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    ray.get(size.remote(np.zeros(1)))
    started = set(psutil.Process().children(recursive=True)) - before
    assert len(started) >= 4
    interruption = next(interruptions(first))
    start = time.monotonic()
    interruption.run(ray.shutdown)
    ray.shutdown()
    assert time.monotonic() - start < 30
    assert not those_left(started, 1), interruption.where
    assert not ray.is_initialized()


@pytest.mark.parametrize("first", [900])
def test_an_interrupted_init_leaves_nothing(no_cluster, first):
    before = set(psutil.Process().children(recursive=True))
    interruption = next(interruptions(first))
    interruption.run(lambda: ray.init(num_cpus=1, include_dashboard=False, configure_logging=False))
    ray.shutdown()
    started = set(psutil.Process().children(recursive=True)) - before
    assert not those_left(started, 5), interruption.where


@ray.remote(num_cpus=0)
class Echo:
    def echo(self, value):
        return value


def compiled(actor):
    with InputNode() as value:
        return actor.echo.bind(value).experimental_compile()


@pytest.mark.parametrize("num_bytes", [8, 1 << 20])
def test_a_compiled_graph_gives_the_results_of_its_inputs_or_ends(cluster, num_bytes):
    actor = Echo.remote()
    graph = compiled(actor)
    for number, interruption in enumerate(interruptions()):
        value = np.full(num_bytes // 8, number)
        interruption.run(lambda value=value: ray.get(graph.execute(value)))
        try:
            got = ray.get(graph.execute(number), timeout=30)
        except ray.exceptions.RayChannelError as error:
            assert "Ctrl-C" in str(error)
            graph = compiled(actor)
            got = ray.get(graph.execute(number), timeout=30)
        assert got == number
    graph.teardown()
