"""`ray.util.as_completed` and `map_unordered`, `log_once`, `ActorGroup`, `get_object_locations`."""

from __future__ import annotations

import importlib
import warnings

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def held(ray, cluster):
    """A remote function that returns its argument when a signal is sent, and the signal."""
    utils = importlib.import_module(f"{ray.__name__}._common.test_utils")
    signal = utils.SignalActor.remote()

    @ray.remote(num_cpus=0)
    def hold(value):
        ray.get(signal.wait.remote())
        return value

    return hold, signal


def test_as_completed_gives_what_is_ready_first(ray, held):
    hold, signal = held
    refs = [hold.remote("late"), ray.put("early")]
    results = ray.util.as_completed(refs, chunk_size=1)
    assert next(results) == "early"
    ray.get(signal.send.remote())
    assert list(results) == ["late"]


def test_as_completed_gives_everything(ray):
    refs = [ray.put(number) for number in range(25)]
    assert sorted(ray.util.as_completed(refs)) == list(range(25))


def test_as_completed_gives_references(ray):
    refs = [ray.put(number) for number in range(3)]
    assert set(ray.util.as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_as_completed_of_nothing(ray):
    assert list(ray.util.as_completed([])) == []


def test_as_completed_raises_a_tasks_error(ray):
    @ray.remote
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(ray.util.as_completed([fail.remote()]))


@pytest.mark.parametrize("options", [{"chunk_size": 0}, {"num_returns": 1}])
def test_as_completed_refuses(ray, options):
    with pytest.raises(ValueError):
        next(ray.util.as_completed([ray.put(1)], **options))


def test_map_unordered(ray):
    @ray.remote
    def square(x):
        return x * x

    assert sorted(ray.util.map_unordered(square, range(5))) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    "options", [{"backpressure_size": 1}, {"backpressure_size": None}, {"chunk_size": 2}]
)
def test_map_unordered_with_bounds(ray, options):
    @ray.remote
    def same(x):
        return x

    assert sorted(ray.util.map_unordered(same, range(6), **options)) == list(range(6))


def test_map_unordered_reads_no_more_than_it_has_room_for(ray):
    @ray.remote
    def same(x):
        return x

    read = []

    def items():
        for number in range(10):
            read.append(number)
            yield number

    results = ray.util.map_unordered(same, items(), backpressure_size=2, chunk_size=1)
    next(results)
    assert len(read) == 2
    results.close()


def test_map_unordered_takes_bound_methods_of_actors(ray):
    @ray.remote
    class Doubler:
        def double(self, x):
            return 2 * x

    actor = Doubler.remote()
    assert sorted(ray.util.map_unordered(actor.double, [1, 2])) == [2, 4]


@pytest.mark.parametrize(
    "options", [{"backpressure_size": 0}, {"chunk_size": 0}, {"num_returns": 1}]
)
def test_map_unordered_refuses(ray, options):
    with pytest.raises(ValueError):
        next(ray.util.map_unordered(None, [1], **options))


def test_log_once(ray):
    debug = importlib.import_module(f"{ray.__name__}.util.debug")
    assert ray.util.log_once("conformance a")
    assert not ray.util.log_once("conformance a")
    assert ray.util.log_once("conformance b")
    debug.reset_log_once("conformance a")
    assert ray.util.log_once("conformance a")
    assert not ray.util.log_once("conformance b")
    debug.reset_log_once()
    assert ray.util.log_once("conformance b")


def group_class(ray):
    return importlib.import_module(f"{ray.__name__}.util.actor_group").ActorGroup


@pytest.fixture
def group(ray, cluster):
    class Member:
        def __init__(self, number=0, by=1):
            self.number = number * by

        def get(self):
            return self.number

        def add(self, by):
            self.number += by
            return self.number

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = group_class(ray)(Member, 2, 0, init_args=(3,), init_kwargs={"by": 2})
    yield group
    group.shutdown(0)


def test_a_group_calls_all_its_actors(ray, group):
    assert len(group) == 2
    assert ray.get(group.get.remote()) == [6, 6]
    assert ray.get(group.add.remote(1)) == [7, 7]


def test_one_actor_of_a_group(ray, group):
    assert ray.get(group[0].actor.add.remote(by=5)) == 11
    assert ray.get(group.get.remote()) == [11, 6]


def test_a_group_grows_and_shrinks(ray, group):
    group.add_actors(1)
    assert len(group) == 3
    group.remove_actors([0, 1])
    assert ray.get(group.get.remote()) == [6]


def test_the_method_of_a_group_is_not_called_directly(group):
    with pytest.raises(TypeError, match="remote"):
        group.get()


def test_a_group_that_was_shut_down(group):
    group.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        group.get.remote()
    group.start()
    assert len(group) == 2
    with pytest.raises(RuntimeError, match="already been started"):
        group.start()


@pytest.mark.parametrize("options", [{"num_actors": 0}, {"num_cpus_per_actor": -1}])
def test_a_group_refuses(ray, options):
    with warnings.catch_warnings(), pytest.raises(ValueError):
        warnings.simplefilter("ignore")
        group_class(ray)(object, **options)


def test_the_location_of_a_large_object(ray):
    ref = ray.put(bytes(1_000_000))
    found = importlib.import_module(f"{ray.__name__}.experimental").get_object_locations([ref])
    assert found[ref]["node_ids"] == [ray.get_runtime_context().get_node_id()]
    assert found[ref]["object_size"] >= 1_000_000


def test_a_small_object_is_on_no_node(ray):
    @ray.remote
    def one():
        return 1

    ref = one.remote()
    ray.wait([ref])
    found = importlib.import_module(f"{ray.__name__}.experimental").get_object_locations([ref])
    assert found[ref]["node_ids"] == []


def test_what_is_being_made_is_nowhere(ray, held):
    hold, signal = held
    ref = hold.remote(1)
    found = importlib.import_module(f"{ray.__name__}.experimental").get_local_object_locations(
        [ref]
    )
    assert found[ref]["node_ids"] == []
    ray.get(signal.send.remote())
    ray.get(ref)
